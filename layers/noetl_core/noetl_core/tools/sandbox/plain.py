"""Converts Python values to plain JSON data: the result of a Python task, and the values of a database row.

Dates and times become ISO 8601 text; decimals become numbers, or text where a float would lose digits; sets become sorted lists;
UUIDs and paths become text; data classes, enums, NumPy and pandas values become their plain contents. Bytes, NaN and infinities
are refused with their place: JSON cannot express them, and guessing would corrupt data. Standard library only, because it runs in
the sandbox. Modules of types are not imported: if a module is not loaded, no value has its types.
"""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import decimal

DEEPEST = 200
_TEXT = frozenset({str})


class NotPlain(ValueError):
    """A value that JSON cannot hold. Who acts: the author."""


def _is(value: Any, module: str, *names: str) -> bool:
    """Return whether `value` is of one of these types."""
    known = sys.modules.get(module)
    return known is not None and isinstance(value, tuple(getattr(known, name) for name in names))


def to_plain(value: Any, where: str = "result", depth: int = 0) -> Any:
    """Return `value` as JSON types: itself if it consists of them. Raises `NotPlain` naming the place
    (`result.rows[3].image`)."""
    return value if _is_plain(value, depth, Survey()) else converted(value, where, depth)


class Survey:
    """Properties of a value that consists of JSON types."""

    __slots__ = ("parts", "short_floats")

    def __init__(self) -> None:
        self.parts = 0
        """The number of items in all its lists and mappings."""
        self.short_floats = True
        """True if Python spells all its floats without an exponent."""


def survey(value: Any) -> Survey | None:
    """Return the properties of `value`; None unless it consists of JSON types."""
    found = Survey()
    return found if _is_plain(value, 0, found) else None


def _is_plain(value: Any, depth: int, found: Survey) -> bool:
    """Return whether `value` consists of JSON types, not of subclasses. Nothing is copied, and no place is named."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return True
    if kind is float:
        if not (1e-4 <= value < 1e16 or value == 0 or -1e16 < value <= -1e-4):
            found.short_floats = False
            return math.isfinite(value)
        return True
    if depth > DEEPEST:
        return False
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            return False
        value = value.values()
    elif kind is not list:
        return False
    found.parts += len(value)
    for part in value:
        kind = type(part)
        if not (kind is str or kind is int or part is None) and not _is_plain(part, depth + 1, found):
            return False
    return True


def converted(value: Any, where: str, depth: int) -> Any:
    """Return `value` as JSON types, in copies of its containers."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        if math.isfinite(value):
            return value
        raise NotPlain(f"{where} is {value}: JSON has no such number; use None")
    if depth > DEEPEST:
        raise NotPlain(f"{where[:80]}... is nested deeper than {DEEPEST} levels, or contains itself")
    if isinstance(value, Mapping):
        plain = {_key(k, where): converted(v, f"{where}.{k}", depth + 1) for k, v in value.items()}
        if len(plain) < len(value):
            raise NotPlain(_same_keys(value, where))
        return plain
    if isinstance(value, list | tuple):
        return [converted(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
    return _other(value, where, depth)


def _key(key: Any, where: str) -> str:
    if isinstance(key, str):
        return str(key)
    if key is None or isinstance(key, bool | int | float | enum.Enum) or _is(key, "datetime", "date") or _is(key, "uuid", "UUID"):
        return str(to_plain(key, f"a key of {where}"))
    raise NotPlain(f"{where} has a key of type {type(key).__name__}: use text")


def _same_keys(value: Mapping[Any, Any], where: str) -> str:
    """Return the error for a mapping with two keys that are equal in JSON."""
    known: dict[str, Any] = {}
    for key in value:
        text = _key(key, where)
        if text in known:
            return f'{where} has the keys {known[text]!r} and {key!r}, which are both "{text}" in JSON: one of them would be lost'
        known[text] = key
    return f"{where} has keys that change while they are read"


def _other(value: Any, where: str, depth: int) -> Any:
    if isinstance(value, enum.Enum):
        return to_plain(value.value, where, depth + 1)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return to_plain(float(value), where)
    if _is(value, "datetime", "datetime", "date", "time"):
        return value.isoformat()
    if _is(value, "datetime", "timedelta"):
        return value.total_seconds()
    if _is(value, "decimal", "Decimal"):
        return _decimal(value, where)
    if _is(value, "uuid", "UUID") or _is(value, "pathlib", "PurePath"):
        return str(value)
    if isinstance(value, set | frozenset):
        items = [to_plain(v, f"an element of {where}", depth + 1) for v in value]
        return sorted(items, key=lambda item: (type(item).__name__, str(item)))
    if isinstance(value, bytes | bytearray | memoryview):
        raise NotPlain(f"{where} is {len(value)} bytes: decode it, or encode it as text (base64)")
    if hasattr(type(value), "__dataclass_fields__"):
        from dataclasses import fields  # 4 ms: already loaded if there is such a value

        return {f.name: to_plain(getattr(value, f.name), f"{where}.{f.name}", depth + 1) for f in fields(value)}
    return _foreign(value, where, depth)


def _decimal(value: decimal.Decimal, where: str) -> int | float | str:
    if not value.is_finite():
        raise NotPlain(f"{where} is {value}: JSON has no such number; use None")
    if value == value.to_integral_value() and value.adjusted() < 40 and isinstance(value.as_tuple().exponent, int):
        return int(value)
    number = float(value)
    return number if sys.modules["decimal"].Decimal(repr(number)) == value else str(value)


def _foreign(value: Any, where: str, depth: int) -> Any:
    """Convert NumPy scalars and arrays, pandas frames and series, by their methods, without importing the libraries."""
    module = type(value).__module__.partition(".")[0]
    if module == "pandas" and type(value).__name__ == "DataFrame":
        return to_plain(value.to_dict("records"), where, depth + 1)
    if module in ("numpy", "pandas") and hasattr(value, "isoformat"):
        return value.isoformat()
    if module in ("numpy", "pandas") and hasattr(value, "tolist"):
        return to_plain(value.tolist(), where, depth + 1)
    raise NotPlain(f"{where} is of type {type(value).__name__}, which is not JSON data: return numbers, text, lists and mappings")
