"""Routes that operate an execution."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from noetl_core.control import operate, read
from noetl_core.control.api.call import BadRequest, Call, Route
from noetl_core.engine.state import State


def cancel(call: Call) -> dict[str, Any]:
    body = call.object("reason")
    return status(operate.cancel(call.control, call.execution_id, str(body.get("reason") or "")))


def pause(call: Call) -> dict[str, Any]:
    call.object("reason")
    return status(operate.pause(call.control, call.execution_id))


def resume(call: Call) -> dict[str, Any]:
    call.object("reason")
    return status(operate.resume(call.control, call.execution_id))


def signal(call: Call) -> dict[str, Any]:
    body = call.object("execution_id", "name", "data", "id")
    for key in ("execution_id", "name"):
        if not isinstance(body.get(key), str) or not body[key]:
            raise BadRequest(f"{key} is missing", f"body.{key}")
    return status(operate.signal(call.control, body["execution_id"], body["name"], body.get("data"), body.get("id")))


def status(state: State) -> dict[str, Any]:
    """What an operation left the execution at."""
    return {"execution_id": state.execution_id, "status": read.status_of(state)}


ROUTES = (
    Route("POST", "/api/executions/{execution_id}/cancel", "Cancel", cancel, HTTPStatus.ACCEPTED),
    Route("POST", "/api/executions/{execution_id}/pause", "Pause", pause, HTTPStatus.ACCEPTED),
    Route("POST", "/api/executions/{execution_id}/resume", "Resume", resume, HTTPStatus.ACCEPTED),
    Route("POST", "/api/events", "A named signal", signal, HTTPStatus.ACCEPTED),
)
