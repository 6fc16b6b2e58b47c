"""Sub-playbooks as the control plane sees them: started once, told about once, never left behind (DESIGN 4 "Children")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.control.admit import KeyReused, StartRequest, admit
from noetl_core.control.core import Control
from noetl_core.engine.decide import Fact
from noetl_core.engine.state import State
from noetl_core.engine.workload import BadWorkload
from noetl_core.expr import is_reference, references_in
from noetl_core.ports import Gate, NotFound
from noetl_core.values import MAX_DECISION_BYTES, NoRoom, Room, Values, claimed

MAX_CHILD_DEPTH = 20


def start_child(control: Control, parent: State, child: str, run: str, wanted: Mapping[str, Any]) -> None:
    """Start the child that a `ChildRequested` named; again does no harm. What cannot be started is a child that failed.

    `wanted` is `{path, version?, args?, iter?, ctx?, detach?, idempotency_key?}`. A detached child belongs to itself once it
    runs: its parent hears that it was started, and no more.
    """
    depth = int((parent.parent or {}).get("depth") or 0) + 1
    if depth > MAX_CHILD_DEPTH:
        _failed(control, parent, child, "limit", f"sub-playbooks are nested more than {MAX_CHILD_DEPTH} deep")
        return
    detached = {"detached": True} if wanted.get("detach") else {}
    iteration = {"iter": wanted["iter"]} if wanted.get("iter") else {}  # the child's `iter.parent` (resolution 17)
    key = wanted.get("idempotency_key")
    try:
        payload, ctx = _handed(control, parent, {**iteration, **(wanted.get("args") or {})}, wanted)
        started = admit(
            control,
            StartRequest(
                path=wanted["path"],
                version=wanted.get("version"),
                payload=payload,
                ctx=ctx,
                execution_id=child if key is None else None,
                idempotency_key=key,
                parent={"execution_id": parent.execution_id, "run_id": run, "depth": depth, **detached},
                trace_id=parent.trace_id,
            ),
        )
    except KeyReused as error:
        _failed(control, parent, child, "client_error", str(error))
    except NoRoom as error:
        _failed(control, parent, child, "limit", f"payload: {error}")
    except BadWorkload as error:
        _failed(control, parent, child, error.kind, f"the workload of {wanted['path']}: {error}")
    except (NotFound, ValueError) as error:
        _failed(control, parent, child, "not_found", str(error))
    else:
        if detached:
            _tell(control, parent, {"child": child, "status": "started", "execution_id": started.execution_id})


def _handed(
    control: Control, parent: State, payload: Mapping[str, Any], wanted: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Payload and ctx of a child, which hold references to what is large. What is merged with a default of the child's workload,
    or compared with another request of the same key, is loaded, so that its size has no part in it.

    Raises `NoRoom`, `NotFound`, `ValueError`.
    """
    ctx: Mapping[str, Any] = wanted.get("ctx") or {}
    if not references_in(payload) and not references_in(ctx):
        return payload, ctx
    values, room = Values(control.store, control.results, parent.execution_id), Room(MAX_DECISION_BYTES)
    if wanted.get("idempotency_key") is not None:
        return values.whole(payload, room), values.whole(ctx, room)
    version = control.catalog.get(wanted["path"], wanted.get("version"))
    return _mergeable(control.playbook(version.digest).workload, payload, values, room), ctx


def _mergeable(defaults: Mapping[str, Any], payload: Mapping[str, Any], values: Values, room: Room) -> dict[str, Any]:
    """`payload` with the mappings in it that are merged with one of `defaults` as they are, not as references."""
    out = dict(payload)
    for key, default in defaults.items():
        given = out.get(key)
        if isinstance(default, Mapping) and isinstance(given, Mapping):
            if is_reference(given) and values.family.owns(given):
                room.take(claimed(given))
                given = values.opened(given, room)[0]
            out[key] = _mergeable(default, given, values, room) if isinstance(given, Mapping) else given
    return out


def _failed(control: Control, parent: State, child: str, kind: str, message: str) -> None:
    _tell(control, parent, {"child": child, "status": "failed", "error": {"kind": kind, "message": message, "retryable": False}})


def _tell(control: Control, parent: State, data: Mapping[str, Any]) -> None:
    control.route(parent.execution_id, facts=[Fact("child", data)])


def reconcile_child(control: Control, parent: State, child: str) -> None:
    """A child that was never created, or whose end its parent never heard of."""
    asked = parent.children[child]
    if asked.request.get("detach"):
        start_child(control, parent, child, asked.run, asked.request)
        return
    state = control.load(child)
    if state.seq < 0:
        start_child(control, parent, child, asked.run, asked.request)
    elif state.finished:
        control.tell_parent(
            parent.execution_id,
            {"child": child, "status": state.status, "result": state.result, "error": state.failure},
        )


def end_child(control: Control, parent: State, child: str, reason: str, *, compensate: bool = False) -> None:
    """Cancel a child that nobody waits for any more. One that was asked for and never created is created behind a closed gate:
    its start stands in the log, its end too, and whoever is late in starting it finds that done."""
    from noetl_core.control.operate import NotNow, cancel  # operate stands on this module

    asked = parent.children[child]
    if asked.request.get("detach"):
        return
    if control.load(child).seq < 0:
        control.gates.set_gate(child, Gate("stop", expires_at=parent.expires_at))
        start_child(control, parent, child, asked.run, asked.request)
    try:
        cancel(control, child, reason, compensate=compensate)
    except (NotFound, NotNow):
        return
