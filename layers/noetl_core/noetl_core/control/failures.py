"""Starts handlers of failed executions, as the playbook or the stack demands (docs/failures.md).

The handler is an execution of its own, whose id follows from the end it reports. So it starts once, however often and by whomever
that end is found. A webhook and a topic are playbooks of one task, because the control plane runs no tool.
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
"""Errors that a retry does not remedy: someone must act first."""
SHOWN: Final = ("kind", "message", "step", "task", "code", "retryable")
KIND: Final = "failure"
NAME: Final = "on_failure"


def handle_failure(control: Control, ended: HandleFailure) -> None:
    """Start the handler of a failed end, if there is one.

    Record in the failed execution that it was started, or why it cannot be. Repeating it is safe. Raises `Unavailable`.
    """
    handler = control.playbook(ended.digest).executor.on_failure or control.on_failure
    if handler is None or handler.disabled or (ended.warnings is not None and handler.also != "warnings"):
        return
    end = f"{ended.execution_id}.{ended.epoch}"
    request = _request(control, handler, ended)
    name = _name(handler)
    try:
        started = admit(control, request)
    except NEVER as error:
        log.error("execution %s has failed, and its handler %s cannot start: %s", ended.execution_id, name, error)
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
        handled = fact(FailureHandled, epoch=ended.epoch, handler=name, error=str(error))
    else:
        handled = fact(FailureHandled, epoch=ended.epoch, handler=name, execution_id=started.execution_id)
    control.route(ended.execution_id, facts=[handled])


def handle_again(control: Control, refused: RefusedDelivery) -> Firing:
    """Start the handler that could not be started, with the current settings of the playbook and the stack, and record that.

    Raises `NotFound`, `NotNow`, `Unavailable`.
    """
    execution_id, _, epoch = refused.occurrence.rpartition(".")
    state = control.load(execution_id)
    if state.seq < 0:
        raise NotFound(f"execution {execution_id} no longer exists")
    ended = failed_end(replace(state, handled=None))
    if ended is None or str(ended.epoch) != epoch:
        raise NotNow(
            f"execution {execution_id} is in progress or was redriven since this failure;"
            f" `noetl triggers forget {refused.id}` deletes this entry"
        )
    handler = control.playbook(ended.digest).executor.on_failure or control.on_failure
    if handler is None or handler.disabled:
        raise NotNow("failures of this playbook are no longer reported: on_failure names no recipient")
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
        **_playbook_keys(handler, ended.digest),
        payload={"failure": failure_payload(control, ended)},
        execution_id=ids.failure_handler_id(ended.execution_id, ended.epoch),
        parent={"execution_id": ended.execution_id, **({"depth": ended.depth} if ended.depth else {})},
        trigger=trigger,
        trace_id=ended.trace_id,
        registers=False,
        by={"principal": ended.execution_id, "source": "playbook"},
    )


def _name(handler: OnFailure) -> str:
    return handler.playbook or handler.webhook or str(handler.sns)


def failure_payload(control: Control, ended: HandleFailure) -> dict[str, Any]:
    """Return `workload.failure` of the handler."""
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


def _playbook_keys(handler: OnFailure, digest: str) -> dict[str, Any]:
    """Return the request keys that name the playbook which handles failures of the one with `digest`."""
    if handler.playbook is not None:
        path, version = split_version(handler.playbook)
        return {"path": path, "version": version}
    return {"playbook": source_of(handler, digest)}
