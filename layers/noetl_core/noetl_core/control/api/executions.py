"""Routes that start executions and look at them."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, get_args

from noetl_core.control import read
from noetl_core.control.admit import StartRequest, admit
from noetl_core.control.api.call import BadRequest, Call, Field, Route, execution_id
from noetl_core.control.api.callers import INLINE
from noetl_core.control.core import Control
from noetl_core.control.cursor import BadCursor, sign, unsign
from noetl_core.engine.state import Status
from noetl_core.ports import CorruptLog, NewerLog

STATUSES = get_args(Status)
START = {
    "path": Field(str, "path of a registered playbook"),
    "version": Field(int, "its version, the latest by default"),
    "playbook_id": Field(str, "digest of a registered playbook, instead of path and version"),
    "playbook": Field(str, "text of a playbook, instead of a registered one"),
    "payload": Field(dict, "merged over the playbook's workload"),
    "ctx": Field(dict, "ctx at the start"),
    "idempotency_key": Field(str, "the same key and body start one execution; the Idempotency-Key header says the same"),
    "parent": Field(dict, "{execution_id}: the execution this one belongs to, for lists; it shares nothing with it"),
    "trace_id": Field(str, "shown in every event"),
}


def start(call: Call) -> dict[str, Any]:
    body = call.object()
    if not any(body.get(k) for k in ("path", "playbook", "playbook_id")):
        raise BadRequest("a request names a playbook", "body.path", "give path (and version), playbook_id, or playbook")
    if body.get("playbook"):
        call.demand(INLINE)
    parent = body.get("parent")
    if parent is not None:
        if set(parent) != {"execution_id"} or not isinstance(parent["execution_id"], str):
            raise BadRequest("parent is {execution_id: text}", "body.parent")
        read.load(call.control, execution_id(parent["execution_id"]))
    request = StartRequest(
        path=body.get("path"),
        version=body.get("version"),
        digest=body.get("playbook_id"),
        playbook=body.get("playbook"),
        payload=body.get("payload") or {},
        ctx=body.get("ctx") or {},
        idempotency_key=body.get("idempotency_key") or call.headers.get("idempotency-key"),
        parent=parent,
        trace_id=body.get("trace_id"),
        registers=call.registers,
    )
    started = admit(call.control, request)
    out = {"execution_id": started.execution_id, "status": started.status, "playbook": read.version_as_dict(started.playbook)}
    return {**out, "created": started.created, "warnings": list(started.warnings)}


def listed(call: Call) -> dict[str, Any]:
    """A page of heads. Heads say `running` of an execution that waits: `status=waiting` looks which of the running ones do, so
    its pages may be short before the last."""
    limit = call.limit(50)
    since, status = call.argument("since"), call.argument("status")
    if status is not None and status not in STATUSES:
        raise BadRequest(f"there is no status {status!r}", "query.status", f"known: {', '.join(STATUSES)}")
    heads = call.control.index.heads(
        status="running" if status == "waiting" else status,
        path=call.argument("path"),
        since=None if since is None else _instant(since),
        limit=limit,
        before=_before(call),
    )
    cursor = sign(heads[-1].execution_id, call.service.cursor_key()) if len(heads) == limit else None
    shown = [read.head_as_dict(h) for h in heads]
    if status == "waiting":
        shown = [{**e, "status": s} for e in shown if (s := _status(call.control, e["execution_id"])) == "waiting"]
    return {"executions": shown, "cursor": cursor}


def _before(call: Call) -> str | None:
    """The execution the page before ended with. Raises `BadCursor`."""
    cursor = call.argument("cursor")
    before = None if cursor is None else unsign(cursor, call.service.cursor_key())
    if before is not None and not isinstance(before, str):
        raise BadCursor("the cursor is one of a history")
    return before


def _status(control: Control, execution_id: str) -> str:
    try:
        return read.status_of(control.load(execution_id))
    except (CorruptLog, NewerLog):
        return "running"  # it cannot be said, and the others of the list can


def one(call: Call) -> dict[str, Any]:
    return read.summary(call.control, call.execution_id)


def events(call: Call) -> dict[str, Any]:
    found, cursor, more = read.page(
        call.control,
        call.execution_id,
        name=call.argument("name"),
        after=call.argument("after"),
        limit=call.limit(read.MAX_PAGE),
        key=call.service.cursor_key(),
    )
    return {"events": found, "cursor": cursor, "more": more}


def state(call: Call) -> dict[str, Any]:
    return read.state_at(call.control, call.execution_id, call.argument("at"))


def _instant(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadRequest(f"since is not an instant: {error}", "query.since") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000_000)


PAGE = {"limit": f"at most so many, 1 to {read.MAX_PAGE}"}

ROUTES = (
    Route(
        "POST",
        "/api/executions",
        "Start an execution",
        start,
        HTTPStatus.ACCEPTED,
        body=START,
        refuses=(404, 409, 422),
        right="executions:start",
    ),
    Route(
        "GET",
        "/api/executions",
        "Executions, newest first",
        listed,
        query={
            "status": f"one of {', '.join(STATUSES)}",
            "path": "of this playbook",
            "since": "started at this instant (ISO 8601) or later",
            **PAGE,
            "cursor": "go on after the page that gave this cursor",
        },
        right="executions:read",
    ),
    Route("GET", "/api/executions/{execution_id}", "Summary of an execution", one, right="executions:read"),
    Route(
        "GET",
        "/api/executions/{execution_id}/events",
        "History in causal order",
        events,
        query={"after": "a cursor, or the id of an event", "name": "of this name, StepDone or step.done", **PAGE},
        right="executions:read",
    ),
    Route(
        "GET",
        "/api/executions/{execution_id}/state",
        "State now or at an event",
        state,
        query={"at": "the id of an event: the state just after it"},
        right="executions:read",
    ),
)
