"""Operating a run: cancel, pause, resume, signals. Each is a fact in the control stream, then what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.control.children import end_child
from noetl_core.control.core import FIRST_LOOK_S, SECOND, Control
from noetl_core.control.fence import fence
from noetl_core.engine.decide import Fact
from noetl_core.engine.state import State
from noetl_core.ports import Gate, NotFound


class NotNow(Exception):
    """The execution's status does not allow the request (HTTP 409). Who acts: the caller."""


def _alive(control: Control, execution_id: str) -> State:
    state = control.load(execution_id)
    if state.seq < 0:
        raise NotFound(f"there is no execution {execution_id}")
    if state.finished:
        raise NotNow(f"execution {execution_id} has already ended ({state.status})")
    return state


def cancel(control: Control, execution_id: str, reason: str = "") -> State:
    """Cancel: close the gate, record it, fence every open run, cancel the children. Raises `NotFound`, `NotNow`."""
    _alive(control, execution_id)
    control.index.set_due(execution_id, control.clock.now() + FIRST_LOOK_S * SECOND)
    control.gates.set_gate(execution_id, Gate("stop"))
    control.route(execution_id, facts=[Fact("cancel", {"reason": reason} if reason else {})])
    return fence_all(control, execution_id, {"kind": "cancelled", "message": reason or "the execution was cancelled"})


def fence_all(control: Control, execution_id: str, error: Mapping[str, Any]) -> State:
    """End every open run and route what stands at their ends; cancels open children."""
    while True:
        state = control.load(execution_id)
        for child in list(state.children):
            end_child(control, state, child, f"parent {execution_id} ended")
        chunks = [r for r in state.runs.values() if r.parent is not None]
        runs = chunks or [r for r in state.runs.values() if r.loop is None or not r.loop.open]
        if not runs:
            return control.route(execution_id) if not state.finished else state
        full = {"retryable": False, **error}
        boundaries = [fence(control, execution_id, r.id, full, state.expires_at) for r in runs]
        if control.route(execution_id, boundaries).finished:
            return control.load(execution_id)


def pause(control: Control, execution_id: str) -> State:
    """Pause: nothing new starts; running pipelines suspend at their next task boundary. Raises `NotFound`, `NotNow`."""
    state = _alive(control, execution_id)
    if state.status != "running":
        raise NotNow(f"execution {execution_id} is {state.status}")
    control.gates.set_gate(execution_id, Gate("pause"))
    return control.route(execution_id, facts=[Fact("pause", {})])


def resume(control: Control, execution_id: str) -> State:
    """Go on after a pause, or after `stuck`. Raises `NotFound`, `NotNow`."""
    state = _alive(control, execution_id)
    if state.status not in ("paused", "stuck"):
        raise NotNow(f"execution {execution_id} is {state.status}, not paused")
    control.index.set_due(execution_id, control.clock.now() + FIRST_LOOK_S * SECOND)
    control.gates.set_gate(execution_id, Gate("run"))
    return control.route(execution_id, facts=[Fact("resume", {})])


def signal(control: Control, execution_id: str, name: str, data: Any, signal_id: str | None = None) -> State:
    """A named signal: recorded first, then matched to a wait of that name, now or later. Raises `NotFound`, `NotNow`."""
    _alive(control, execution_id)
    control.index.set_due(execution_id, control.clock.now() + FIRST_LOOK_S * SECOND)
    fact = Fact("signal", {"id": signal_id or control.clock.nonce(), "name": name, "data": data})
    return control.route(execution_id, facts=[fact])
