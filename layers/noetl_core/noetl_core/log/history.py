"""Reads the log of an execution page by page, and folds it: from its newest snapshot, or up to a position."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_core.engine.fold.control_stream import READABLE, UnknownEvent, fold_commits
from noetl_core.engine.records import (
    Commit,
    LoopProgress,
    Snapshot,
    StreamId,
    Tally,
    count_takeovers_without_progress,
    envelopes_of,
)
from noetl_core.engine.snapshots import restore
from noetl_core.engine.state import State
from noetl_core.events.aggregates import Aggregates
from noetl_core.ports import CommitReader, EventStore, NewerLog

FIRST, PAGE = 4, 32
"""Commits per read: at first as many as most runs have, then as many as contain about `PAGE_EVENTS`, at most a page.

A stream of a hundred thousand iterations, thousands in a commit, is never in memory as a whole, nor read much further than
needed.
"""
PAGE_EVENTS = 2_000


def commits_of(store: CommitReader, stream: StreamId, after: int = -1) -> Iterator[Commit]:
    """Yield the commits of a stream after `after`, in order, one page at a time."""
    limit = FIRST
    while page := store.read(stream, after=after, limit=limit):
        events = 0
        for commit in page:
            events += len(commit.events)
            yield commit
        if len(page) < limit:
            return
        after += len(page)
        limit = min(PAGE, max(1, PAGE_EVENTS * len(page) // max(1, events)))


def tally_of(store: EventStore, last: Commit) -> Tally:
    """Return the counts of the stream whose newest commit is `last`. If an older version wrote it without counts, the stream is
    read and counted."""
    if last.tally is not None:
        return last.tally
    events = lost = 0
    for commit in commits_of(store, last.stream):
        for event in commit.events:
            events += envelopes_of(event)
            lost = count_takeovers_without_progress(lost, event)
    return Tally(events, lost)


def progress_of(tally: Tally) -> LoopProgress | None:
    """Return the counts of the loop in progress after a commit with this tally; None if no iteration has ended."""
    if tally.progress is not None or tally.aggregates is None:
        return tally.progress
    stated = tally.aggregates
    failed = sum(failed for _, _, failed in stated.get("failed", ()))
    return LoopProgress(-1, sum(stated.get("us", {}).values()), failed, stated.get("items"))


def stated_aggregates(reader: CommitReader, last: Commit | None) -> Aggregates | None:
    """Return the aggregates of the loop in progress whose run's newest commit is `last`: its own, or those of the newest commit
    that has them. Reads one commit at most. None if no iteration has ended, or if the log has no aggregates."""
    if last is not None and last.tally is not None and last.tally.progress is not None:
        (last,) = reader.read(last.stream, after=last.tally.progress.stated - 1, limit=1) or (last,)
    return None if last is None or last.tally is None else last.tally.aggregates


def load_state(store: EventStore, execution_id: str, upto: int | None = None) -> State:
    """Return the state at the end of the control stream, or at position `upto`. `seq` -1 means that the execution does not
    exist.

    Raises `CorruptLog`, and `NewerLog` if newer code wrote the log.
    """
    return state_from(store, execution_id, snapshot_upto(store, execution_id, upto), upto)


def snapshot_upto(store: EventStore, execution_id: str, upto: int | None = None) -> Snapshot | None:
    """Return the newest snapshot at a position up to `upto` that this version of the fold can use."""
    found = store.load_snapshot(execution_id, upto)
    return found if found is not None and found.reducer in READABLE else None


def state_from(store: EventStore, execution_id: str, snap: Snapshot | None, upto: int | None = None) -> State:
    """Return the state, as `load_state`, from a snapshot or, without one, from the beginning."""
    state = State(execution_id) if snap is None else restore(snap)
    limit = None if upto is None else upto - state.seq
    if limit is not None and limit <= 0:
        return state
    try:
        return fold_commits(state, store.read(StreamId(execution_id), after=state.seq, limit=limit))
    except UnknownEvent as error:  # only newer code writes unknown events
        raise NewerLog(str(error)) from error


def caught_up(store: CommitReader, state: State) -> State:
    """Return the state, changed, at the end of the control stream: one read of the commits since. Raises as `load_state`."""
    try:
        return fold_commits(state, store.read(StreamId(state.execution_id), after=state.seq))
    except UnknownEvent as error:
        raise NewerLog(str(error)) from error


def counted(store: EventStore, state: State) -> State:
    """Return a state with the counts of all ended runs: `state` itself or, if its snapshot has no counts, one that is folded from
    the beginning."""
    return state_from(store, state.execution_id, None, state.seq) if state.ended.since else state
