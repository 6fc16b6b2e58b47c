"""Builds outlines of values with their JSON text, and of JSON lines while they are written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from noetl_core.values.large_json import LARGE, fast_encoded
from noetl_core.values.outlines.form import (
    BLOCK,
    DEPTH,
    MOST_BLOCKS,
    MOST_KEY_BYTES,
    MOST_OUTLINE_BYTES,
    OUTLINED,
    VERSION,
    digest_of,
    json_key,
)

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_CONTAINERS: Final = frozenset({dict, list, tuple})
_GROWTH: Final = 4
"""The growth factor of the number of items that are measured together."""


def outline_of(
    value: Any, body: bytes, checksum: str, *, over: int | None = None, block: int | None = None, keys: int = MOST_KEY_BYTES
) -> bytes | None:
    """Return the outline of `value`, whose compact JSON text is `body`; None if it is too small, or has no parts that could be
    loaded separately.

    The parts are encoded again to find their sizes, only for large values, and never all at once.
    """
    if len(body) <= (OUTLINED if over is None else over) or type(value) not in _CONTAINERS:
        return None
    most = max(BLOCK if block is None else block, len(body) // MOST_BLOCKS)
    for measuring in (_FastMeasuring, _Measuring) if len(body) >= LARGE else (_Measuring,):
        try:
            size, root = measuring(body, most, keys).container(value, 0, DEPTH)
        except _OtherSpelling:
            continue
        except (TypeError, ValueError, RecursionError):
            break  # the text differs from the value, because secrets are masked in it
        return stored_form(root, checksum, size) if root is not None and size == len(body) else None
    return None


class _OtherSpelling(Exception):
    """The text is not spelled as by `fast_encoded`."""


def stored_form(root: Mapping[str, Any], checksum: str, size: int, version: int = VERSION) -> bytes | None:
    """Return an outline in its stored form; None if it is too large."""
    outline = {"v": version, "of": checksum, "size": size, "root": root}
    body = _ENCODER.encode(outline).encode()
    return body if len(body) <= MOST_OUTLINE_BYTES else None


class _Measuring:
    """Finds the positions of the parts of a value in its text."""

    def __init__(self, body: bytes, block: int, keys: int) -> None:
        self._text, self._body, self._block, self._keys = body, memoryview(body), block, keys

    def container(self, value: Any, start: int, depth: int) -> tuple[int, dict[str, Any] | None]:
        """Return the size of a container that begins at `start`, and its outline; no outline if it is not longer than a block, or
        if its keys are unknown."""
        is_map = type(value) is dict
        if not value or (is_map and not all(type(key) is str for key in value)):
            return self._size(value, start), None
        blocks = _Blocks(self._body, start + 1, self._block, is_map)
        rest = _Rest(value)
        while rest:
            items = rest.peek()
            if len(items) == 1:
                blocks.add(items, *self._item(items, blocks.at, is_map, depth))
            else:
                size = self._size(dict(items) if is_map else [item for _, item in items], blocks.at - 1, brackets=True) - 2
                if size > 2 * self._block:  # contains something large: measure one by one
                    rest.alone()
                    continue
                blocks.add(items, size, None)
            rest.take(blocks.added, self._block // _GROWTH)
        size = blocks.at - start  # the last comma is the closing bracket
        if size <= self._block and depth < DEPTH:
            return size, None
        if is_map:
            self._keys -= sum(map(len, value)) + 3 * len(value)
            if self._keys < 0:
                return size, None
        return size, {"k": "map" if is_map else "list", "b": blocks.done()}

    def _item(self, items: Sequence[tuple[Any, Any]], at: int, is_map: bool, depth: int) -> tuple[int, dict[str, Any] | None]:
        key, item = items[0]
        before = len(json_key(key)) if is_map else 0
        if type(item) in _CONTAINERS and depth > 1:
            size, inner = self.container(item, at + before, depth - 1)
        else:
            size, inner = self._size(item, at + before), None
        return before + size, inner

    def _size(self, value: Any, at: int, *, brackets: bool = False) -> int:
        """Return the size of a value whose text begins at `at`; with `brackets`, other text stands in place of its brackets."""
        return len(_ENCODER.encode(value).encode())


class _FastMeasuring(_Measuring):
    """Does the same faster, for texts that are spelled as by `fast_encoded`. Raises `_OtherSpelling` for others."""

    def _size(self, value: Any, at: int, *, brackets: bool = False) -> int:
        text = fast_encoded(value)
        cut = 1 if brackets else 0
        if text is None or not self._text.startswith(text[cut : len(text) - cut], at + cut):
            raise _OtherSpelling
        return len(text)


class _Rest:
    """The unmeasured items of a container, taken a few at a time: about a fraction of a block."""

    def __init__(self, value: Any) -> None:
        self._items: Iterator[tuple[Any, Any]] = iter(value.items() if type(value) is dict else enumerate(value))
        self._held: list[tuple[Any, Any]] = []
        self._many = 1
        self._fill()

    def __bool__(self) -> bool:
        return bool(self._held)

    def _fill(self) -> None:
        self._held += islice(self._items, max(0, self._many - len(self._held)))

    def peek(self) -> list[tuple[Any, Any]]:
        return self._held[: self._many]

    def alone(self) -> None:
        """Take the next item alone."""
        self._many = 1

    def take(self, size: int, target: int) -> None:
        """Continue after the `size` bytes that were examined; examine about `target` bytes next."""
        del self._held[: self._many]
        self._many = max(1, min(_GROWTH * self._many, self._many * target // max(size, 1)))
        self._fill()


class _Blocks:
    """The blocks of a container, in order."""

    def __init__(self, body: memoryview, at: int, most: int, is_map: bool) -> None:
        self._body, self._most, self._is_map = body, most, is_map
        self._blocks: list[list[Any]] = []
        self._start, self._keys, self._count = at, list[str](), 0
        self.at = at
        self.added = 0

    def add(self, items: Sequence[tuple[Any, Any]], size: int, inner: dict[str, Any] | None) -> None:
        if self._count and (inner is not None or self.at + size - self._start > self._most):
            self._close()
        self._count += len(items)
        if self._is_map:
            self._keys += (key for key, _ in items)
        self.at += size + 1
        self.added = size
        if inner is not None:
            self._close(inner)

    def _close(self, inner: dict[str, Any] | None = None) -> None:
        end = self.at - 1
        what = digest_of(self._body[self._start : end]) if inner is None else inner
        self._blocks.append([self._keys if self._is_map else self._count, end - self._start, what])
        self._start, self._keys, self._count = self.at, [], 0

    def done(self) -> list[list[Any]]:
        if self._count:
            self._close()
        return self._blocks


class LineOutline:
    """Builds the outline of JSON lines while they are written; `write` must get every piece in order."""

    def __init__(self, block: int | None = None) -> None:
        self._most = BLOCK if block is None else block
        self._held = bytearray()
        self._blocks: list[list[Any]] = []
        self._size = 0

    def write(self, piece: bytes) -> None:
        self._held += piece
        self._size += len(piece)
        begin = 0
        while len(self._held) - begin > self._most:
            end = self._held.rfind(b"\n", begin, begin + self._most) + 1 or self._held.find(b"\n", begin + self._most) + 1
            if end == 0:
                break
            self._close(bytes(self._held[begin:end]))
            begin = end
        del self._held[:begin]

    def _close(self, block: bytes) -> None:
        count = sum(1 for line in block.splitlines() if line.strip())
        self._blocks.append([count, len(block), digest_of(block)])

    def finish(self, checksum: str, *, over: int | None = None) -> bytes | None:
        """Return the outline of the written text with the given checksum; None if it is too small."""
        if self._size <= (OUTLINED if over is None else over):
            return None
        if self._held:
            self._close(bytes(self._held))
        return stored_form({"k": "lines", "b": self._blocks}, checksum, self._size)

    def shape(self) -> dict[str, Any] | None:
        """Return the length of the list, for a `schema_hint`; None if it is unknown."""
        return {"type": "list", "length": sum(block[0] for block in self._blocks)} if self._blocks else None
