"""Parts of a long control stream, as far as a view asks for them. However long the stream is, no more than so many of its commits
are read; the end and the beginning always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from noetl_core.control.backwards import before_instant
from noetl_core.control.core import SNAPSHOT_EVERY, Control
from noetl_core.control.snapshot_search import newest_before
from noetl_core.engine.fold import fold_commits
from noetl_core.engine.records import Commit, Snapshot, StreamId, control_events
from noetl_core.engine.snapshots import restore
from noetl_core.engine.state import State
from noetl_core.events.event import ControlEvent
from noetl_core.history import snapshot_upto

WHOLE: Final = 1_000
"""Commits of a control stream of which all are read."""
READ: Final = 1_500
"""Commits that are read of a longer one, and of the streams of its runs."""
TAIL: Final = 128
BLOCK: Final = 16
"""Commits that are read together: near a place are those of the steps before and behind it."""
MOST_TOGETHER: Final = 64
"""Commits that are read together where many are looked through."""
SCANNED: Final = 400
"""Commits that are looked through for one event. Snapshots are nearer to each other, unless the state is very large."""
PROBED: Final = 8
"""A snapshot costs about as much as so many commits."""

Wanted = Callable[[ControlEvent], bool]


class LogParts:
    """The parts of one execution's control stream that were read, up to the position of `end`."""

    def __init__(self, control: Control, end: State, tail: int | None = None) -> None:
        self.end = end
        self.held: dict[int, Commit] = {}
        self.read = 0
        """Commits that were read, of whatever stream, and what other reading cost."""
        self._control, self._most = control, READ
        self._stream, self._last = StreamId(end.execution_id), end.seq
        self.tail = max(0, self._last + 1 - (TAIL if tail is None else tail))
        """From where on the stream was read to its end."""
        self.hold(0, BLOCK)
        self.hold(self.tail, self._last + 1)

    @property
    def left(self) -> int:
        """How many more commits may be read."""
        return self._most - self.read

    def hold(self, first: int, end: int) -> None:
        """Read the commits from `first` up to and without `end` that were not read yet, as far as the bound goes."""
        first, end = max(first, 0), min(end, self._last + 1)
        while first < end and self.left > 0:
            if first in self.held:
                first += 1
                continue
            stop = next((seq for seq in range(first, end) if seq in self.held), end)
            found = self._control.store.read(self._stream, after=first - 1, limit=min(stop - first, self.left))
            if not found:
                return
            self.read += len(found)
            self.held.update({commit.seq: commit for commit in found})
            first += len(found)

    def events(self, first: int, end: int) -> Iterator[ControlEvent]:
        """Yield the events from a position up to and without another one, of the commits that were read."""
        for seq in range(max(first, 0), end):
            if seq in self.held:
                yield from control_events(self.held[seq])

    def commits(self, after: int) -> Iterator[Commit]:
        """Yield the commits behind a position, as far as the bound goes."""
        together = BLOCK
        for seq in range(after + 1, self._last + 1):
            if seq not in self.held:
                self.hold(seq, seq + together)
                together = min(together * 2, MOST_TOGETHER)
            if seq not in self.held:
                return
            yield self.held[seq]

    def state(self, upto: int) -> State | None:
        """Return the state at a position; None where it is too far behind a snapshot."""
        state = State(self.end.execution_id)
        if (snap := snapshot_upto(self._control.store, state.execution_id, upto) if upto >= 0 else None) is not None:
            self.read += PROBED
            state = restore(snap)
        behind = range(state.seq + 1, upto + 1)
        if sum(seq not in self.held for seq in behind) <= self.left:
            self.hold(behind.start, behind.stop)
        return fold_commits(state, (self.held[seq] for seq in behind)) if all(seq in self.held for seq in behind) else None

    def of_run(self, run: str, *, last: bool = False) -> Commit | None:
        """Return the first commit of a run's stream, or its last one."""
        self.read += 1
        stream = StreamId(self.end.execution_id, run)
        return self._control.store.last(stream) if last else next(iter(self._control.store.read(stream, limit=1)), None)

    def scan(self, first: int, wanted: Wanted, most: int = SCANNED) -> int | None:
        """Read from a position on until an event is `wanted`; return where that is."""
        for commit in self.commits(max(first, 0) - 1):
            if commit.seq >= first + most:
                return None
            if any(map(wanted, control_events(commit))):
                return commit.seq
        return None

    def snapshot(self, before: Callable[[Snapshot], bool]) -> Snapshot | None:
        """Return the newest snapshot that lies `before` something."""

        def counted(snap: Snapshot) -> bool:
            self.read += PROBED
            return before(snap)

        return newest_before(self._control.store, self.end.execution_id, counted, upto=self._last, near=SNAPSHOT_EVERY)

    def search(self, before: Callable[[Snapshot], bool], wanted: Wanted) -> int | None:
        """Read from the newest snapshot on that lies `before` an event until that is found."""
        snap = self.snapshot(before)
        return self.scan(0 if snap is None else snap.seq + 1, wanted)

    def at_instant(self, ts: int, wanted: Wanted) -> int | None:
        """Look for an event of about an instant."""
        self.read += self._last.bit_length()
        near = before_instant(self._control.recent, self._stream, self._last, ts) + 1
        found = self.scan(near, wanted, 2 * BLOCK)
        return self.scan(near - 2 * BLOCK, wanted, 2 * BLOCK) if found is None else found
