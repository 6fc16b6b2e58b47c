"""Finds positions in a history: of the n-th event, of an instant, after an event.

The control stream is read from the snapshot before the position, because it records how much runs have written. Of run streams,
only a few commits are read.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from noetl_core.api.refused import BadCursor
from noetl_core.control.core import Control
from noetl_core.engine.records import Commit, StreamId, envelopes_of
from noetl_core.log.history import commits_of, snapshot_upto
from noetl_core.ports import CommitReader
from noetl_core.views.reading.cursor import Position, StreamPosition, place_of
from noetl_core.views.reading.snapshot_search import before_instant, before_number, before_routing, start_of


def position_of_number(control: Control, execution_id: str, number: int, trace_id: str | None) -> tuple[Position, int]:
    """Return the position before the event with that number in causal order, from 0, and its number; the position after the last
    event if there are fewer.
    """
    reader = control.recent
    start = start_of(before_number(control.store, reader, execution_id, number), trace_id)
    position, counted, known = start.position, start.counted, start.known
    for commit in commits_of(reader, StreamId(execution_id), position.control.seq - 1):
        for event in commit.events:
            if event.name != "BoundaryRouted":
                continue
            run, at = event.data["run"], position.runs[event.data["run"]]
            stream = StreamId(execution_id, run)
            before = known.get(run, 0)
            behind = _envelopes_upto(reader, stream, event.data["seq"], event.data.get("events"))
            if counted + behind - before > number:
                _advance(reader, stream, at, event.data["seq"], (before, behind), before + number - counted)
                return position, number
            counted += behind - before
            known[run] = behind
            at.seq, at.taken = event.data["seq"] + 1, 0
        here = sum(envelopes_of(event) for event in commit.events)
        if counted + here > number:
            position.control.taken = number - counted
            return position, number
        counted += here
        position.passed(commit)
    for run, at in position.runs.items():
        for commit in commits_of(reader, StreamId(execution_id, run), at.seq - 1):
            here = sum(envelopes_of(event) for event in commit.events)
            if counted + here > number:
                at.taken = number - counted
                return position, number
            counted += here
            at.seq = commit.seq + 1
    return position, counted


def _envelopes_upto(reader: CommitReader, stream: StreamId, seq: int, recorded: int | None) -> int:
    """Return the number of envelopes in a stream up to a boundary: `recorded` by routing, or read from its commit."""
    if recorded is not None:
        return recorded
    found = reader.read(stream, after=seq - 1, limit=1)
    if found and found[0].tally is not None:
        return found[0].tally.events
    return sum(envelopes_of(event) for commit in reader.read(stream, limit=seq + 1) for event in commit.events)


def _advance(reader: CommitReader, stream: StreamId, at: StreamPosition, last: int, counts: tuple[int, int], number: int) -> None:
    """Set a position of a stream before its envelope `number`, at or before commit `last`.

    `counts` are the numbers of envelopes up to the position, and up to commit `last`. A guess from these alternates with halving.
    """
    low, high, (passed, behind) = at.seq, last, counts
    for probe in count():
        middle = low + (number - passed) * (high - low + 1) // max(behind - passed, 1) if probe % 2 == 0 else (low + high) // 2
        middle = min(max(middle, low), high)
        commit = reader.read(stream, after=middle - 1, limit=1)[0]
        if commit.tally is None:
            break  # recorded by an older version
        end = commit.tally.events
        begin = end - sum(envelopes_of(event) for event in commit.events)
        if number < begin and middle > low:
            high, behind = middle - 1, begin
        elif number >= end and middle < high:
            low, passed = middle + 1, end
        else:
            at.seq, at.taken = middle, max(number - begin, 0)
            return
    passed = counts[0]
    for commit in commits_of(reader, stream, at.seq - 1):
        here = sum(envelopes_of(event) for event in commit.events)
        at.seq, at.taken = commit.seq, number - passed
        if passed + here > number:
            return
        passed += here


def position_behind(control: Control, event_id: str, execution_id: str, trace_id: str | None) -> Position:
    """Return the position just after an event.

    Of run streams, only the commit of the event and commits after the last control commit are read. Raises `BadCursor`.
    """
    where, reader = place_of(event_id, execution_id), control.recent
    found = reader.read(StreamId(execution_id, where.run), after=where.seq - 1, limit=1)
    taken = where.taken(found[0]) if found else None
    if taken is None:
        raise BadCursor(f"there is no event {event_id}")
    if where.run is None:
        snap = snapshot_upto(control.store, execution_id, where.seq - 1)
    else:
        snap = before_routing(control.store, control.recent, found[0])
    position = start_of(snap, trace_id).position
    for commit in commits_of(reader, StreamId(execution_id), position.control.seq - 1):
        for event in commit.events:
            if event.name != "BoundaryRouted":
                continue
            at = position.runs[event.data["run"]]
            if event.data["run"] == where.run and event.data["seq"] >= where.seq:
                at.seq, at.taken = where.seq, taken
                return position
            at.seq, at.taken = event.data["seq"] + 1, 0
        if where.run is None and commit.seq == where.seq:
            position.control.seq, position.control.taken = where.seq, taken
            return position
        position.passed(commit)
    for run, at in position.runs.items():
        if run == where.run:
            at.seq, at.taken = where.seq, taken
            return position
        last = control.store.last(StreamId(execution_id, run))
        at.seq = at.seq if last is None else last.seq + 1
    raise BadCursor(f"there is no event {event_id}")


def position_of_instant(control: Control, execution_id: str, ts: int, trace_id: str | None) -> Position:
    """Return the position before the first event at `ts` (microseconds) or later, in the first part of the causal order that has
    one.
    """
    reader = control.recent
    position = start_of(before_instant(control.store, execution_id, ts), trace_id).position
    for commit in commits_of(reader, StreamId(execution_id), position.control.seq - 1):
        for event in commit.events:
            if event.name != "BoundaryRouted":
                continue
            at, stream = position.runs[event.data["run"]], StreamId(execution_id, event.data["run"])
            if commit.ts >= ts and _at_instant(reader, stream, at, event.data["seq"], ts):
                return position
            at.seq, at.taken = event.data["seq"] + 1, 0
        if (taken := _before(commit, ts)) is not None:
            position.control.taken = taken
            return position
        position.passed(commit)
    for run, at in position.runs.items():
        for commit in commits_of(reader, StreamId(execution_id, run), at.seq - 1):
            if (taken := _before(commit, ts)) is not None:
                at.taken = taken
                return position
            at.seq = commit.seq + 1
    return position


def _at_instant(reader: CommitReader, stream: StreamId, at: StreamPosition, last: int, ts: int) -> bool:
    """Set a position of a stream before its first event at `ts` or later. Return False if there is none up to commit `last`."""
    seq = _first(reader, stream, at.seq, last, lambda commit: commit.ts >= ts)
    for commit in reader.read(stream, after=seq - 1, limit=min(2, last - seq + 1)):
        if (taken := _before(commit, ts)) is not None:
            at.seq, at.taken = commit.seq, taken
            return True
    return False


def _before(commit: Commit, ts: int) -> int | None:
    """Return the number of envelopes of a commit before its first one at `ts` or later; None if there is no such one.

    The events of a commit happened before it was recorded.
    """
    taken = 0
    for event in commit.events if commit.ts >= ts else ():
        if event.name == "TaskProcessed" and "started" in event.data and event.data["started"] >= ts:
            return taken
        taken += envelopes_of(event)
        if event.ts >= ts:
            return taken - 1
    return None


def _first(reader: CommitReader, stream: StreamId, low: int, high: int, wanted: Callable[[Commit], bool]) -> int:
    """Return the first position from `low` to `high` whose commit is `wanted`, as are all after it; `high` if none is."""
    while low < high:
        middle = (low + high) // 2
        found = reader.read(stream, after=middle - 1, limit=1)
        if found and wanted(found[0]):
            high = middle
        else:
            low = middle + 1
    return low
