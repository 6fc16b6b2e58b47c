"""Finds the snapshot nearest before a position in a history, so that only a few commits of the control stream are read after it.

A log without snapshots (a short one, or one recorded by older code) is read from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from noetl_core.engine.records import Commit, Snapshot, StreamId
from noetl_core.log.history import commits_of, snapshot_upto
from noetl_core.ports import CommitReader, EventStore
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND
from noetl_core.views.reading.cursor import Position, StreamPosition

SKEW = 10 * SECOND
"""The assumed maximum difference between clocks of workers and the control plane."""
MAX_PROBES = 24
"""Maximum number of snapshots read in a search: more than halving ten million commits takes."""
NEAR = 200
"""Distance in commits at which reading is cheaper than further search."""
MISSES = 2
"""Probes in a row that found no snapshot in between: snapshots of a large state are far apart."""


@frozen
class Start:
    """The start of a read: a position just after a control commit, the number of events before it in causal order, and how many
    of them belong to each open run.
    """

    position: Position
    counted: int = 0
    known: dict[str, int] = field(default_factory=dict)


def start_of(snap: Snapshot | None, trace_id: str | None) -> Start:
    """Return the start after a snapshot; without a snapshot, the beginning."""
    if snap is None:
        return Start(Position(trace_id=trace_id))
    runs = snap.state["runs"]
    open_runs = {run: StreamPosition(at["handled_seq"] + 1, 0, at["step"]) for run, at in runs.items()}
    known = {run: at["events"] for run, at in runs.items()}
    return Start(Position(StreamPosition(snap.seq + 1), open_runs, trace_id), snap.state["events"], known)


def before_number(store: EventStore, reader: CommitReader, execution_id: str, number: int) -> Snapshot | None:
    """Return the newest snapshot with at most `number` events before it.

    There is none if the control plane did not record how much runs have written: the states of such a log do not count events.
    """

    def counts(snap: Snapshot) -> int:
        return int(snap.state["events"])

    found = newest_before(store, execution_id, lambda snap: counts(snap) <= number, counts, number)
    return found if found is not None and _counts_runs(reader, execution_id) else None


def _counts_runs(reader: CommitReader, execution_id: str) -> bool:
    events = (event for commit in commits_of(reader, StreamId(execution_id)) for event in commit.events)
    first = next((event for event in events if event.name == "BoundaryRouted"), None)
    return first is None or "events" in first.data


def before_instant(store: EventStore, execution_id: str, ts: int) -> Snapshot | None:
    """Return the newest snapshot before which nothing happened at `ts` or later."""
    return newest_before(store, execution_id, lambda snap: _updated(snap) < ts - SKEW, _updated, ts)


def _updated(snap: Snapshot) -> int:
    return int(snap.state["updated_at"])


def before_routing(store: EventStore, reader: CommitReader, commit: Commit) -> Snapshot | None:
    """Return the newest snapshot before the processing of this commit of a run."""
    begun = _begun(reader, commit.stream)

    def before(snap: Snapshot) -> bool:
        run = snap.state["runs"].get(commit.stream.run_id)
        if run is not None:
            return bool(run["handled_seq"] < commit.seq)
        return snap.seq < begun or _updated(snap) < commit.ts - SKEW  # not open yet, or already closed

    return newest_before(store, commit.stream.execution_id, before, _updated, commit.ts)


def _begun(reader: CommitReader, stream: StreamId) -> int:
    """Return a control position before whose end a run was not open; -1 if it is unknown. Of a chunk, return its loop's."""
    first = reader.read(stream, limit=1)
    events = first[0].events if first else ()
    return next((event.data["as_of"] for event in events if event.name == "StepStarted"), -1)


def newest_before(
    store: EventStore,
    execution_id: str,
    before: Callable[[Snapshot], bool],
    measure: Callable[[Snapshot], float] | None = None,
    wanted: float = 0,
    upto: int | None = None,
    near: int = NEAR,
) -> Snapshot | None:
    """Return the newest snapshot for which `before` is true, with a position up to `upto`.

    For later snapshots, `before` is false. A guess from `measure`, if there is one, alternates with halving until `near` commits
    are left.
    """
    newest = snapshot_upto(store, execution_id, upto)
    if newest is None or before(newest):
        return newest
    found: Snapshot | None = None
    low, high, after, misses = -1, newest.seq, newest, 0
    for probe in range(MAX_PROBES):
        if high - low <= near or misses == MISSES:
            break
        middle = (low + high) // 2
        if measure is not None and probe % 2 == 0 and found is not None:
            span = max(measure(after) - measure(found), 1)
            middle = found.seq + round((after.seq - found.seq) * (wanted - measure(found)) / span)
        middle = min(max(middle, low + 1), high - 1)
        snap = snapshot_upto(store, execution_id, middle)
        if snap is None or snap.seq <= (low if found is None else found.seq):
            low, misses = middle, misses + 1  # there is none between
            continue
        misses = 0
        if before(snap):
            found, low = snap, snap.seq
        else:
            after, high = snap, snap.seq
    return found
