"""Fencing: the control plane ends a run by writing a terminal event at its next position, before its worker can
(docs/architecture.md, "Failures")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from noetl_core.control.core import Control
from noetl_core.engine.records import Boundary, Commit, StreamId, Tally
from noetl_core.engine.state import State
from noetl_core.events.event import is_boundary, new
from noetl_core.events.runs import StepFailed
from noetl_core.events.shapes import Failure
from noetl_core.events.table import TERMINAL
from noetl_core.log.history import tally_of
from noetl_core.ports import Conflict, retry_conflicts

MAX_STOPPED = 1_000
"""The most runs that a gate names, some 25 KB: workers read it every second."""


def boundary_of(commit: Commit) -> Boundary | None:
    """Return the boundary with which a commit of a run stream ends, if it does."""
    if not commit.events or commit.stream.run_id is None:
        return None
    last = commit.events[-1]
    return Boundary(commit.stream.run_id, commit.seq, last, commit.asks) if is_boundary(last) else None


def fence_runs(control: Control, state: State, errors: Mapping[str, Failure]) -> list[Boundary]:
    """End each run with `StepFailed` and its error, or accept a terminal event that was written before; return the resulting
    boundaries.

    Where a worker writes first, the gates of all these runs are closed: the worker stops when it reads its gate, however
    often it commits. Raises `Unavailable`.
    """
    closed = False

    def close_gates() -> None:
        nonlocal closed
        if not closed:
            _close_gate(control, state, list(errors))
            closed = True

    ended: list[Boundary] = []
    for run_id, error in errors.items():
        ended += _fence(control, StreamId(state.execution_id, run_id), error, state.expires_at, close_gates)
    return ended


def _fence(
    control: Control, stream: StreamId, error: Failure, expires_at: int, close_gates: Callable[[], None]
) -> Sequence[Boundary]:
    """End one run. Return the boundary that stands."""
    last = control.store.last(stream)

    def attempt() -> Sequence[Boundary] | None:
        nonlocal last
        stands = None if last is None else boundary_of(last)
        if stands is not None and stands.event.name in TERMINAL:
            return [stands]
        commit = _end(control, stream, last, error, expires_at)
        try:
            control.store.append(commit)
        except Conflict as conflict:
            close_gates()
            last = conflict.existing or control.store.last(stream)
            return None
        return [made] if (made := boundary_of(commit)) is not None else []

    return retry_conflicts(attempt, f"run {stream.run_id} of execution {stream.execution_id}")


def _end(control: Control, stream: StreamId, last: Commit | None, error: Failure, expires_at: int) -> Commit:
    """Return the commit that ends a run after `last`."""
    now = control.clock.now()
    tally = Tally(1 if last is None else tally_of(control.store, last).events + 1)
    event = new(StepFailed, now, error=error, source="server", events=tally.events)
    seq = 0 if last is None else last.seq + 1
    return Commit(stream, seq, now, control.clock.nonce(), (event,), wake=True, expires_at=expires_at, tally=tally)


def _close_gate(control: Control, state: State, runs: list[str]) -> None:
    """Tell the workers of these runs to stop. Runs that have ended since are removed from the gate."""
    gate = control.gates.gate(state.execution_id)
    run_ids = [*runs, *(run for run in sorted(gate.stopped_runs) if run in state.runs and run not in runs)]
    stopped = frozenset(run_ids[:MAX_STOPPED])
    if not stopped <= gate.stopped_runs:
        control.gates.set_gate(state.execution_id, replace(gate, stopped_runs=stopped, expires_at=state.expires_at))
