"""Routes that start executions and look at them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Body, Header
from pydantic import Field

from noetl_core.client import shapes
from noetl_core.control.api.callers import INLINE, READS, STARTS
from noetl_core.control.api.parameters import ExecutionId, JsonBody, Limit, Text, VersionNumber, asked, written
from noetl_core.control.api.resolver import Resolver
from noetl_core.control.pages import MAX_PAGE
from noetl_core.dsl.numbers import PRIORITY

Tail = Annotated[int, written("tail", 1, MAX_PAGE)]


class ParentOf(JsonBody):
    """An execution that another one belongs to."""

    execution_id: Text


class Start(JsonBody):
    """What to start: `path` (and `version`), `playbook_id` or `playbook`, and with what."""

    path: Text | None = Field(default=None, description="path of a registered playbook, or `path@version`")
    version: VersionNumber | None = Field(default=None, description="its version, a number or an alias; the latest by default")
    playbook_id: Text | None = Field(default=None, description="digest of a registered playbook, instead of path and version")
    playbook: Text | None = Field(default=None, description="text of a playbook, instead of a registered one")
    payload: dict[str, Any] | None = Field(default=None, description="merged over the playbook's workload")
    ctx: dict[str, Any] | None = Field(default=None, description="ctx at the start")
    idempotency_key: Text | None = Field(
        default=None, description="the same key and body start one execution; the Idempotency-Key header says the same"
    )
    parent: ParentOf | None = Field(
        default=None, description="{execution_id}: the execution this one belongs to, for lists; it shares nothing with it"
    )
    trace_id: Text | None = Field(default=None, description="shown in every event")
    labels: dict[str, Text] | None = Field(
        default=None, description="key: value, 20 at most, by which lists find it; keys of A-Z, a-z, 0-9 and ._/-"
    )
    priority: float | None = Field(
        default=None,
        ge=PRIORITY.low,
        le=PRIORITY.high,
        strict=True,
        description="among those that wait for a limit, the higher ones first; before `priority` of the playbook",
    )
    strict: bool | None = Field(
        default=None,
        strict=True,
        description="true: undefined values in templates, and errors that no rule matches, are failures; otherwise as the"
        " playbook and the stack say",
    )


Key = Annotated[str | None, Header(alias="Idempotency-Key", description="as `idempotency_key` in the body")]


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations

    @app.operation(
        "POST",
        "/api/executions",
        "Start an execution",
        shapes.Started,
        right=STARTS,
        status=HTTPStatus.ACCEPTED,
        refuses=(404, 409, 410, 422),
    )
    def start_execution(body: Annotated[Start, Body()], key: Key = None) -> Any:
        if body.playbook:
            app.demand(INLINE)
        return operations.start(
            path=body.path,
            version=body.version,
            playbook_id=body.playbook_id,
            playbook=body.playbook,
            payload=body.payload,
            ctx=body.ctx,
            idempotency_key=body.idempotency_key or key,
            parent=None if body.parent is None else {"execution_id": body.parent.execution_id},
            trace_id=body.trace_id,
            labels=body.labels,
            priority=body.priority,
            strict=body.strict,
            registers=app.service.registers(app.caller),
        )

    @app.operation("GET", "/api/executions", "Executions, newest first", shapes.Executions, right=READS)
    def list_executions(
        status: Annotated[shapes.ListedStatus | None, asked("of this status")] = None,
        path: Annotated[str | None, asked("of this playbook")] = None,
        since: Annotated[str | None, asked("started at this instant (ISO 8601) or later")] = None,
        limit: Annotated[Limit | None, asked("at most so many")] = None,
        cursor: Annotated[str | None, asked("go on after the page that gave this cursor")] = None,
        search: Annotated[
            str | None, asked("with these search attributes, as a query has them: `customer=acme&total=12`, encoded once more")
        ] = None,
        label: Annotated[str | None, asked("with this label, key:value or key; with all of several, separated by commas")] = None,
        q: Annotated[str | None, asked("whose id begins so, or whose playbook's path has this in it")] = None,
    ) -> Any:
        return operations.executions(
            status=status, path=path, since=since, limit=limit, cursor=cursor, search=search, label=label, q=q
        )

    @app.operation("GET", "/api/executions/{execution_id}", "Summary of an execution", shapes.Execution, right=READS)
    def get_execution(execution_id: ExecutionId) -> Any:
        return operations.execution(execution_id)

    @app.operation("GET", "/api/executions/{execution_id}/events", "History in causal order", shapes.EventParts, right=READS)
    def list_events(
        execution_id: ExecutionId,
        after: Annotated[str | None, asked("a cursor, or the id of an event")] = None,
        before: Annotated[str | None, asked("the id of an event: the page ends before it")] = None,
        at: Annotated[str | None, asked("the page begins with it: the id of an event, an instant, or a number from 0")] = None,
        tail: Annotated[Tail | None, asked("the last ones, so many")] = None,
        name: Annotated[str | None, asked("of these names, StepDone or step.done, separated by commas")] = None,
        step: Annotated[str | None, asked("of this step")] = None,
        task: Annotated[str | None, asked("of this task")] = None,
        status: Annotated[Literal["in_progress", "success", "error", "paused"] | None, asked("of this status")] = None,
        iteration: Annotated[str | None, asked("of this iteration and those in it, 617 or 3.5")] = None,
        fields: Annotated[str | None, asked("keys of events to show, separated by commas")] = None,
        limit: Annotated[Limit | None, asked("at most so many")] = None,
    ) -> Any:
        return operations.events(
            execution_id,
            after=after,
            before=before,
            at=at,
            tail=tail,
            name=name,
            step=step,
            task=task,
            status=status,
            iteration=iteration,
            fields=fields,
            limit=limit,
        )

    @app.operation("GET", "/api/executions/{execution_id}/state", "State now or at an event", shapes.ExecutionState, right=READS)
    def get_state(
        execution_id: ExecutionId, at: Annotated[str | None, asked("the id of an event: the state just after it")] = None
    ) -> Any:
        return operations.state(execution_id, at)
