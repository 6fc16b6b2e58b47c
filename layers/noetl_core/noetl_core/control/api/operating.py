"""Routes that operate an execution."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from noetl_core.control import operate, read
from noetl_core.control import redrive as redriving
from noetl_core.control.api.call import Answer, BadRequest, Call, Field, Route, execution_id
from noetl_core.control.api.callers import INLINE
from noetl_core.engine.redrive import From, Redrive
from noetl_core.engine.state import State
from noetl_core.engine.waits import BY_TOKEN


def cancel(call: Call) -> dict[str, Any]:
    body = call.object()
    undo = body.get("compensate", False)
    return status(operate.cancel(call.control, call.execution_id, body.get("reason", ""), compensate=undo))


def pause(call: Call) -> dict[str, Any]:
    call.object()
    return status(operate.pause(call.control, call.execution_id))


def resume(call: Call) -> dict[str, Any]:
    call.object()
    return status(operate.resume(call.control, call.execution_id))


def redrive(call: Call) -> Answer:
    body = call.object()
    begin = body.get("from")
    asked = Redrive(None if begin is None else From.parse(begin), body.get("ctx", {}), body.get("args", {}))
    preview = body.get("preview", False)
    if body.get("playbook"):
        call.demand(INLINE)
    done = redriving.redrive(
        call.control,
        call.execution_id,
        asked,
        source=body.get("playbook"),
        version=body.get("version"),
        preview=preview,
        registers=call.registers,
    )
    return Answer(HTTPStatus.OK if preview else HTTPStatus.ACCEPTED, {**status(done.state), "redrive": done.shown})


def signal(call: Call) -> dict[str, Any]:
    body = call.object()
    execution = execution_id(body["execution_id"])
    if body["name"].startswith(BY_TOKEN):
        raise BadRequest(f"names that begin with {BY_TOKEN!r} are answers by token", "body.name", "POST /api/callbacks")
    return status(operate.signal(call.control, execution, body["name"], body.get("data"), body.get("id")))


def status(state: State) -> dict[str, Any]:
    """What an operation left the execution at."""
    return {"execution_id": state.execution_id, "status": read.status_of(state)}


CANCEL = {
    "reason": Field(str, "why, for the record"),
    "compensate": Field(bool, "whether finished steps are undone by their `compensate`"),
}
REDRIVE = {
    "from": Field(str, "`STEP`, `STEP/TASK`, `STEP@3` or `STEP/TASK@0.3`; by default where it failed"),
    "ctx": Field(dict, "keys of ctx to set; objects merge"),
    "args": Field(dict, "args of the step to set"),
    "playbook": Field(str, "the text of another version of the playbook; it is registered where the caller may"),
    "version": Field(int, "another version of the playbook"),
    "preview": Field(bool, "only say what would run again"),
}
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
        body=CANCEL,
        refuses=(409,),
        right="executions:operate",
    ),
    Route(
        "POST",
        "/api/executions/{execution_id}/pause",
        "Pause",
        pause,
        HTTPStatus.ACCEPTED,
        body={},
        refuses=(409,),
        right="executions:operate",
    ),
    Route(
        "POST",
        "/api/executions/{execution_id}/resume",
        "Resume",
        resume,
        HTTPStatus.ACCEPTED,
        body={},
        refuses=(409,),
        right="executions:operate",
    ),
    Route(
        "POST",
        "/api/executions/{execution_id}/redrive",
        "Run what has ended again",
        redrive,
        HTTPStatus.ACCEPTED,
        body=REDRIVE,
        refuses=(409, 422),
        right="executions:operate",
    ),
    Route(
        "POST",
        "/api/events",
        "A named signal",
        signal,
        HTTPStatus.ACCEPTED,
        body=SIGNAL,
        refuses=(404, 409),
        right="executions:operate",
    ),
)
