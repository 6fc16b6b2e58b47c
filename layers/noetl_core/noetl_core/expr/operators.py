"""Arithmetic and comparison with budgets. Every potentially large result is counted before it is computed."""

from __future__ import annotations

import math
import operator as op
from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2.runtime import Undefined

from noetl_core.expr.errors import LimitExceeded, TemplateError
from noetl_core.expr.evaluation_limits import INTEGER_BITS, ITEM_SIZE
from noetl_core.expr.formatting import percent
from noetl_core.expr.reading import LONG, Reading
from noetl_core.expr.scope import Pointer
from noetl_core.expr.secret import Secret
from noetl_core.expr.values import SCALARS, describe
from noetl_core.values.outlines import Part

NUMBERS: Final = frozenset({int, float, bool})
_LISTS: Final = frozenset({list, tuple})


def number(value: Any) -> Any:
    """Return `value` if it is a valid result of arithmetic; otherwise raise `LimitExceeded` (too large) or `TemplateError` (not a
    real number)."""
    if type(value) is int:
        if value.bit_length() > INTEGER_BITS:
            raise LimitExceeded(f"a number of more than {INTEGER_BITS} bits")
    elif type(value) is float:
        if not math.isfinite(value):
            raise LimitExceeded("a number beyond the range of floating point")
    elif type(value) is complex:
        raise TemplateError("the result is not a real number")
    return value


def _mismatch(symbol: str, left: Any, right: Any) -> TemplateError:
    hint = "; to join text use ~" if symbol == "+" and str in (type(left), type(right)) else ""
    return TemplateError(f"{describe(left)} {symbol} {describe(right)} has no meaning{hint}")


def _arithmetic(symbol: str, run: Callable[[Any, Any], Any]) -> Callable[[Reading, Any, Any], Any]:
    def calculate(ev: Reading, left: Any, right: Any) -> Any:
        if type(left) in NUMBERS and type(right) in NUMBERS:
            try:
                return number(run(left, right))
            except ZeroDivisionError:
                raise TemplateError("division by zero") from None
            except OverflowError:
                raise LimitExceeded("a number beyond the range of floating point") from None
        if isinstance(left, Undefined) or isinstance(right, Undefined):
            return run(left, right)  # raises UndefinedValue
        raise _mismatch(symbol, left, right)

    return calculate


_plus = _arithmetic("+", op.add)
_times = _arithmetic("*", op.mul)
_power = _arithmetic("**", op.pow)
_modulo = _arithmetic("%", op.mod)


def add(ev: Reading, left: Any, right: Any) -> Any:
    if type(left) is str and type(right) is str:
        ev.charge_joined(len(left) + len(right), left, right)
        return left + right
    if type(left) in _LISTS and type(right) in _LISTS:
        ev.charge_items(len(left) + len(right))
        return [*left, *right]
    return _plus(ev, left, right)


def multiply(ev: Reading, left: Any, right: Any) -> Any:
    if type(right) is str or type(right) in _LISTS:
        left, right = right, left
    if (type(left) is str or type(left) in _LISTS) and type(right) in (int, bool):
        count = max(int(right), 0)
        if type(left) is str:
            ev.charge_text(left, count)
        else:
            ev.charge(len(left) * count * ITEM_SIZE)
        return left * count
    return _times(ev, left, right)


def power(ev: Reading, left: Any, right: Any) -> Any:
    if type(left) is int and type(right) is int and abs(left) > 1 and left.bit_length() * right > 2 * INTEGER_BITS:
        raise LimitExceeded(f"a number of more than {INTEGER_BITS} bits")
    return _power(ev, left, right)


def modulo(ev: Reading, left: Any, right: Any) -> Any:
    if type(left) is str:
        return percent(ev, left, right)
    return _modulo(ev, left, right)


BINARY: Final[Mapping[str, Callable[[Any, Any, Any], Any]]] = {
    "+": add,
    "-": _arithmetic("-", op.sub),
    "*": multiply,
    "/": _arithmetic("/", op.truediv),
    "//": _arithmetic("//", op.floordiv),
    "%": modulo,
    "**": power,
}


def _ordered(symbol: str, run: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], bool]:
    def ordered(ev: Reading, left: Any, right: Any) -> bool:
        try:
            return bool(run(left, right))
        except TypeError:
            raise _mismatch(symbol, left, right) from None

    return ordered


def _contains(ev: Reading, left: Any, right: Any) -> bool:
    """`left in right`."""
    kind = type(right)
    if isinstance(left, Undefined):
        return False
    if kind is str:
        if type(left) is not str:
            raise _mismatch("in", left, right)
        ev.tick(len(right) >> 8)
        return left in right
    if isinstance(right, Part) and right.kind is not dict:
        right = ev.read(right)
        kind = type(right)
    if kind is dict or isinstance(right, Part):
        return type(left) in SCALARS and left in right
    if type(left) in SCALARS and (kind in _LISTS or kind is range):
        ev.tick(len(right) * (1 + (len(left) >> 8 if type(left) is str else 0)) >> 4)
        if left in right:
            return True
        return any(left == ev.read(item) for item in right if type(item) is Secret or type(item) is Pointer or type(item) is dict)
    if kind in SCALARS:
        raise _mismatch("in", left, right)
    return any(compare(ev, "eq", left, item) for item in ev.each(right))


COMPARE: Final[Mapping[str, Callable[[Any, Any, Any], bool]]] = {
    "eq": lambda ev, left, right: bool(left == right),
    "ne": lambda ev, left, right: bool(left != right),
    "lt": _ordered("<", op.lt),
    "lteq": _ordered("<=", op.le),
    "gt": _ordered(">", op.gt),
    "gteq": _ordered(">=", op.ge),
    "in": _contains,
    "notin": lambda ev, left, right: not _contains(ev, left, right),
}


def compare(ev: Reading, operator: str, left: Any, right: Any) -> bool:
    """One comparison."""
    ev.ops += 1
    if ev.ops > ev.check:
        ev.check_limits()
    if type(left) not in SCALARS or type(right) not in SCALARS:
        left, right = ev.read(left), ev.open(right) if operator in ("in", "notin") else ev.read(right)
        return compare_any(ev, operator, left, right)
    if type(left) is str and len(left) > LONG:
        ev.tick(len(left) >> 8)
    return COMPARE[operator](ev, left, right)


def compare_any(ev: Reading, operator: str, left: Any, right: Any) -> bool:
    """Compare data of any kind, after counting its size."""
    if operator not in ("in", "notin") and type(left) not in SCALARS and type(right) not in SCALARS:
        left, right = _comparable(ev, left), _comparable(ev, right)
    return COMPARE[operator](ev, left, right)


def _comparable(ev: Reading, value: Any) -> Any:
    if isinstance(value, Undefined):
        return value
    value = ev.plain(value)
    ev.tick(ev.weight >> 8)
    return value
