"""Functions templates may call.

`range dict list len min max sum round abs str int float bool sorted zip enumerate namespace joiner`. A name in the scope hides a
function of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2.utils import Namespace

from noetl_core.expr.errors import LimitExceeded, TemplateError
from noetl_core.expr.evaluation import Evaluation
from noetl_core.expr.evaluation_limits import RANGE_ITEMS
from noetl_core.expr.filters.collections import list_, max_, min_, sort_key, sorted_, sum_
from noetl_core.expr.filters.data import abs_, bool_, float_, int_
from noetl_core.expr.filters.registry import is_undefined
from noetl_core.expr.operators import number
from noetl_core.expr.values import Function, describe
from noetl_core.values.outlines import Part


def _range(ev: Evaluation, *bounds: Any) -> range:
    bounds = tuple(ev.read(b) for b in bounds)
    for bound in bounds:
        if type(bound) not in (int, bool):
            raise TemplateError(f"range needs whole numbers, not a {describe(bound)}")
    if not 1 <= len(bounds) <= 3 or (len(bounds) == 3 and bounds[2] == 0):
        raise TemplateError("range takes one to three whole numbers; the step must not be 0")
    numbers = range(*bounds)
    if any(abs(b) >= 1 << 60 for b in bounds) or len(numbers) > RANGE_ITEMS:
        raise LimitExceeded(f"a range of more than {RANGE_ITEMS} items; loop over parts of it")
    return numbers


def _dict(ev: Evaluation, value: Any = None, /, **named: Any) -> dict[Any, Any]:
    value = ev.read(value)
    out: dict[Any, Any] = {}
    if isinstance(value, dict):
        ev.charge_items(len(value) * 2)
        out.update(value)
    elif value is not None and not is_undefined(value):
        for pair in ev.each(value):
            entry = ev.items(pair)
            if len(entry) != 2:
                raise TemplateError("dict takes a mapping, pairs, or named values")
            ev.charge_items(2)
            out[ev.key(entry[0])] = ev.enter(entry[1])
    ev.charge_items(len(named) * 2)
    return {**out, **named}


def _len(ev: Evaluation, value: Any) -> int:
    value = ev.as_list(ev.open(value))
    return len(value) if type(value) in (str, dict) or isinstance(value, Part) else len(ev.items(value))


def _listed(ev: Evaluation, value: Any = ()) -> list[Any]:
    return list_(ev, value)


def _extreme(pick: Callable[..., Any]) -> Callable[..., Any]:
    def run(ev: Evaluation, *values: Any, default: Any = None) -> Any:
        found = pick(ev, values[0] if len(values) == 1 else list(values), case_sensitive=True)
        return default if is_undefined(found) and default is not None else found

    return run


def _sum(ev: Evaluation, value: Any, start: Any = 0) -> Any:
    return sum_(ev, value, start=start)


def _round(ev: Evaluation, value: Any, ndigits: Any = None) -> Any:
    """Like Python's `round`: a whole number without `ndigits`."""
    value = ev.read(value)
    if type(value) not in (int, float, bool):
        raise TemplateError(f"round needs a number, not a {describe(value)}")
    if ndigits is None:
        return number(round(value))
    if type(ndigits) is not int or abs(ndigits) > 30:
        raise TemplateError("round: the digits must be a whole number from -30 to 30")
    return number(round(value, ndigits))


def _int(ev: Evaluation, value: Any = 0, base: int = 10) -> Any:
    """Like the filter, but raises for a value that is not a number."""
    return _must(int_(ev, ev.read(value), default=None, base=base), "int", value)


def _float(ev: Evaluation, value: Any = 0.0) -> Any:
    return _must(float_(ev, ev.read(value), default=None), "float", value)


def _must(found: Any, name: str, value: Any) -> Any:
    if found is None:
        raise TemplateError(f"{name}: this {describe(value)} is not a number")
    return found


def _str(ev: Evaluation, value: Any = "") -> str:
    return ev.text(value)


def _bool(ev: Evaluation, value: Any = False) -> bool:
    return bool_(ev, ev.read(value))


def _abs(ev: Evaluation, value: Any) -> Any:
    return abs_(ev, ev.read(value))


def _sorted(ev: Evaluation, value: Any, reverse: Any = False) -> list[Any]:
    return sorted_(ev, list_(ev, value), lambda item: sort_key(ev, item, True), reverse)


def _zip(ev: Evaluation, *lists: Any) -> list[list[Any]]:
    columns = [ev.items(items) for items in lists]
    ev.charge_items(min(map(len, columns), default=0) * (len(columns) + 8))
    return [list(row) for row in zip(*(ev.each(column) for column in columns), strict=False)]


def _enumerate(ev: Evaluation, value: Any, start: Any = 0) -> list[list[Any]]:
    items = ev.items(value)
    ev.charge_items(len(items) * 10)
    return [[ev.call_binop(ev, "+", start, index), item] for index, item in enumerate(ev.each(items))]


def _namespace(ev: Evaluation, value: Any = None, /, **named: Any) -> Namespace:
    return Namespace(_dict(ev, value, **named))


def _joiner(ev: Evaluation, separator: Any = ", ") -> Function:
    """Return a function that gives nothing at its first call, and `separator` after that."""
    used = False

    def join(ev: Evaluation) -> str:
        nonlocal used
        first, used = not used, True
        return "" if first else ev.text(separator)

    return Function("joiner", join)


_RUN: Final[Mapping[str, Callable[..., Any]]] = {
    "range": _range,
    "dict": _dict,
    "list": _listed,
    "len": _len,
    "min": _extreme(min_),
    "max": _extreme(max_),
    "sum": _sum,
    "round": _round,
    "abs": _abs,
    "str": _str,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "sorted": _sorted,
    "zip": _zip,
    "enumerate": _enumerate,
    "namespace": _namespace,
    "joiner": _joiner,
}

FUNCTIONS: Final[Mapping[str, Function]] = {name: Function(name, run) for name, run in _RUN.items()}
Evaluation.functions = FUNCTIONS
