"""Fencing: the control plane ends a run by winning its next position with a terminal event (DESIGN section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.control.core import Control
from noetl_core.engine.records import Boundary, Commit, Event, StreamId, envelopes_of
from noetl_core.ports import Conflict

TERMINAL_EVENTS = frozenset({"StepDone", "StepFailed", "LoopChunkDone"})
BOUNDARY_EVENTS = TERMINAL_EVENTS | {"StepSuspended"}


def boundary_of(commit: Commit) -> Boundary | None:
    """The boundary a commit of a run stream ends with, if it does."""
    if not commit.events or commit.stream.run_id is None or commit.events[-1].name not in BOUNDARY_EVENTS:
        return None
    return Boundary(commit.stream.run_id, commit.seq, commit.events[-1])


def fence(control: Control, execution_id: str, run_id: str, error: Mapping[str, Any], expires_at: int = 0) -> Boundary:
    """End the run with `StepFailed(error)`, or accept the terminal event that was first; returns the boundary that stands."""
    stream = StreamId(execution_id, run_id)
    while True:
        last = control.store.last(stream)
        if last is not None and last.events and last.events[-1].name in TERMINAL_EVENTS:
            return Boundary(run_id, last.seq, last.events[-1])
        seq = 0 if last is None else last.seq + 1
        before = control.store.read(stream, limit=seq) if seq else ()
        events = sum(envelopes_of(e) for c in before for e in c.events) + 1
        now = control.clock.now()
        event = Event("StepFailed", now, {"error": dict(error), "source": "server", "events": events})
        try:
            control.store.append(Commit(stream, seq, now, control.clock.nonce(), (event,), wake=True, expires_at=expires_at))
        except Conflict:
            continue
        return Boundary(run_id, seq, event)
