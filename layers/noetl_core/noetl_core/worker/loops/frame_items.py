"""The collection of a cursor loop: frames of claimed rows. Only the frame in use is in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from noetl_core.events.runs import LoopFrameClaimed
from noetl_core.tools.cursors.base import ClaimIds, Row
from noetl_core.worker.values.execution_view import Resolver


@dataclass(slots=True)
class Frame:
    """One claimed frame: the indexes from `first` on. `rows` is the list of rows as recorded, or a reference to it."""

    ids: ClaimIds
    first: int
    keys: Sequence[str]
    key_type: str | None
    rows: Any
    handles: Any

    @property
    def indexes(self) -> range:
        return range(self.first, self.first + len(self.keys))


class FrameItems(Sequence[Any]):
    """The rows of all frames, by the index of their iteration."""

    def __init__(self, resolve: Resolver) -> None:
        self._resolve = resolve
        self.frames: list[Frame] = []
        self._total = 0
        self.read: tuple[Frame, Sequence[Any], Sequence[Any]] | None = None
        """The frame that was read last, with its rows and handles; no other rows are held."""

    def add(self, claimed: LoopFrameClaimed) -> Frame | None:
        """Add a recorded frame and return it; None for the empty frame that marks the end of the rows."""
        if not claimed["keys"]:
            return None
        ids = ClaimIds(claimed["claim"], claimed["failed"])
        frame = Frame(
            ids, self._total, claimed["keys"], claimed.get("key_type"), claimed.get("rows", []), claimed.get("handles", [])
        )
        self.frames.append(frame)
        self._total += len(frame.keys)
        return frame

    def __len__(self) -> int:
        return self._total

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(self._total))]
        if not 0 <= index < self._total:
            raise IndexError(index)
        frame = self.frame_of(index)
        return self._rows(frame)[0][index - frame.first]

    def frame_of(self, index: int) -> Frame:
        """Return the frame that contains the row of an iteration."""
        return self.frames[bisect_right(self.frames, index, key=lambda frame: frame.first) - 1]

    def rows(self, frame: Frame, indexes: Iterable[int]) -> list[Row]:
        """Return rows of a frame in the form that their source takes."""
        return list(self._claimed(frame, indexes))

    def _claimed(self, frame: Frame, indexes: Iterable[int]) -> Iterator[Row]:
        handles = self._rows(frame)[1] if frame.handles else ()
        for index in indexes:
            place = index - frame.first
            yield Row(frame.keys[place], None, handles[place] if handles else None)

    def forget(self, frame: Frame) -> None:
        """Drop the cached rows of a finished frame; they are read again when needed."""
        if self.read is not None and self.read[0] is frame:
            self.read = None

    def _rows(self, frame: Frame) -> tuple[Sequence[Any], Sequence[Any]]:
        if self.read is None or self.read[0] is not frame:
            self.read = frame, self._resolve.whole(frame.rows), self._resolve.whole(frame.handles)
        return self.read[1], self.read[2]
