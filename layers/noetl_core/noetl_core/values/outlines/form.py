"""The format of outlines: the containers (lists, mappings, lines) of a stored value, divided into blocks with positions and
digests.

As a stored object it is JSON: `{"v": 1, "of": checksum, "size": bytes, "root": container}`. A container is `{"k": kind, "b":
blocks}`; a
block is `[items, bytes, digest]`, where `items` is their number in a list, and their keys in a mapping. An item that is a large
container itself has a block of its own, with that container in place of the digest. Places are sums: blocks follow one another,
with a comma between them. In text that was not written here there may be space around a container, and its key has its author's
form: then the outline has `o` and `s`, its offset in the block and its size in bytes.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b, sha256
from typing import Any, Final, Literal, assert_never

from noetl_core.values.result_refs import Altered
from noetl_core.values.strict_json import parsed

OUTLINED: Final = 1024 * 1024
"""Larger objects have an outline. Smaller ones are read whole, by one request."""
BLOCK: Final = 256 * 1024
"""The approximate size of a block; a larger item is a block of its own."""
MOST_BLOCKS: Final = 2048
"""The approximate maximum number of blocks of an object; blocks grow with it."""
MOST_OUTLINE_BYTES: Final = 512 * 1024
"""The largest outline."""
MOST_KEY_BYTES: Final = 128 * 1024
"""The most bytes of keys in an outline. A mapping with more is not divided."""
DEPTH: Final = 16
"""The most levels of containers in an outline."""
VERSION: Final = 1
VERSION_OF_TEXT: Final = 2
"""The version for text that another program wrote: a container states the place in its block at which it begins (`o`) and its
length (`s`)."""

Kind = Literal["list", "map", "lines"]
_DIGEST_CHARS: Final = 22


def digest_of(block: bytes | memoryview) -> str:
    """Return the digest of a block: 128 bits, as text."""
    return urlsafe_b64encode(blake2b(block, digest_size=16).digest()).decode()[:_DIGEST_CHARS]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block:
    """Items of a container that are loaded together, or one item that is a container itself."""

    start: int
    size: int
    first: int
    """The position of its first item in the container."""
    count: int
    keys: tuple[str, ...] = ()
    digest: str = ""
    inner: Container | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Container:
    """A list, a mapping, or lines of JSON, as a range of bytes of an object."""

    kind: Kind
    start: int
    size: int
    blocks: tuple[Block, ...]
    key: str = field(default="", kw_only=True)
    """The key of the object."""

    @cached_property
    def length(self) -> int:
        return self.blocks[-1].first + self.blocks[-1].count

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Key -> the index of its block."""
        return {key: at for at, block in enumerate(self.blocks) for key in block.keys}

    def block_at(self, index: int) -> int:
        """Return the index of the block with the item at a position."""
        return bisect_right(self._firsts, index) - 1

    @cached_property
    def _firsts(self) -> list[int]:
        return [block.first for block in self.blocks]

    def span(self, first: int = 0, end: int | None = None) -> Span:
        """Return the blocks from `first` to `end` (exclusive), to be loaded together."""
        return Span(self, first, len(self.blocks) if end is None else end)


@dataclass(frozen=True, slots=True, repr=False)
class Span:
    """Consecutive blocks of a container: a range of bytes."""

    container: Container
    first: int
    end: int

    @property
    def start(self) -> int:
        return self.container.blocks[self.first].start

    @property
    def stop(self) -> int:
        last = self.container.blocks[self.end - 1]
        return last.start + last.size

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def keys(self) -> list[str]:
        return [key for block in self.container.blocks[self.first : self.end] for key in block.keys]

    @property
    def indexes(self) -> range:
        """The positions of its items in the container."""
        blocks = self.container.blocks
        return range(blocks[self.first].first, blocks[self.end - 1].first + blocks[self.end - 1].count)

    def of(self, whole: Any) -> Any:
        """Return the items of the span from the container's value."""
        if self.container.kind == "map":
            return {key: whole[key] for key in self.keys}
        return whole[self.indexes.start : self.indexes.stop]

    def value(self, body: bytes) -> Any:
        """Return the items, a list or a mapping, of the bytes of this range. Raises `Altered` if a digest differs, `ValueError`
        if it is not JSON."""
        if len(body) != self.size:
            raise Altered(self.container.key)
        text = _Verified(self.container.key, body, self.start)
        blocks = self.container.blocks[self.first : self.end]
        value: Any
        match self.container.kind:
            case "lines":
                value = [parsed(line) for block in blocks for line in text.of(block).splitlines() if line.strip()]
            case "list":
                value = parsed(b"[" + b",".join(map(text.of, blocks)) + b"]")
            case "map":
                value = parsed(b"{" + b",".join(map(text.of, blocks)) + b"}")
            case other:
                assert_never(other)
        if (list(value) != self.keys) if self.container.kind == "map" else (len(value) != len(self.indexes)):
            raise Altered(self.container.key)
        return value


class _Verified:
    """The texts of blocks within loaded bytes, verified by their digests. Text between blocks is regenerated, not read."""

    def __init__(self, key: str, body: bytes, start: int) -> None:
        self._key, self._body, self._start = key, body, start

    def of(self, block: Block) -> bytes:
        if block.inner is not None:
            inner = b",".join(map(self.of, block.inner.blocks))
            inner = b"{%b}" % inner if block.inner.kind == "map" else b"[%b]" % inner
            return json_key(block.keys[0]) + inner if block.keys else inner
        start = block.start - self._start
        text = self._body[start : start + block.size]
        if digest_of(text) != block.digest:
            raise Altered(self._key)
        return text


def json_key(key: str) -> bytes:
    """Return a key in the form that precedes a value."""
    return json.dumps(key, ensure_ascii=False).encode() + b":"


def outlined(ref: Mapping[str, Any]) -> bool:
    """Return whether a reference states that its object has an outline."""
    return type(ref.get("outline")) is str


def outline_key(key: str, outline: str) -> str:
    """Return the key of the outline with the checksum `outline` of the object `key`. It belongs to the same execution, under a
    prefix that only the engine writes, so that no reference can name a forged outline."""
    return f"{key.partition('/')[0]}/outlines/{outline.removeprefix('sha256:')}.json"


def checksum_of(body: bytes) -> str:
    return f"sha256:{sha256(body).hexdigest()}"


def read_outline(ref: Mapping[str, Any], body: bytes) -> Container | None:
    """Return the outline in `body`; None if it is not that of the object of `ref`, or has an unknown version: then the complete
    value is read."""
    if len(body) > MOST_OUTLINE_BYTES or checksum_of(body) != ref.get("outline"):
        return None
    try:
        outline = json.loads(body)
        if outline["v"] not in (VERSION, VERSION_OF_TEXT) or outline["of"] != ref["checksum"] or outline["size"] != ref["size"]:
            return None
        return _container(outline["root"], 0, _whole_number(outline["size"]), str(ref["key"]), DEPTH)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _container(node: Mapping[str, Any], start: int, size: int, key: str, depth: int) -> Container:
    kind, found = node["k"], node["b"]
    if kind not in ("list", "map", "lines") or not found or depth == 0 or (kind == "lines" and depth != DEPTH):
        raise ValueError("this is not a container")
    if "o" in node:
        inside, long = _whole_number(node["o"]), _whole_number(node["s"])
        if inside + long > size:
            raise ValueError("a container is within its block")
        start, size = start + inside, long
    between = 0 if kind == "lines" else 1
    at, first = start + between, 0
    blocks = []
    for items, length, what in found:
        keys = tuple(items) if kind == "map" else ()
        if not all(type(k) is str for k in keys):
            raise ValueError("a key is text")
        count = len(keys) if kind == "map" else _whole_number(items)
        inner = None
        if type(what) is not str:
            before = len(json_key(keys[0])) if keys and "o" not in what else 0
            inner = _container(what, at + before, _whole_number(length) - before, key, depth - 1)
        few = 1 if inner is not None or kind != "lines" else 0
        if not few <= count <= (1 if inner is not None else _whole_number(length)) or length < 1:
            raise ValueError("a block has something in it")
        blocks.append(Block(at, length, first, count, keys, what if inner is None else "", inner))
        at += length + between
        first += count
    if at != start + size:
        raise ValueError("the blocks are not all of the container")
    made = Container(kind, start, size, tuple(blocks), key=key)
    if len(made.places) != sum(len(block.keys) for block in blocks):
        raise ValueError("a key stands twice")
    return made


def _whole_number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("this is not a number of bytes or items")
    return value
