"""The fold of the control stream: the effect of each event on the state of an execution.

Every event name that the control plane writes is handled, and an unknown name raises an error: a reader that skips unknown
events would decide on incomplete information.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl_core.engine.fold import aggregates, ended_runs
from noetl_core.engine.fold.execution import folds as of_execution
from noetl_core.engine.fold.inputs import folds as of_news
from noetl_core.engine.fold.limits import folds as of_limits
from noetl_core.engine.fold.runs import folds as of_runs
from noetl_core.engine.fold.table import Fold
from noetl_core.engine.fold.tokens import folds as of_tokens
from noetl_core.engine.records import Commit, ControlEvent, control_events
from noetl_core.engine.state import State

REDUCER = 14
"""Version of this fold, stored in snapshots. A snapshot of another version is ignored, and the log is folded again."""
READABLE = frozenset({8, 9, 10, 11, 12, 13, REDUCER})
"""Versions whose snapshots are read: 8 had no counts of ended runs (`EndedRuns.since`), until 9 each finished chunk of a loop
was kept as it is, until 10 there were no warnings and no strict executions, until 11 nobody was named (`State.by`), until 12
no evaluation was marked (`State.attempts`), and until 13 no run was claimed (`Run.claim`, `State.asked`)."""


class UnknownEvent(Exception):
    """The control stream contains an event that this reader does not know; deploy the newer code. Who acts: the operator."""


def _nothing(s: State, e: ControlEvent, d: object, seq: int) -> None:
    pass


_FOLD: Mapping[str, Fold[Any]] = {
    "PlaybookRequestEvaluated": _nothing,
    "LoopStarted": _nothing,
    **of_execution,
    **of_tokens,
    **of_runs,
    **of_news,
    **of_limits,
}


def fold(state: State, event: ControlEvent, seq: int) -> State:
    """Apply one control event of commit `seq`; return the same, changed state. Raises `UnknownEvent`."""
    apply = _FOLD.get(event.name)
    if apply is None:
        raise UnknownEvent(f"event {event.name} at {state.execution_id}/{seq} is not known to this version")
    aggregates.observe(state, event)  # before the run is closed
    ended_runs.observe(state, event)  # as above
    apply(state, event, event.data, seq)
    state.updated_at = event.ts
    state.events += 1
    return state


def fold_commits(state: State, commits: Iterable[Commit]) -> State:
    """Apply whole commits in order."""
    for commit in commits:
        for event in control_events(commit):
            fold(state, event, commit.seq)
        state.seq = commit.seq
        state.expires_at = commit.expires_at
    return state
