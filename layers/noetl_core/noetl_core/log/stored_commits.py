"""Decodes commits lazily, as stores return them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

from noetl_core.engine.records import Commit

Item = TypeVar("Item")


class StoredCommits(Sequence[Commit], Generic[Item]):
    """The commits of stored items. Each is decoded once, at its first access. Raises `CorruptLog`, `NewerLog`."""

    def __init__(self, items: Sequence[Item], decode: Callable[[Item], Commit]) -> None:
        self._items, self._decode = items, decode
        self._taken: list[Commit | None] = [None] * len(items)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, place: int) -> Commit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Commit]: ...
    def __getitem__(self, place: int | slice) -> Commit | list[Commit]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        commit = self._taken[place]
        if commit is None:
            commit = self._taken[place] = self._decode(self._items[place])
        return commit
