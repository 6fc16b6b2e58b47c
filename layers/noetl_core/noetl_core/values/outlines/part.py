"""Parts of stored values, loaded on demand."""

from __future__ import annotations

from collections.abc import KeysView, Sequence
from operator import index as whole_number
from typing import Any, Final, Protocol

from noetl_core.values.outlines.form import Container, Kind, Span

Path = tuple[Any, ...]
"""Keys and indexes that lead to a value."""


_KINDS: Final[dict[Kind, type[list[Any]] | type[dict[str, Any]]]] = {"map": dict, "list": list, "lines": list}


class Part:
    """A lazily loaded list or mapping. Its items are those of the value, or other parts.

    Loading raises the errors of its source, but never `LookupError` or `TypeError`. This is not an ABC, because `isinstance` is
    tested for every value that a template reads, and is three times slower for an ABC.
    """

    __slots__ = ()

    kind: type[list[Any]] | type[dict[str, Any]]

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        """Return an item. Raises `LookupError` or `TypeError` like the value itself."""
        raise NotImplementedError

    def slice(self, part: slice) -> list[Any]:
        """Return a slice of a list, loaded."""
        raise NotImplementedError

    def keys(self) -> KeysView[str]:
        """Return the keys of a mapping, in order."""
        raise NotImplementedError

    def __contains__(self, key: object) -> bool:
        """Return whether a mapping has a key."""
        return key in self.keys()

    def get(self, key: str) -> Any:
        """Return the value of a key of a mapping, or None."""
        try:
            return self[key]
        except LookupError:
            return None

    def whole(self) -> Any:
        """Load and return the whole value."""
        raise NotImplementedError


class PartSource(Protocol):
    """Loads spans of one object for one evaluation."""

    def load(self, spans: Sequence[Span], path: Path) -> Sequence[Any]:
        """Return the items of each span, a list or a mapping; `path` is the path of their container."""
        ...


class OutlinedPart(Part):
    """A container of an outline."""

    __slots__ = ("_container", "_path", "_source", "kind")

    def __init__(self, container: Container, source: PartSource, path: Path = ()) -> None:
        self._container, self._source, self._path = container, source, path
        self.kind = _KINDS[container.kind]

    def __len__(self) -> int:
        return self._container.length

    def __getitem__(self, key: Any) -> Any:
        if self.kind is dict:
            return self._found(self._container.places[key], key)
        at = whole_number(key)
        at += len(self) if at < 0 else 0
        if not 0 <= at < len(self):
            raise IndexError(key)
        return self._found(self._container.block_at(at), at)

    def _found(self, block: int, key: Any) -> Any:
        inner = self._container.blocks[block].inner
        if inner is not None:
            return OutlinedPart(inner, self._source, (*self._path, key))
        span = self._container.span(block, block + 1)
        found = self._source.load([span], self._path)[0]
        return found[key] if self.kind is dict else found[key - span.indexes.start]

    def slice(self, part: slice) -> list[Any]:
        indexes = range(len(self))[part]
        if not indexes:
            return []
        ends = sorted((self._container.block_at(indexes[0]), self._container.block_at(indexes[-1])))
        blocks = range(ends[0], ends[1] + 1)
        spans = [self._container.span(blocks.start, blocks.stop)]
        if len(indexes) < len(blocks):
            spans = [self._container.span(at, at + 1) for at in sorted({self._container.block_at(at) for at in indexes})]
        items: dict[int, Any] = {}
        for span, found in zip(spans, self._source.load(spans, self._path), strict=True):
            items.update(zip(span.indexes, found, strict=True))
        return [items[at] for at in indexes]

    def keys(self) -> KeysView[str]:
        return self._container.places.keys()

    def whole(self) -> Any:
        return self._source.load([self._container.span()], self._path)[0]
