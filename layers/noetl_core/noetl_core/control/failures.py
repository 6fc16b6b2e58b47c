"""What happens when an execution has failed and its playbook, or the stack, says who is to be told (docs/failures.md).

The handler is an execution of its own, whose id follows from the end that it is told of: it starts once, whoever finds that end
and how often. A webhook and a topic are playbooks of one task, because the control plane runs no tool.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Final

from noetl_core.control.admit import KeyReused, StartRequest, UnknownPool, admit
from noetl_core.control.core import Control
from noetl_core.control.lifecycle.operate import NotNow
from noetl_core.control.refusals import code_of
from noetl_core.dsl.model import OnFailure
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.dsl.versions import split_version
from noetl_core.engine import ids
from noetl_core.engine.dispatch.effects import HandleFailure, failed_end
from noetl_core.engine.failure_handlers import source_of
from noetl_core.engine.workload import BadWorkload
from noetl_core.events.control import FailureHandled
from noetl_core.events.event import fact
from noetl_core.events.shapes import Triggered
from noetl_core.expr import TemplateError
from noetl_core.ports import Firing, NotFound, RefusedDelivery, TooLarge
from noetl_core.ports.triggers import REFUSED_KEPT_S
from noetl_core.values.instants import SECOND, to_rfc3339

log = logging.getLogger(__name__)

NEVER = (BadWorkload, InvalidPlaybook, UnknownPool, KeyReused, NotFound, TemplateError, TooLarge)
"""Trying again does not help: somebody must act first."""
SHOWN: Final = ("kind", "message", "step", "task", "code", "retryable")
KIND: Final = "failure"
NAME: Final = "on_failure"


def handle_failure(control: Control, ended: HandleFailure) -> None:
    """Start the handler of a failed end, if there is one, and record in the failed execution that it was started, or why it
    cannot be. It is safe to repeat. Raises `Unavailable`."""
    handler = control.playbook(ended.digest).executor.on_failure or control.on_failure
    if handler is None or handler.disabled or (ended.warnings is not None and handler.also != "warnings"):
        return
    end = f"{ended.execution_id}.{ended.epoch}"
    request = _request(control, handler, ended)
    named = _name(handler)
    try:
        started = admit(control, request)
    except NEVER as error:
        log.error("execution %s has failed, and its handler %s cannot start: %s", ended.execution_id, named, error)
        now = control.clock.now() // SECOND
        control.triggers.refuse(
            RefusedDelivery(
                f"{ended.at // SECOND:010d}-{request.execution_id}",
                ended.path,
                NAME,
                KIND,
                end,
                ended.at,
                code_of(error),
                str(error),
                {"kind": KIND, "name": NAME, "id": end, "failure": request.payload["failure"]},
                now + REFUSED_KEPT_S,
            )
        )
        handled = fact(FailureHandled, epoch=ended.epoch, handler=named, error=str(error))
    else:
        handled = fact(FailureHandled, epoch=ended.epoch, handler=named, execution_id=started.execution_id)
    control.route(ended.execution_id, facts=[handled])


def handle_again(control: Control, refused: RefusedDelivery) -> Firing:
    """Start the handler of a failed end that could not be started, by what the playbook and the stack say now, and record that.
    Raises `NotFound`, `NotNow`, `Unavailable`."""
    execution_id, _, epoch = refused.occurrence.rpartition(".")
    state = control.load(execution_id)
    if state.seq < 0:
        raise NotFound(f"there is no execution {execution_id} any more")
    ended = failed_end(replace(state, handled=None))
    if ended is None or str(ended.epoch) != epoch:
        raise NotNow(
            f"execution {execution_id} goes on, or was redriven, since it failed so: `noetl triggers forget {refused.id}`"
        )
    handler = control.playbook(ended.digest).executor.on_failure or control.on_failure
    if handler is None or handler.disabled:
        raise NotNow("nobody is told of failures of this playbook any more: on_failure names nobody")
    tried = Firing(refused.path, refused.name, refused.occurrence, refused.at, "refused")
    try:
        started = admit(control, _request(control, handler, ended))
    except NEVER as error:
        return replace(tried, reason=str(error))
    handled = fact(FailureHandled, epoch=ended.epoch, handler=_name(handler), execution_id=started.execution_id)
    control.route(execution_id, facts=[handled])
    return replace(tried, result="started", execution_id=started.execution_id)


def _request(control: Control, handler: OnFailure, ended: HandleFailure) -> StartRequest:
    trigger: Triggered = {"kind": KIND, "name": NAME, "id": f"{ended.execution_id}.{ended.epoch}"}
    return StartRequest(
        **_named(handler, ended.digest),
        payload={"failure": told(control, ended)},
        execution_id=ids.failure_handler_id(ended.execution_id, ended.epoch),
        parent={"execution_id": ended.execution_id, **({"depth": ended.depth} if ended.depth else {})},
        trigger=trigger,
        trace_id=ended.trace_id,
        registers=False,
        by={"principal": ended.execution_id, "source": "playbook"},
    )


def _name(handler: OnFailure) -> str:
    return handler.playbook or handler.webhook or str(handler.sns)


def told(control: Control, ended: HandleFailure) -> dict[str, Any]:
    """Return what the handler gets as `workload.failure`."""
    error = {key: ended.error[key] for key in SHOWN if key in ended.error}
    return {
        "execution_id": ended.execution_id,
        "path": ended.path,
        "version": ended.version,
        "step": ended.error.get("step"),
        "task": ended.error.get("task"),
        "error": error,
        "warnings": ended.warnings,
        "started_at": to_rfc3339(ended.started_at),
        "failed_at": to_rfc3339(ended.at),
        "redriven": ended.epoch,
        "link": control.link.replace("{execution_id}", ended.execution_id) or None,
    }


def _named(handler: OnFailure, digest: str) -> dict[str, Any]:
    """Return the playbook that handles failures of the one with `digest`, as a request names it."""
    if handler.playbook is not None:
        path, version = split_version(handler.playbook)
        return {"path": path, "version": version}
    return {"playbook": source_of(handler, digest)}
