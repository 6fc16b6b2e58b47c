"""`%` and `str.format` with budgets: widths are limited and fields reach plain data only."""

from __future__ import annotations

import re
from _string import formatter_field_name_split  # type: ignore[import-not-found]  # used by `string.Formatter`, but without a stub
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any, Final

from jinja2.runtime import Undefined

from noetl_core.expr.errors import LimitExceeded, TemplateError
from noetl_core.expr.evaluation_limits import FIELD_WIDTH
from noetl_core.expr.reading import Reading

_PERCENT: Final = re.compile(r"%(?:\(([^)]*)\))?[-#0 +]*(\*|\d{1,12})?(?:\.(\*|\d{0,12}))?[hlL]?(.|$)", re.DOTALL)
QUOTED: Final = 10
"""The most characters that Python's notation of a text (`%r`, `!r`) has for each of its own."""
_WIDTHS: Final = re.compile(r"\d+")


def percent(ev: Reading, template: str, values: Any) -> str:
    """`'%s: %d' % (a, b)`; also the `format` filter."""
    total = len(template)
    quoted = False
    names: list[str] = []
    for name, width, precision, kind in _PERCENT.findall(template):
        quoted = quoted or kind in ("r", "a")
        if name:
            names.append(name)
        if "*" in (width, precision):
            raise TemplateError("a format with a variable width ('*') is not supported")
        if kind != "%" and (kind not in "diouxXeEfFgGcrsa" or not kind):
            raise TemplateError(f"unsupported format character {kind!r}")
        total += width_of(width) + width_of(precision)
    ev.charge(total)
    values = _printable(ev, values)
    if isinstance(values, dict):
        texts = [value for value in (values.get(name) for name in names) if type(value) is str]
    else:
        texts = [value for value in (values if isinstance(values, tuple) else (values,)) if type(value) is str]
    ev.charge_joined(sum(map(len, texts)) * (QUOTED if quoted else 1), template, *texts)
    try:
        text: str = template % values
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise TemplateError(f"format: {error}") from None
    ev.charge(len(text))
    return text


def width_of(digits: str) -> int:
    """Return a width or precision of a format, checked."""
    width = int(digits) if digits else 0
    if width > FIELD_WIDTH:
        raise LimitExceeded(f"a field wider than {FIELD_WIDTH} characters")
    return width


def _printable(ev: Reading, values: Any) -> Any:
    if isinstance(values, tuple):
        return tuple(_one(ev, v) for v in values)
    if isinstance(values, dict):
        return {k: _one(ev, v) for k, v in values.items()}
    return _one(ev, values)


def _one(ev: Reading, value: Any) -> Any:
    if type(value) in (int, float, bool):
        return value
    text = ev.text(value)
    ev.charge(len(text))
    return text


class DataFormatter(Formatter):
    """`str.format` whose fields are looked up as in a template."""

    def __init__(self, ev: Reading) -> None:
        self._ev = ev

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        first, rest = formatter_field_name_split(field_name)
        value = self.get_value(first, args, kwargs)
        for is_attribute, key in rest:
            value = self._ev.getattr(value, key) if is_attribute else self._ev.getitem(value, key)
        return value, first

    def format_field(self, value: Any, format_spec: str) -> str:
        for digits in _WIDTHS.findall(format_spec[:64]):
            width_of(digits)
        if len(format_spec) > 64:
            raise LimitExceeded("a format specification longer than 64 characters")
        if isinstance(value, Undefined) or type(value) not in (int, float, bool, str):
            value = self._ev.text(value)
        text = format(value, format_spec)
        self._ev.charge(len(text))
        return text

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion is None:
            return value
        text = self._ev.text(value)
        self._ev.charge_text(text, 1 if conversion == "s" else QUOTED)
        return text if conversion == "s" else repr(value if type(value) in (int, float, bool, str) else text)


def str_format(ev: Reading, template: str, /, *args: Any, **kwargs: Any) -> str:
    """`'{} {name}'.format(...)`."""
    try:
        text = DataFormatter(ev).vformat(template, args, kwargs)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise TemplateError(f"format: {error}") from None
    ev.charge(len(text))
    return text
