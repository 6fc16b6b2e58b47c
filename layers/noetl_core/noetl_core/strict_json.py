"""JSON as every store and encoder on the way takes it: finite numbers, whole characters, bounded depth."""

from __future__ import annotations

import json
from math import isinf
from typing import Any

MAX_DEPTH = 100
"""Levels a value from outside may be nested."""


def loads(text: str) -> Any:
    """The value of JSON text. Raises `ValueError` that says what is wrong, for NaN, infinities, halves of surrogate pairs and
    values nested deeper than `MAX_DEPTH` too."""
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        check(value)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels") from None
    return value


def check(value: Any) -> None:
    """Raise `ValueError` unless `value` is JSON data in that sense."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if _deeper(value, MAX_DEPTH):
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")


def _deeper(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels + 1):
        layer = [x for v in layer if isinstance(v, dict | list) for x in (v.values() if isinstance(v, dict) else v)]
        if not layer:
            return False
    return True


def _finite(text: str) -> float:
    number = float(text)
    return _no_number(text) if isinf(number) else number


def _no_number(text: str) -> float:
    raise ValueError(f"{text[:40]} is no JSON number: numbers are finite")
