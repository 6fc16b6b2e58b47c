"""Reading an execution's log page by page, and folding it: from its newest snapshot, or as of a position."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_core.engine.fold import REDUCER, fold_commits
from noetl_core.engine.records import Commit, StreamId
from noetl_core.engine.snapshots import restore
from noetl_core.engine.state import State
from noetl_core.ports import EventStore

PAGE = 32
"""Commits read at a time: a stream of a hundred thousand iterations is never held whole."""


def commits_of(store: EventStore, stream: StreamId, after: int = -1) -> Iterator[Commit]:
    """The commits of a stream behind `after`, in order, read as they are taken."""
    while page := store.read(stream, after=after, limit=PAGE):
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].seq


def load_state(store: EventStore, execution_id: str, upto: int | None = None) -> State:
    """The state at the end of the control stream, or at position `upto`. `seq` -1 means: there is no such execution."""
    state = State(execution_id)
    snap = store.load_snapshot(execution_id)
    if snap is not None and snap.reducer == REDUCER and (upto is None or snap.seq <= upto):
        state = restore(snap)
    limit = None if upto is None else upto - state.seq
    if limit is not None and limit <= 0:
        return state
    return fold_commits(state, store.read(StreamId(execution_id), after=state.seq, limit=limit))
