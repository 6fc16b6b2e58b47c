"""Requests places in limits that executions share (docs/limits.md), as part of a routing pass. `control.limits.places` decides
among all executions. Its decision returns as an input, like everything from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.dsl.model import Concurrency, Step
from noetl_core.dsl.numbers import CONCURRENT, PRIORITY, value_of
from noetl_core.engine import ids
from noetl_core.engine.limits.keys import limit_key
from noetl_core.engine.routing.passes import RoutingPass, event_namespace
from noetl_core.engine.state import LimitUse, Token
from noetl_core.events import limits
from noetl_core.expr import Scope, TemplateError, render


def ask_for_execution(p: RoutingPass) -> None:
    """Request the place that the execution needs before any part of it begins. An invalid limit fails it."""
    limit = p.playbook.executor.concurrency
    if limit is None:
        return
    try:
        key, most, priority = _rendered(p, limit, p.scope({}), "concurrency of the playbook")
    except TemplateError as wrong:
        p.fail(wrong.kind, str(wrong))
        return
    p.emit(
        limits.LimitRequested,
        holder=p.state.holder,
        key=key,
        max=most,
        on_limit=limit.on_limit,
        priority=priority or None,
    )


def use_of(p: RoutingPass, token: Token) -> LimitUse | None:
    """Return the place that the run of a token has asked for or got."""
    return p.state.limits.get(_holder(p, token)) if p.state.limits else None


def ask_for_run(p: RoutingPass, step: Step, token: Token, args: Mapping[str, Any]) -> bool:
    """Ask for the place that a run of the step needs. Returns False when it needs none of its own. Raises `TemplateError`."""
    limit = step.concurrency
    if limit is None:
        return False
    scope = p.scope(args, event_namespace(token.event) if token.event else None)
    key, most, priority = _rendered(p, limit, scope, f"concurrency of step {step.name}")
    own = p.state.limits.get(p.state.holder)
    if own is not None and own.key == key:
        return False  # the execution as a whole holds it: waiting for itself it would wait forever
    p.emit(
        limits.LimitRequested,
        holder=_holder(p, token),
        key=key,
        max=most,
        on_limit=limit.on_limit,
        priority=priority or None,
        step=step.name,
        token=token.id,
    )
    return True


def run_holder(execution_id: str, run: str) -> str:
    """Return the name under which a run holds its place."""
    return f"{execution_id}/{run}"


def _holder(p: RoutingPass, token: Token) -> str:
    return run_holder(p.state.execution_id, ids.step_run_id(p.state.execution_id, [token.id], p.state.epoch))


def _rendered(p: RoutingPass, limit: Concurrency, scope: Scope, what: str) -> tuple[str, int, float]:
    key = limit_key(render(limit.key, scope, whole=True), f"key in {what}")
    most = value_of(limit.max, CONCURRENT, f"max in {what}", scope)
    priority = p.state.priority
    if priority is None:
        priority = value_of(p.playbook.executor.priority, PRIORITY, "priority of the playbook", p.scope({}))
    assert most is not None
    return key, int(most), priority or 0


def asked_at(place: str) -> int:
    """Return the instant at which a waiter requested its place (`LimitUse.place`)."""
    return int(place.split("#")[1])


def execution_of(holder: str) -> str:
    """Return the execution of a holder."""
    return holder.partition("/")[0].partition(".")[0]
