"""JSON that every store and encoder accepts: finite numbers, valid characters, bounded depth, each key once per object."""

from __future__ import annotations

import json
import re
from math import isinf
from typing import Any, Final

MAX_DEPTH = 100
"""The most levels of nesting in external values."""
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},:]')


class _Twice(ValueError):
    """An object has a key twice."""


def loads(text: str) -> Any:
    """Return the value of JSON text. Raises `ValueError`, with the reason, also for NaN, infinities, halves of surrogate
    pairs, duplicate keys, and values nested deeper than `MAX_DEPTH`."""
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_once)
        check(value)
    except _Twice:
        raise ValueError(_where_twice(text)) from None
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels") from None
    return value


def check(value: Any) -> None:
    """Raise `ValueError` unless `value` is such JSON data."""
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


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise _Twice
    return out


def _where_twice(text: str) -> str:
    """Return the first duplicate key of valid JSON text, and its position."""
    stack: list[set[str] | None] = []
    key_next = False
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "{[":
            stack.append(set() if mark == "{" else None)
            key_next = mark == "{"
        elif mark in "}]":
            stack.pop()
        elif mark == ",":
            key_next = stack[-1] is not None
        elif key_next and (known := stack[-1]) is not None:
            key, key_next = json.loads(mark), False
            if key in known:
                line, at = text.count("\n", 0, token.start()) + 1, token.start() - text.rfind("\n", 0, token.start())
                return f'"{key[:80]}" is written twice: line {line} column {at}'
            known.add(key)
    raise AssertionError("no key is written twice")


def _finite(text: str) -> float:
    number = float(text)
    return _no_number(text) if isinf(number) else number


def _no_number(text: str) -> float:
    raise ValueError(f"{text[:40]} is not a JSON number: numbers are finite")


def parsed(body: bytes) -> Any:
    """Return the value of stored JSON text, which others may have written (uploads, objects that answers name).

    Raises `ValueError`, also for data that the log cannot hold: NaN, infinities, halves of surrogate pairs, unbounded nesting.
    """
    try:
        value = json.loads(body, parse_constant=_no_number)
        if SUSPECT.search(body):
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise ValueError("it nests too deep") from None
    return value


SUSPECT: Final = re.compile(rb"\\u[dD][89a-fA-F]|[eE]\+?[0-9]{3}")
"""Possible spellings of halves of surrogate pairs, and of infinite numbers."""
