"""Reads a history backwards: the last commits of an execution, or those before an event, without the commits before them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from noetl_core.api.refused import BadCursor
from noetl_core.control.core import Control
from noetl_core.engine.records import Commit, StreamId
from noetl_core.engine.state import State
from noetl_core.events.event import closes_run, opens_run
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.log.history import commits_of
from noetl_core.ports import CommitReader, EventStore
from noetl_core.views.reading.cursor import EventPlace, Position, StreamPosition
from noetl_core.views.reading.envelopes import Expander, envelopes_in
from noetl_core.views.reading.snapshot_search import SKEW, before_routing

FIRST, PAGE = 2, 32
"""Commits of a control stream read at a time. The first read is small: the last page of a long run is in its own stream."""


def ends_of(store: EventStore, state: State, runs: Sequence[str] | None = None) -> dict[str, Commit]:
    """Return the newest commit of each open run that has one; with `runs`, of these only."""
    runs = list(state.runs) if runs is None else runs
    found = read_concurrently(lambda run: store.last(StreamId(state.execution_id, run)), runs)
    return {run: last for run, last in zip(runs, found, strict=True) if last is not None}


def position_at_end(state: State, ends: Mapping[str, Commit]) -> Position:
    """Return the position after everything in a state and in the newest commits of its open runs."""
    runs = {run.id: StreamPosition(ends[run.id].seq + 1 if run.id in ends else 0, 0, run.step) for run in state.runs.values()}
    return Position(StreamPosition(state.seq + 1), runs, state.trace_id)


def last_commits(reader: CommitReader, state: State, ends: Mapping[str, Commit]) -> Iterator[Commit]:
    """Yield the commits of an execution in reverse causal order (`cursor.history`), from the end."""
    for run in reversed(state.runs.values()):
        last = ends.get(run.id)
        if last is not None and last.seq > run.handled_seq:
            yield last
            yield from down(reader, last.stream, last.seq - 1, run.handled_seq + 1)
    yield from _control_down(reader, state.execution_id, state.seq)


def commits_before(control: Control, state: State, where: EventPlace) -> Iterator[Commit]:
    """Yield the commits of an execution in reverse causal order, starting with the commit of an event.

    The event is the last one of that commit. Raises `BadCursor`.
    """
    execution_id, reader = state.execution_id, control.recent
    stream = StreamId(execution_id, where.run)
    held = reader.read(stream, after=where.seq - 1, limit=1)
    if not held or where.place >= len(held[0].events):
        raise BadCursor(f"there is no such event in {stream}")
    yield replace(held[0], events=held[0].events[: where.place + 1])
    if where.run is None:
        yield from _runs_before(reader, held[0], None)
        yield from _control_down(reader, execution_id, where.seq - 1)
        return
    yield from _segment(reader, stream, where.seq - 1)
    routed = routing_of(control, state, held[0])
    if routed is None:  # not routed yet: it comes after the end of the control stream
        runs = list(state.runs)
        for other in reversed(runs[: runs.index(where.run)] if where.run in runs else []):
            found = list(commits_of(reader, StreamId(execution_id, other), state.runs[other].handled_seq))
            yield from reversed(found)
        yield from _control_down(reader, execution_id, state.seq)
        return
    yield from _runs_before(reader, routed, where.run)
    yield from _control_down(reader, execution_id, routed.seq - 1)


def routing_of(control: Control, state: State, commit: Commit) -> Commit | None:
    """Return the control commit that processed the boundary at the end of this part of a run's stream; None before that."""
    stream = StreamId(state.execution_id)
    known = state.runs.get(commit.stream.run_id or "")
    if known is not None and known.handled_seq < commit.seq:
        return None
    snap = before_routing(control.store, control.recent, commit)
    near = before_instant(control.recent, stream, state.seq, commit.ts - SKEW) if snap is None else snap.seq
    for after in (near, -1):
        for each in commits_of(control.recent, stream, after):
            for event in each.events:
                if event.name != "BoundaryRouted" or event.data["run"] != commit.stream.run_id:
                    continue
                if event.data["seq"] >= commit.seq:
                    return each
    return None


def before_instant(reader: CommitReader, stream: StreamId, last: int, ts: int) -> int:
    """Return a position of the stream up to which everything was recorded before `ts`; -1 is the beginning."""
    low, high = -1, last
    while low < high:
        middle = (low + high + 1) // 2
        found = reader.read(stream, after=middle - 1, limit=1)
        if found and found[0].ts < ts:
            low = middle
        else:
            high = middle - 1
    return low


def _control_down(reader: CommitReader, execution_id: str, upto: int) -> Iterator[Commit]:
    for commit in down(reader, StreamId(execution_id), upto, 0):
        yield commit
        yield from _runs_before(reader, commit, None)


def _runs_before(reader: CommitReader, commit: Commit, run: str | None) -> Iterator[Commit]:
    """Yield the commits that precede a control commit: those of the runs whose boundaries it processed; with `run`, only those
    that precede that run's.
    """
    routed = [(event.data["run"], event.data["seq"]) for event in commit.events if event.name == "BoundaryRouted"]
    if run is not None:
        routed = routed[: next(place for place, (each, _) in enumerate(routed) if each == run)]
    for each, seq in reversed(routed):
        stream = StreamId(commit.stream.execution_id, each)
        yield from reader.read(stream, after=seq - 1, limit=1)
        yield from _segment(reader, stream, seq - 1)


def _segment(reader: CommitReader, stream: StreamId, upto: int) -> Iterator[Commit]:
    """Yield commits from `upto` down to the one after the previous boundary, which another control commit processed."""
    for commit in down(reader, stream, upto, 0):
        if commit.wake:
            return
        yield commit


def down(reader: CommitReader, stream: StreamId, upto: int, first: int) -> Iterator[Commit]:
    """Yield the commits of a stream from `upto` down to `first`."""
    size = FIRST
    while upto >= first:
        size = min(size, upto - first + 1)
        page = reader.read(stream, after=upto - size, limit=size)
        yield from (page[place] for place in range(len(page) - 1, -1, -1))
        upto -= size
        size = min(size * 2, PAGE)


def last_envelopes(
    commits: Iterable[Commit], state: State, names: Container[str] | None = None, most: int | None = None
) -> Iterator[list[dict[str, Any]]]:
    """Yield the envelopes of each commit (with `most`, its last ones), in causal order, of commits in reverse order."""
    steps = {run.id: run.step for run in state.runs.values()}
    for commit in commits:
        control = commit.events if commit.stream.run_id is None else ()
        for event in control:
            if event.name == "BoundaryRouted" or closes_run(event):
                steps[event.data["run"]] = event.data["step"]
        for event in control:
            if opens_run(event):  # a forward reader does not know it before this event
                steps.pop(event.data["run"], None)
        expand = Expander(state.execution_id, state.trace_id, steps)
        skip = 0 if most is None else max(0, envelopes_in(commit) - most)
        yield [envelope for _, envelope in expand.numbered(commit, skip, names)]


def tail(commits: Iterable[Commit], state: State, limit: int) -> Sequence[dict[str, Any]]:
    """Return the last `limit` envelopes of commits in reverse order, in causal order."""
    if limit <= 0:
        return []
    found: list[list[dict[str, Any]]] = []
    count = 0
    for part in last_envelopes(commits, state, most=limit):
        found.append(part)
        count += len(part)
        if count >= limit:
            break
    return [envelope for part in reversed(found) for envelope in part][-limit:]
