"""Operates on an execution: cancel, pause, resume, signal.

Each operation is first a fact in the control stream; its effects follow from that. An operation is acknowledged if the log has
its fact, or shows that it is already true. Otherwise it is refused (`NotNow`), also if another operation came in between. The
reconciler repairs inconsistencies between operations, such as a paused child of a resumed parent (`align_child`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from noetl_core.control.core import Control
from noetl_core.control.fence import fence_runs
from noetl_core.control.unreadable_logs import close
from noetl_core.engine.dispatch.effects import end_of
from noetl_core.engine.heads import head_of
from noetl_core.engine.state import State
from noetl_core.engine.statuses import HELD
from noetl_core.events.control import ExecutionCancelled, ExecutionPaused, ExecutionResumed
from noetl_core.events.event import fact
from noetl_core.events.shapes import By, Failure
from noetl_core.events.waiting import SignalReceived
from noetl_core.ports import CorruptLog, Gate, NotFound

Mode = Literal["run", "pause", "stop"]
MAX_GATES = 5
"""Maximum number of writes of a gate by one operation: each conflicts with another operation.

After that, the reconciler writes it.
"""


class NotNow(Exception):
    """The status of the execution does not allow the request (HTTP 409). Who acts: the caller."""


def _alive(state: State, execution_id: str) -> None:
    if state.seq < 0:
        raise NotFound(f"there is no execution {execution_id}")
    if state.finished:
        raise NotNow(f"execution {execution_id} has already ended ({state.status})")


def cancel(control: Control, execution_id: str, reason: str = "", *, compensate: bool = False) -> State:
    """Cancel an execution and its children: nothing new starts, and every open run is ended.

    With `compensate`, finished steps are compensated afterwards; without it, compensations in progress stop too. Cancelling again
    changes nothing. An execution whose log cannot be read is closed in its head. Raises `NotFound`, and `NotNow` for an execution
    that has ended in another way.
    """
    try:
        return _cancelled(control, execution_id, reason, compensate)
    except CorruptLog:
        head = close(control, execution_id, reason)
        if head.status != "cancelled":
            raise NotNow(f"execution {execution_id} has already ended ({head.status}), and its log is unreadable") from None
        return State(execution_id, status="cancelled")


def _cancelled(control: Control, execution_id: str, reason: str, compensate: bool) -> State:
    state = control.load(execution_id)
    if state.status == "cancelled" and not (compensate and not state.undo):
        return state
    _alive(state, execution_id)
    control.due_soon(execution_id)
    details: ExecutionCancelled = {"by": control.by}
    if reason:
        details["reason"] = reason
    if compensate:
        details["compensate"] = True
    state, _ = control.record(execution_id, fact(ExecutionCancelled, **details))
    if state.finished and state.status != "cancelled":
        _alive(state, execution_id)
    undo = state.undo
    state = complete_operation(control, state)
    if compensate and not undo:
        raise NotNow(f"execution {execution_id} is cancelled without compensation, as another request demanded")
    return state


def complete_operation(control: Control, state: State) -> State:
    """Carry out the effects of an operation, or of the failure of the execution, beyond its event: gate, open runs, children.

    Repeating it is safe: the sweeper does so after an interruption.
    """
    state = _gated(control, state)
    if state.finished:
        return state
    if state.status == "cancelling":
        error: Failure = {"kind": "cancelled", "message": state.cancelled_for or "the execution was cancelled"}
        return fence_all(control, state.execution_id, error)
    if state.status == "paused" and (children := _children(state)):
        for child in children:
            with suppress(NotFound, NotNow):
                pause(control, child, parent=state.execution_id)
        _align_soon(control, state)
    return state


def _gated(control: Control, state: State) -> State:
    """Set the gate of an execution as its log says, and return its state.

    Concurrent operations may write the gate in another order than the log. So the last writer reads the log after its write.
    """
    for _ in range(MAX_GATES):
        mode: Mode = _GATES.get(state.status, "run")
        if state.finished:
            break
        gate = control.gates.gate(state.execution_id)
        if gate.mode == mode:
            break
        control.gates.set_gate(state.execution_id, replace(gate, mode=mode, expires_at=state.expires_at))
        state = control.load(state.execution_id)
    return state


def _align_soon(control: Control, state: State) -> None:
    """Reconcile an execution at once if it was paused or resumed while its children were resumed or paused."""
    if control.load(state.execution_id).status != state.status:
        control.index.set_due(state.execution_id, control.clock.now())


def align_child(control: Control, parent: State, child: State) -> None:
    """Pause a running child of a paused parent. Resume a child that was paused with its parent if the parent runs again."""
    if _aligned(parent, child):
        return
    parent = control.load(parent.execution_id)  # it may have been paused or resumed since
    if _aligned(parent, child):
        return
    with suppress(NotFound, NotNow):
        if parent.status == "paused":
            pause(control, child.execution_id, parent=parent.execution_id)
        else:
            resume(control, child.execution_id)
    _align_soon(control, parent)


def _aligned(parent: State, child: State) -> bool:
    if parent.status == "paused":
        return child.status != "running"
    return parent.status != "running" or child.status != "paused" or child.paused_by != parent.execution_id


_GATES: Mapping[str, Mode] = {"paused": "pause", "cancelling": "stop"}


def fence_all(control: Control, execution_id: str, error: Failure) -> State:
    """End every open run, route the boundaries with which they end, and cancel open children. Compensations continue."""
    while True:
        state = control.load(execution_id)
        kept = {
            r.id for r in state.runs.values() if r.undoes is not None and (state.compensates or r.undoes.get("stops") is True)
        }
        for child, request in list(state.children.items()):
            if request.run not in kept:
                control.children.end(control, end_of(state, child, f"parent {execution_id} ended", compensate=state.undo))
        chunks = [r for r in state.runs.values() if r.parent is not None]
        runs = chunks or [r for r in state.runs.values() if r.id not in kept and (r.loop is None or not r.loop.open)]
        if not runs:
            return state if kept or state.finished else control.route(execution_id)
        full: Failure = {"retryable": False, **error}
        boundaries = fence_runs(control, state, {r.id: full for r in runs})
        if control.route(execution_id, boundaries).finished:
            return control.load(execution_id)


def pause(control: Control, execution_id: str, *, parent: str | None = None) -> State:
    """Pause an execution and its children: nothing new starts, no timer fires, and running pipelines suspend at their next task
    boundary. `parent` is the execution with which it is paused, and resumed. Pausing again changes nothing. Raises `NotFound`,
    `NotNow`."""
    state = control.load(execution_id)
    if state.status == "paused":
        return state
    _alive(state, execution_id)
    if state.status != "running":
        raise NotNow(f"execution {execution_id} is {state.status}, so it cannot be paused")
    control.due_soon(execution_id)
    by: By | None = control.by if parent is None else {"principal": parent, "source": "playbook"}
    state, paused = control.record(execution_id, fact(ExecutionPaused, parent=parent, by=by))
    state = _gated(control, state) if not paused else state
    if not paused and state.status != "paused":
        _alive(state, execution_id)
        raise NotNow(f"execution {execution_id} is {state.status}, so it cannot be paused")
    return complete_operation(control, state)


def resume(control: Control, execution_id: str) -> State:
    """Continue after a pause, or after `stuck`, with the children.

    Timers that became due in the meantime fire now. Resuming a running execution only resumes its paused children. Raises
    `NotFound`, `NotNow`.
    """
    state = control.load(execution_id)
    if state.status == "running":
        control.index.set_due(execution_id, control.clock.now())
        control.index.put_head(head_of(state))  # lists call an execution with an unreadable log stuck
        _resume_children(control, state)
        return state
    _alive(state, execution_id)
    if state.status not in HELD:
        raise NotNow(f"execution {execution_id} is {state.status}, not paused")
    control.due_soon(execution_id)
    control.gates.set_gate(execution_id, Gate("run", expires_at=state.expires_at))
    was_stuck = state.status == "stuck"
    state, resumed = control.record(execution_id, fact(ExecutionResumed, by=control.by))
    if was_stuck:
        control.queue.wake(execution_id)  # boundaries recorded in the meantime are in their streams alone
    state = _gated(control, state)
    if not resumed and state.status != "running":
        _alive(state, execution_id)
        raise NotNow(f"execution {execution_id} is {state.status}, not paused")
    _resume_children(control, state)
    return state


def _resume_children(control: Control, state: State) -> None:
    if children := _children(state):
        for child in children:
            with suppress(NotFound, NotNow):
                resume(control, child)
        _align_soon(control, state)


def _children(state: State) -> list[str]:
    """Return the open children that were created and are not detached."""
    return [child for child, request in state.children.items() if not request.request.get("detach")]


def signal(control: Control, execution_id: str, name: str, data: Any, signal_id: str | None = None) -> State:
    """Record a named signal. A wait of that name takes it, now or later. Raises `NotFound`, `NotNow`."""
    _alive(control.load(execution_id), execution_id)
    control.due_soon(execution_id)
    id = signal_id or control.clock.nonce()
    state, received = control.record(execution_id, fact(SignalReceived, id=id, name=name, data=data, by=control.by))
    if not received and id not in state.seen_signals:
        _alive(state, execution_id)
    return state
