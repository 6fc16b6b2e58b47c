"""Starts and ends sub-playbooks: each is started once, reported to its parent once, and never orphaned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.control.admit import KeyReused, StartRequest, admit
from noetl_core.control.catalog.versions import resolve
from noetl_core.control.core import Children, Control
from noetl_core.control.failures import handle_failure
from noetl_core.control.lifecycle.operate import NotNow, align_child, cancel
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.engine import ids
from noetl_core.engine.dispatch.effects import EndChild, HandleFailure, StartChild, child_of, parent_news
from noetl_core.engine.large_values import MAX_DECISION_BYTES
from noetl_core.engine.state import State
from noetl_core.engine.workload import BadWorkload, unknown
from noetl_core.events.event import fact
from noetl_core.events.shapes import By, ChildRequest, Failure, Triggered
from noetl_core.events.waiting import ChildFinished
from noetl_core.expr import is_reference, references_in
from noetl_core.log.load_budgets import LoadBudget, LoadLimitExceeded
from noetl_core.log.stored_values import Values, claimed
from noetl_core.ports import Gate, NotFound

MAX_CHILD_DEPTH = 20


class SubPlaybooks(Children):
    """Starts and ends the children of executions."""

    def start(self, control: Control, wanted: StartChild) -> None:
        """Start a child, as `Children.start`.

        `wanted.request` is `{path, version?, args?, iter?, ctx?, detach?, idempotency_key?, return_step?}`. A detached child is
        independent once it runs: its parent only learns that it started.
        """
        if wanted.depth > MAX_CHILD_DEPTH:
            _failed(control, wanted, "limit", f"sub-playbooks are nested more than {MAX_CHILD_DEPTH} deep")
            return
        request = wanted.request
        detached = {"detached": True} if request.get("detach") else {}
        wants = {"return_step": request["return_step"]} if "return_step" in request else {}
        iteration = {"iter": request["iter"]} if request.get("iter") else {}  # the child's `iter.parent` (resolution 17)
        key = request.get("idempotency_key")
        asked_for = wanted.child if key is None else ids.execution_id_from_key(key)
        try:
            _has_step(control, request, asked_for)
            if wanted.strict:
                _takes_payload(control, request, asked_for)
            payload, ctx = _handed(control, wanted, {**iteration, **(request.get("args") or {})}, asked_for)
            started = admit(
                control,
                StartRequest(
                    path=request["path"],
                    version=request.get("version"),
                    payload=payload,
                    ctx=ctx,
                    execution_id=wanted.child if key is None else None,
                    idempotency_key=key,
                    parent={"execution_id": wanted.parent, "run_id": wanted.run, "depth": wanted.depth, **detached, **wants},
                    trace_id=wanted.trace_id,
                    trigger=_triggered(request),
                    priority=wanted.priority,
                    strict=wanted.strict,
                    by=_parent(wanted),
                ),
            )
        except KeyReused as error:
            _failed(control, wanted, "client_error", str(error))
        except LoadLimitExceeded as error:
            _failed(control, wanted, "limit", f"payload: {error}")
        except BadWorkload as error:
            _failed(control, wanted, error.kind, f"the workload of {request['path']}: {error}")
        except (NotFound, ValueError) as error:
            _failed(control, wanted, "not_found", str(error))
        else:
            if detached:
                _tell(control, wanted, {"child": wanted.child, "status": "started", "execution_id": started.execution_id})

    def end(self, control: Control, wanted: EndChild) -> None:
        """End a child, as `Children.end`.

        A child that was requested and never created is created behind a closed gate. Its log then has its start and its end, and
        a late attempt to start it finds that it has ended.
        """
        child = wanted.asked.child
        if wanted.asked.request.get("detach"):
            return
        if control.load(child).seq < 0:
            control.gates.set_gate(child, Gate("stop", expires_at=wanted.expires_at))
            self.start(control, wanted.asked)
        try:
            cancel(control.on_behalf_of(_parent(wanted.asked)), child, wanted.reason, compensate=wanted.compensate)
        except (NotFound, NotNow):
            return

    def handle_failure(self, control: Control, ended: HandleFailure) -> None:
        """Start the handler of a failed execution, as `Children.handle_failure`."""
        handle_failure(control, ended)


def _parent(wanted: StartChild) -> By:
    """Return the principal that starts and ends a child."""
    return {"principal": wanted.parent, "source": "playbook"}


def _triggered(request: ChildRequest) -> Triggered | None:
    """Return the `trigger` that a child run for an occurrence sees."""
    occurrence = request.get("backfill")
    if occurrence is None:
        return None
    found: Triggered = {"kind": "backfill", "id": occurrence["scheduled_at"], **occurrence}
    return found


def _has_step(control: Control, request: ChildRequest, child: str) -> None:
    """Check that the version which `child` starts with has the step whose result is wanted. Raises `NotFound`."""
    step = request.get("return_step")
    if step is None:
        return
    steps = control.playbook(resolve(control, request["path"], request.get("version"), child).digest).by_name
    if step not in steps:
        near = suggest(step, steps) or f"it has: {', '.join(steps)}"
        raise NotFound(f"playbook {request['path']} has no step {step!r}, whose result is wanted ({near})")


def _takes_payload(control: Control, request: ChildRequest, child: str) -> None:
    """Check that the workload of `child` has the keys of its payload, unless the child exists already. Raises `BadWorkload`."""
    playbook = control.playbook(resolve(control, request["path"], request.get("version"), child).digest)
    odd = [words for path, _, words in unknown(playbook, request.get("args") or {}) if len(path) == 1]
    if odd and control.load(child).seq < 0:
        raise BadWorkload("schema", odd)


def _handed(
    control: Control, wanted: StartChild, payload: Mapping[str, Any], child: str
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return payload and ctx of `child`.

    Large values stay references. Those that are merged with a default of the child's workload, or compared with an earlier
    request of the same key, are loaded, so that their size does not matter. Raises `LoadLimitExceeded`, `NotFound`, `ValueError`.
    """
    request = wanted.request
    ctx: Mapping[str, Any] = request.get("ctx") or {}
    if not references_in(payload) and not references_in(ctx):
        return payload, ctx
    values, budget = Values(control.store, control.results, wanted.parent), LoadBudget(MAX_DECISION_BYTES)
    if request.get("idempotency_key") is not None:
        return values.whole(payload, budget), values.whole(ctx, budget)
    version = resolve(control, request["path"], request.get("version"), child)
    return _mergeable(control.playbook(version.digest).workload, payload, values, budget), ctx


def _mergeable(defaults: Mapping[str, Any], payload: Mapping[str, Any], values: Values, budget: LoadBudget) -> dict[str, Any]:
    """Return `payload` with those references loaded whose mappings are merged with one of `defaults`."""
    out = dict(payload)
    for key, default in defaults.items():
        value = out.get(key)
        if isinstance(default, Mapping) and isinstance(value, Mapping):
            if is_reference(value) and values.family.owns(value):
                budget.take(claimed(value))
                value = values.opened(value, budget)[0]
            out[key] = _mergeable(default, value, values, budget) if isinstance(value, Mapping) else value
    return out


def _failed(control: Control, wanted: StartChild, kind: str, message: str) -> None:
    error: Failure = {"kind": kind, "message": message, "retryable": False}
    _tell(control, wanted, {"child": wanted.child, "status": "failed", "error": error})


def _tell(control: Control, wanted: StartChild, data: ChildFinished) -> None:
    control.route(wanted.parent, facts=[fact(ChildFinished, **data)])


def reconcile_child(control: Control, parent: State, child: str) -> None:
    """Start a child that was requested and never created, report its end to the parent, or align a child with the
    pause of its parent."""
    wanted = child_of(parent, child)
    if wanted.request.get("detach"):
        control.children.start(control, wanted)
        return
    state = control.load(child)
    if state.seq < 0:
        control.children.start(control, wanted)
        align_child(control, parent, control.load(child) if parent.status == "paused" else state)
    elif not state.finished:
        align_child(control, parent, state)
    elif (news := parent_news(state)) is not None:
        control.tell_parent(news)
