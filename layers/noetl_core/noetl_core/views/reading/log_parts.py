"""Reads selected parts of a long control stream: its beginning, its end and, within a budget, what a view needs (`ReadLimits`).

Reads short streams whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from noetl_core.control.cached_states import SNAPSHOT_EVERY
from noetl_core.control.core import Control
from noetl_core.engine.fold.control_stream import fold_commits
from noetl_core.engine.records import Commit, Snapshot, StreamId, control_events
from noetl_core.engine.snapshots import restore
from noetl_core.engine.state import State
from noetl_core.events.event import ControlEvent
from noetl_core.log.history import snapshot_upto
from noetl_core.values.frozen import frozen
from noetl_core.views.reading.newest_first import before_instant
from noetl_core.views.reading.snapshot_search import newest_before

MOST_TOGETHER: Final = 64
"""Commits that are read together in a scan."""
PROBED: Final = 8
"""The cost of loading a snapshot, in commits."""


@frozen
class ReadLimits:
    """Numbers of commits that a view reads of one execution."""

    whole: int = 1_000
    """Maximum length of a control stream that is read whole: searching it would cost as much."""
    read: int = 1_500
    """Maximum number of commits read of a longer control stream and of the streams of its runs."""
    evaluated: int = 600
    """Commits of the budget that searches leave for the evaluation of decisions."""
    tail: int = 128
    """Commits at the end of a longer stream that are always read."""
    ends: int = 250
    """Commits at the beginning of a longer stream, and at its end, whose visits are compared with those of another execution."""
    block: int = 16
    """Commits that are read together. The commits near a position are those of the steps before and after it."""
    scanned: int = 400
    """Maximum number of commits scanned for one event. Snapshots are closer together, unless the state is very large."""
    near: int = SNAPSHOT_EVERY
    """Distance between snapshots at which the search for one ends, and between questions at which the log is folded on."""
    steps: int = 20
    """Maximum number of steps, and of visits of a step, that are searched one by one."""


LIMITS: Final = ReadLimits()

Predicate = Callable[[ControlEvent], bool]


class LogReader:
    """The parts of one execution's control stream that were read, up to position `end`."""

    def __init__(self, control: Control, end: State, limits: ReadLimits = LIMITS, ends: int | None = None) -> None:
        """`ends` is the number of commits that are always read at the beginning, and at the end."""
        self.end, self.limits = end, limits
        self.fetched: dict[int, Commit] = {}
        """Commits of the control stream that were read, by position."""
        self.spent = 0
        """Budget used: commits read from any stream, and the cost of other reads."""
        self._control, self._budget = control, limits.read
        self._stream, self._last = StreamId(end.execution_id), end.seq
        self.tail = 0 if self._last < limits.whole else max(0, self._last + 1 - (ends or limits.tail))
        """The position from which the stream was read to its end."""
        self.fetch(self.tail, self._last + 1)
        self.fetch(0, ends or limits.block)

    @property
    def complete(self) -> bool:
        """Return whether the whole stream was read."""
        return len(self.fetched) == self._last + 1

    @property
    def searchable(self) -> bool:
        """Return whether the budget allows another search."""
        return self.spent < self._budget - self.limits.evaluated

    def fetch(self, first: int, end: int) -> None:
        """Read the unread commits from `first` up to `end` (exclusive), within the budget."""
        first, end = max(first, 0), min(end, self._last + 1)
        while first < end and self.spent < self._budget:
            if first in self.fetched:
                first += 1
                continue
            stop = next((seq for seq in range(first, end) if seq in self.fetched), end)
            found = self._control.store.read(self._stream, after=first - 1, limit=min(stop - first, self._budget - self.spent))
            if not found:
                return
            self.spent += len(found)
            self.fetched.update({commit.seq: commit for commit in found})
            first += len(found)

    def events(self, first: int, end: int) -> Iterator[ControlEvent]:
        """Yield the events of read commits from `first` up to `end` (exclusive)."""
        for seq in range(max(first, 0), end):
            if seq in self.fetched:
                yield from control_events(self.fetched[seq])

    def commits(self, after: int) -> Iterator[Commit]:
        """Yield the commits after a position, within the budget."""
        together = self.limits.block
        for seq in range(after + 1, self._last + 1):
            if seq not in self.fetched:
                self.fetch(seq, seq + together)
                together = min(together * 2, MOST_TOGETHER)
            if seq not in self.fetched:
                return
            yield self.fetched[seq]

    def state(self, upto: int) -> State | None:
        """Return the state at a position; None if it is too far after a snapshot."""
        state = State(self.end.execution_id)
        if (snap := snapshot_upto(self._control.store, state.execution_id, upto) if upto >= 0 else None) is not None:
            self.spent += PROBED
            state = restore(snap)
        behind = range(state.seq + 1, upto + 1)
        if sum(seq not in self.fetched for seq in behind) <= self._budget - self.spent:
            self.fetch(behind.start, behind.stop)
        return fold_commits(state, (self.fetched[seq] for seq in behind)) if all(seq in self.fetched for seq in behind) else None

    def commit_of_run(self, run: str, *, last: bool = False) -> Commit | None:
        """Return the first commit of a run's stream, or the last one."""
        self.spent += 1
        stream = StreamId(self.end.execution_id, run)
        return self._control.store.last(stream) if last else next(iter(self._control.store.read(stream, limit=1)), None)

    def scan(self, first: int, matches: Predicate, most: int | None = None) -> int | None:
        """Read at most `most` commits from a position until an event `matches`. Return the position of that event."""
        most = self.limits.scanned if most is None else most
        for commit in self.commits(max(first, 0) - 1):
            if commit.seq >= first + most:
                return None
            if any(map(matches, control_events(commit))):
                return commit.seq
        return None

    def snapshot(self, before: Callable[[Snapshot], bool]) -> Snapshot | None:
        """Return the newest snapshot for which `before` is true."""

        def counted(snap: Snapshot) -> bool:
            self.spent += PROBED
            return before(snap)

        return newest_before(self._control.store, self.end.execution_id, counted, upto=self._last, near=self.limits.near)

    def search(self, before: Callable[[Snapshot], bool], matches: Predicate) -> int | None:
        """Scan for an event from the newest snapshot for which `before` is true."""
        snap = self.snapshot(before)
        return self.scan(0 if snap is None else snap.seq + 1, matches)

    def at_instant(self, ts: int, matches: Predicate) -> int | None:
        """Find an event recorded near an instant."""
        self.spent += self._last.bit_length()
        near = before_instant(self._control.recent, self._stream, self._last, ts) + 1
        around = 2 * self.limits.block
        found = self.scan(near, matches, around)
        return self.scan(near - around, matches, around) if found is None else found
