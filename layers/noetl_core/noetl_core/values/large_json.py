"""Large JSON: decodes and encodes it faster than the standard library, with the same results, and keeps a value with its text.

Standard library only, because the process of a task uses it; for large text it imports pydantic-core, which is a library of the
engine. Small text is left to `json`: the import takes longer than it saves.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

LARGE: Final = 1024 * 1024
"""Text of this many bytes is large."""
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_UNKNOWN: Final = object()


class JsonText:
    """A value as its compact JSON text. `value` is decoded when it is first read."""

    __slots__ = ("_value", "body")

    def __init__(self, body: bytes, value: Any = _UNKNOWN) -> None:
        """`body` must be valid; `value` is its value, if that is known."""
        self.body, self._value = body, value

    @property
    def value(self) -> Any:
        if self._value is _UNKNOWN:
            self._value = loads(self.body)
        return self._value


def loads(body: bytes) -> Any:
    """Return the same as `json.loads`, and raise the same errors."""
    if len(body) < LARGE:
        return json.loads(body)
    with _no_collection():
        if (core := fast_codec()) is not None:
            with suppress(ValueError):  # it is not JSON, is nested deeply, or has halves of surrogate pairs: `json` decides
                return core.from_json(body)
        return json.loads(body)


def text_of(value: Any, body: bytes) -> JsonText | None:
    """Return `body`, which was decoded to `value`, as a text; None unless it is the compact encoding of the value.

    Other encodings are valid but may mean something else to another reader: they may have a key twice, or NaN.
    """
    if fast_encoded(value) == body:
        return JsonText(body, value)
    with suppress(ValueError, RecursionError):
        if _ENCODER.encode(value).encode() == body:
            return JsonText(body, value)
    return None


def fast_encoded(value: Any) -> bytes | None:
    """Return compact JSON of plain data; None if that is not possible.

    Floats below 0.0001 and from 10^16 are spelled in another way than by `json`, so callers compare, or know their floats. NaN
    and infinities become null. Not only plain data is accepted.
    """
    if (core := fast_codec()) is not None:
        with suppress(ValueError):
            encoded: bytes = core.to_json(value, inf_nan_mode="null")
            return encoded
    return None


def spliced(value: Any) -> bytes:
    """Return `value` as JSON text, in which every `JsonText` is its value. Raises as `json.dumps`."""
    texts: list[bytes] = []
    mark = ""

    def hold(one: Any) -> str:
        nonlocal mark
        if type(one) is not JsonText:
            raise TypeError(f"Object of type {type(one).__name__} is not JSON serializable")
        if not texts:
            mark = os.urandom(16).hex()  # no data can contain it
        texts.append(one.body)
        return mark

    encoded = json.dumps(value, default=hold).encode()
    if not texts:
        return encoded
    around = encoded.split(b'"%b"' % mark.encode())
    return b"".join([part for pair in zip(around, texts, strict=False) for part in pair] + [around[-1]])


@cache
def fast_codec() -> Any:
    """Return pydantic-core; None if it cannot be imported, or is a version without what is used of it.

    The process of a task may find a package of the author in its place, which may raise anything. Then `json` does the work.
    """
    try:
        import pydantic_core  # 30 ms: only for large values

        usable = pydantic_core.from_json(pydantic_core.to_json([1.5, "ä"], inf_nan_mode="null")) == [1.5, "ä"]
    except Exception:  # as said: of an author's package
        return None
    return pydantic_core if usable else None


@contextmanager
def _no_collection() -> Iterator[None]:
    """Suspend garbage collection: it would search the many new objects again and again, and decoded JSON has no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
