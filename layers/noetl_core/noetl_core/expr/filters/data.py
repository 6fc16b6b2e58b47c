"""Filters that change the form of data: JSON, base64, numbers."""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import Any

from noetl_core.expr.errors import LimitExceeded, TemplateError, UndefinedValue
from noetl_core.expr.evaluation import Evaluation
from noetl_core.expr.evaluation_limits import DATA_DEPTH
from noetl_core.expr.filters.registry import filter_, is_undefined, raw_filter, text_filter
from noetl_core.expr.methods import WHITESPACE, bounded
from noetl_core.expr.operators import number


@raw_filter("default", "d")
def default(ev: Evaluation, value: Any, fallback: Any = "", boolean: bool = False) -> Any:
    """Return `value`, or `fallback` if it is undefined at any point of its path (with `boolean`: if it is falsy)."""
    ev.tick()
    return fallback if is_undefined(value) or (boolean and not ev.truth(value)) else value


@filter_("tojson")
def tojson(ev: Evaluation, value: Any, indent: int | None = None) -> str:
    """Return JSON that every parser accepts: no HTML escaping, keys in their order, text as it is. Raises for undefined and
    NaN."""
    if indent is not None and bounded(indent) > 16:
        raise TemplateError("tojson: an indent of at most 16")
    plain = ev.plain(value, undefined_ok=False)
    ev.charge(ev.weight * (1 if indent is None else 1 + indent))
    try:
        return json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:
        raise TemplateError("tojson: JSON has no NaN and no infinity") from None


@text_filter("fromjson")
def fromjson(ev: Evaluation, text: str) -> Any:
    """Return the data of a JSON text."""
    ev.charge(len(text) * 4)
    ev.tick(len(text) >> 4)
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # text with half of a surrogate pair cannot be stored
    except RecursionError:
        raise LimitExceeded(f"fromjson: data nests deeper than {DATA_DEPTH}") from None
    except ValueError as error:
        raise TemplateError(f"fromjson: {error}") from None
    return value


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_constant(text[:40])


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


@text_filter("b64encode")
def b64encode(ev: Evaluation, text: str) -> str:
    """Return base64 of the text's UTF-8 bytes."""
    ev.charge(len(text) * 6)
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")


@text_filter("b64decode")
def b64decode(ev: Evaluation, text: str) -> str:
    """Return the text that base64 encodes (either alphabet, padding optional)."""
    ev.charge_text(text, 4)
    for space in WHITESPACE:
        text = text.replace(space, "")
    compact = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True).decode("utf-8")
    except binascii.Error:
        raise TemplateError("b64decode: this is not base64") from None
    except UnicodeDecodeError:
        raise TemplateError("b64decode: the bytes are not UTF-8 text") from None


@filter_("int")
def int_(ev: Evaluation, value: Any, default: Any = 0, base: int = 10) -> Any:
    """Return an integer, or `default` if the value is not a number. Undefined raises."""
    if is_undefined(value):
        raise UndefinedValue(value._undefined_message)
    if type(value) is str:
        text = value.strip()
        ev.charge(len(text))
        try:
            return number(int(text, base))
        except ValueError:
            pass
    try:
        return number(int(value) if type(value) in (int, bool) else int(float(value)))
    except (TypeError, ValueError, OverflowError):
        return default


@filter_("float")
def float_(ev: Evaluation, value: Any, default: Any = 0.0) -> Any:
    """Return a float, or `default` if the value is not a (finite) number. Undefined raises."""
    if is_undefined(value):
        raise UndefinedValue(value._undefined_message)
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return found if math.isfinite(found) else default


_TRUE = frozenset({"true", "yes", "on", "1", "y", "t"})


@filter_("bool")
def bool_(ev: Evaluation, value: Any) -> bool:
    """Return a boolean; for text, whether it is true, yes, on or 1."""
    return value.strip().lower() in _TRUE if type(value) is str else bool(value)


@filter_("abs")
def abs_(ev: Evaluation, value: Any) -> Any:
    if type(value) not in (int, float, bool):
        raise TemplateError("abs needs a number")
    return abs(value)


@filter_("round")
def round_(ev: Evaluation, value: Any, precision: int = 0, method: str = "common") -> Any:
    """Jinja2's `round`; `method` is common, ceil or floor."""
    if type(value) not in (int, float, bool):
        raise TemplateError("round needs a number")
    if type(precision) is not int or abs(precision) > 30:
        raise TemplateError("round: the precision must be a whole number from -30 to 30")
    if method == "common":
        return number(round(value, precision))
    if method not in ("ceil", "floor"):
        raise TemplateError("round: the method must be common, ceil or floor")
    run = math.ceil if method == "ceil" else math.floor
    return number(run(value * (10.0**precision)) / (10.0**precision))
