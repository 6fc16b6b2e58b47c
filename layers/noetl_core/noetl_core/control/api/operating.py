"""Routes that operate an execution."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from noetl_core.control import operate, read
from noetl_core.control.api.call import BadRequest, Call, Field, Route, execution_id
from noetl_core.engine.state import State
from noetl_core.engine.waits import BY_TOKEN


def cancel(call: Call) -> dict[str, Any]:
    reason = call.object().get("reason", "")
    return status(operate.cancel(call.control, call.execution_id, reason))


def pause(call: Call) -> dict[str, Any]:
    call.object()
    return status(operate.pause(call.control, call.execution_id))


def resume(call: Call) -> dict[str, Any]:
    call.object()
    return status(operate.resume(call.control, call.execution_id))


def signal(call: Call) -> dict[str, Any]:
    body = call.object()
    execution = execution_id(body["execution_id"])
    if body["name"].startswith(BY_TOKEN):
        raise BadRequest(f"names that begin with {BY_TOKEN!r} are answers by token", "body.name", "POST /api/callbacks/{token}")
    return status(operate.signal(call.control, execution, body["name"], body.get("data"), body.get("id")))


def status(state: State) -> dict[str, Any]:
    """What an operation left the execution at."""
    return {"execution_id": state.execution_id, "status": read.status_of(state)}


REASON = {"reason": Field(str, "why, for the record")}
SIGNAL = {
    "execution_id": Field(str, "the execution it is for", required=True),
    "name": Field(str, "what `kind: callback` with `signal: name` waits for", required=True),
    "data": Field(object, "what it brings"),
    "id": Field(str, "of the same id only the first counts"),
}

ROUTES = (
    Route(
        "POST",
        "/api/executions/{execution_id}/cancel",
        "Cancel",
        cancel,
        HTTPStatus.ACCEPTED,
        body=REASON,
        refuses=(409,),
    ),
    Route("POST", "/api/executions/{execution_id}/pause", "Pause", pause, HTTPStatus.ACCEPTED, body={}, refuses=(409,)),
    Route("POST", "/api/executions/{execution_id}/resume", "Resume", resume, HTTPStatus.ACCEPTED, body={}, refuses=(409,)),
    Route("POST", "/api/events", "A named signal", signal, HTTPStatus.ACCEPTED, body=SIGNAL, refuses=(404, 409)),
)
