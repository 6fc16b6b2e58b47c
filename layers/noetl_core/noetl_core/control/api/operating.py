"""Routes that operate an execution."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import Field

from noetl_core.client import following_shapes, shapes
from noetl_core.control.api.callers import INLINE, OPERATES
from noetl_core.control.api.parameters import ExecutionId, Flag, JsonBody, Text, VersionNumber, Whole
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
        default=None,
        alias="from",
        description="`STEP`, `STEP/TASK`, `STEP@3` or `STEP/TASK@0.3`; in a step without a loop, `STEP/TASK@7` is the task's"
        " seventh visit; by default where it failed",
    )
    ctx: dict[str, Any] | None = Field(default=None, description="keys of ctx to set; objects merge")
    args: dict[str, Any] | None = Field(default=None, description="args of the step to set")
    playbook: Text | None = Field(
        default=None, description="the text of another version of the playbook; it is registered where the caller may"
    )
    version: VersionNumber | None = Field(default=None, description="another version of the playbook, a number or an alias")
    preview: Flag | None = Field(default=None, description="only say what would run again")


REDRIVE = Redrive()


class Which(JsonBody):
    """Which executions a batch is for."""

    ids: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = Field(default=None, description="these")
    status: shapes.ListedStatus | None = Field(default=None, description="of this status")
    path: Text | None = Field(default=None, description="of this playbook")
    since: Text | None = Field(default=None, description="started at this instant (ISO 8601) or later")
    until: Text | None = Field(default=None, description="started at this instant or before")
    label: Text | None = Field(default=None, description="with these labels: `key:value` or `key`, several separated by commas")


class Given(JsonBody):
    """What the operations of a batch are given."""

    reason: Text | None = Field(default=None, description="of cancelling: why, for the record")
    compensate: Flag | None = Field(default=None, description="of cancelling: whether finished steps are undone")
    begin: Text | None = Field(default=None, alias="from", description="of redriving: where, as in a redrive of one")


class Batch(JsonBody):
    """One operation on many executions."""

    filter: Which = Field(description="which executions: one of its keys at least")
    action: Literal["cancel", "pause", "resume", "redrive"] = Field(description="what is done")
    given: Given | None = Field(default=None, alias="with", description="what it is given")
    preview: Flag | None = Field(default=None, description="only say to which")
    limit: Whole | None = Field(default=None, description="executions at most, 50 by default, up to 100")
    cursor: Text | None = Field(default=None, description="go on after the page that gave this cursor")


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

    @app.operation(
        "POST",
        "/api/executions/batch",
        "One operation on many executions, a page at a time",
        {HTTPStatus.OK: following_shapes.Batch, accepted: following_shapes.Batch},
        right=OPERATES,
        status=accepted,
        refuses=(404, 422),
    )
    def operate_batch(body: Annotated[Batch, Body()]) -> Any:
        which, given = body.filter, body.given or Given()
        done = operations.batch(
            body.action,
            ids=which.ids,
            status=which.status,
            path=which.path,
            since=which.since,
            until=which.until,
            label=which.label,
            reason=given.reason,
            compensate=given.compensate,
            begin=given.begin,
            preview=body.preview,
            limit=body.limit,
            cursor=body.cursor,
        )
        return done, HTTPStatus.OK if body.preview else accepted
