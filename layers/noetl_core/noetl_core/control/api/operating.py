"""Routes that operate an execution."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import Field

from noetl_core.client import shapes
from noetl_core.control.api.callers import INLINE, OPERATES
from noetl_core.control.api.parameters import ExecutionId, Flag, JsonBody, Text, Whole
from noetl_core.control.api.resolver import Resolver
from noetl_core.control.operations import execution_id as checked_id


class Cancel(JsonBody):
    """How to cancel."""

    reason: Text | None = Field(default=None, description="why, for the record")
    compensate: Flag | None = Field(default=None, description="whether finished steps are undone by their `compensate`")


class Nothing(JsonBody):
    """An object without keys, or no body."""


CANCEL, NOTHING = Cancel(), Nothing()


class Redrive(JsonBody):
    """What runs again, and with what."""

    begin: Text | None = Field(
        default=None, alias="from", description="`STEP`, `STEP/TASK`, `STEP@3` or `STEP/TASK@0.3`; by default where it failed"
    )
    ctx: dict[str, Any] | None = Field(default=None, description="keys of ctx to set; objects merge")
    args: dict[str, Any] | None = Field(default=None, description="args of the step to set")
    playbook: Text | None = Field(
        default=None, description="the text of another version of the playbook; it is registered where the caller may"
    )
    version: Whole | None = Field(default=None, description="another version of the playbook")
    preview: Flag | None = Field(default=None, description="only say what would run again")


REDRIVE = Redrive()


class Signal(JsonBody):
    """A named signal."""

    execution_id: Text = Field(description="the execution it is for", min_length=1)
    name: Text = Field(description="what `kind: callback` with `signal: name` waits for", min_length=1)
    data: Any = Field(default=None, description="what it brings")
    id: Text | None = Field(default=None, description="of the same id only the first counts")


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations
    accepted = HTTPStatus.ACCEPTED

    @app.operation("POST", "/api/executions/{execution_id}/cancel", "Cancel", shapes.Operated, right=OPERATES, status=accepted)
    def cancel_execution(execution_id: ExecutionId, body: Annotated[Cancel, Body()] = CANCEL) -> Any:
        return operations.cancel(execution_id, reason=body.reason, compensate=body.compensate)

    @app.operation("POST", "/api/executions/{execution_id}/pause", "Pause", shapes.Operated, right=OPERATES, status=accepted)
    def pause_execution(execution_id: ExecutionId, body: Annotated[Nothing, Body()] = NOTHING) -> Any:
        return operations.pause(execution_id)

    @app.operation("POST", "/api/executions/{execution_id}/resume", "Resume", shapes.Operated, right=OPERATES, status=accepted)
    def resume_execution(execution_id: ExecutionId, body: Annotated[Nothing, Body()] = NOTHING) -> Any:
        return operations.resume(execution_id)

    @app.operation(
        "POST",
        "/api/executions/{execution_id}/redrive",
        "Run what has ended again",
        {HTTPStatus.OK: shapes.Redriven, accepted: shapes.Redriven},
        right=OPERATES,
        status=accepted,
        refuses=(422,),
    )
    def redrive_execution(execution_id: ExecutionId, body: Annotated[Redrive, Body()] = REDRIVE) -> Any:
        if body.playbook:
            app.demand(INLINE)
        done = operations.redrive(
            execution_id,
            begin=body.begin,
            ctx=body.ctx,
            args=body.args,
            playbook=body.playbook,
            version=body.version,
            preview=body.preview,
            registers=app.service.registers(app.caller),
        )
        return done, HTTPStatus.OK if body.preview else accepted

    @app.operation("POST", "/api/events", "A named signal", shapes.Operated, right=OPERATES, status=accepted, refuses=(404, 409))
    def send_signal(body: Annotated[Signal, Body()]) -> Any:
        return operations.signal(checked_id(body.execution_id), body.name, body.data, body.id)
