"""Child executions (sub-playbooks) for the control plane: each is started once, reported to its parent once, and never left
running when nobody waits for it (docs/decisions.md)."""

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
    """Start the child that a `ChildRequested` event names. It is safe to repeat. A child that cannot be started counts as
    failed.

    `wanted` is `{path, version?, args?, iter?, ctx?, detach?, idempotency_key?}`. A detached child is independent once it
    runs: its parent is told that it was started, and nothing more.
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
    """Return payload and ctx of a child. Large values stay references; those that are merged with a default of the child's
    workload, or compared with an earlier request of the same key, are loaded, so that their size does not matter.

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
    """Return `payload` with references loaded where they stand for mappings that are merged with one of `defaults`."""
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
    """Start a child that was requested and never created, or report an end that the parent was never told."""
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
    """Cancel a child for which nobody waits any longer.

    A child that was requested and never created is created behind a closed gate: its log then has its start and its end, and
    a late attempt to start it finds that it has ended.
    """
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
