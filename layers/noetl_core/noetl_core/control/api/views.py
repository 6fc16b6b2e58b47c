"""Routes that show an execution's log as something else: decisions taken again, spans, a graph, costs, task logs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import AfterValidator, Field, WithJsonSchema

from noetl_core.client import view_shapes, why_shapes
from noetl_core.control.api.callers import READS
from noetl_core.control.api.parameters import ExecutionId, JsonBody, Limit, StepName, Switch, Text, asked, asked_as, on, written
from noetl_core.control.api.resolver import Resolver
from noetl_core.control.operations import execution_id
from noetl_core.control.refusals import BadRequest
from noetl_core.control.timelines import MAX_SPANS, SPANS
from noetl_core.engine.aggregates import MAX_CELLS

VIEW = "/api/executions/{execution_id}/"
TYPES = {"mermaid": "text/plain", "dot": "text/plain", "svg": "image/svg+xml"}
TEXT = {"schema": {"type": "string"}}
Spans = Annotated[int, written("limit", 1, MAX_SPANS)]
RunRows = Annotated[int, written("rows", 1, SPANS)]
Start = Annotated[int, written("start", 0, 999_999_999)]
Position = Annotated[int, written("seq", 0, 999_999_999)]
Cells = Annotated[int, written("buckets", 1, MAX_CELLS)]
OtherId = Annotated[str, AfterValidator(execution_id), WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,19}$"})]
AFTER = "the cursor of the answer before"


class Other(JsonBody):
    """Another playbook to decide by."""

    playbook: Text = Field(description="its text", min_length=1)


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations

    @app.operation(
        "GET", VIEW + "replay", "Every control decision taken again: where they differ", view_shapes.Replay, right=READS
    )
    def replay_execution(
        execution_id: ExecutionId, after: Annotated[str | None, asked(f"{AFTER}: positions up to it were replayed")] = None
    ) -> Any:
        return operations.replay(execution_id, after=after)

    @app.operation(
        "POST",
        VIEW + "replay",
        "What another playbook would have decided: the first difference",
        view_shapes.Replay,
        right=READS,
        refuses=(422,),
    )
    def replay_with_playbook(
        execution_id: ExecutionId,
        body: Annotated[Other, Body()],
        after: Annotated[str | None, asked(f"{AFTER}: positions up to it were replayed")] = None,
    ) -> Any:
        return operations.replay(execution_id, after=after, playbook=body.playbook)

    @app.operation(
        "GET",
        VIEW + "timeline",
        "Step runs, attempts, waits, tasks and iterations as spans, in parallel lanes",
        view_shapes.Timeline,
        right=READS,
    )
    def get_timeline(
        execution_id: ExecutionId,
        limit: Annotated[Spans | None, asked("spans of tasks and iterations at most")] = None,
        rows: Annotated[
            RunRows | None, asked("runs at most: those that failed or are open first, then the slowest; all by default")
        ] = None,
        step: Annotated[str | None, asked("runs of this step")] = None,
        begin: Annotated[
            str | None, asked_as("from", "runs at this instant or later; or milliseconds from the beginning")
        ] = None,
        end: Annotated[str | None, asked_as("to", "runs up to this instant; or milliseconds from the beginning")] = None,
    ) -> Any:
        return operations.timeline(execution_id, limit, rows=rows, step=step, begin=begin, end=end)

    @app.operation(
        "GET",
        VIEW + "graph",
        "Steps and arcs with what they came to",
        {200: {"application/json": {"model": view_shapes.Graph}, "text/plain": TEXT, "image/svg+xml": TEXT}},
        right=READS,
    )
    def get_graph(
        execution_id: ExecutionId,
        format: Annotated[Literal["json", "mermaid", "dot", "svg"], asked("as what; data by default")] = "json",
        layout: Annotated[Switch, asked("of data: 1, with where steps and arcs are drawn")] = "0",
        at: Annotated[str | None, asked("of data: the id of an event: as it was just after it")] = None,
    ) -> Any:
        if format == "json":
            return operations.graph(execution_id, layout=on(layout), at=at)
        if on(layout) or at is not None:
            raise BadRequest("layout and at are for format=json", "query.format")
        return Response(200, TYPES[format], operations.drawing(execution_id, format))

    @app.operation("GET", VIEW + "cost", "Metered units and list prices, by step", view_shapes.Cost, right=READS)
    def get_cost(execution_id: ExecutionId) -> Any:
        return operations.cost(execution_id)

    @app.operation(
        "GET",
        VIEW + "steps/{step}/summary",
        "Durations, retries, errors by kind and message, and failed iterations of a step",
        view_shapes.StepAggregates,
        right=READS,
    )
    def get_step_summary(
        execution_id: ExecutionId,
        step: StepName,
        buckets: Annotated[Cells | None, asked("also neighbouring iterations together, in so many cells at most")] = None,
    ) -> Any:
        return operations.step_summary(execution_id, step, buckets)

    @app.operation(
        "GET",
        VIEW + "why",
        "Why a step ran or did not; without one, why the execution came to what it did",
        why_shapes.Why,
        right=READS,
    )
    def explain_execution(
        execution_id: ExecutionId,
        step: Annotated[str | None, asked("the step")] = None,
        at: Annotated[str | None, asked("the id of an event: by what was decided up to it")] = None,
    ) -> Any:
        return operations.why(execution_id, step, at=at)

    @app.operation("GET", VIEW + "diff", "What two executions differ in, step by step", why_shapes.Diff, right=READS)
    def compare_executions(execution_id: ExecutionId, other: Annotated[OtherId, asked("the other execution's id")]) -> Any:
        return operations.diff(execution_id, other)

    @app.operation(
        "GET", VIEW + "object", "A piece of a stored value that a reference leads to", view_shapes.ObjectPiece, right=READS
    )
    def get_object(
        execution_id: ExecutionId,
        key: Annotated[str, asked("of the reference")],
        start: Annotated[Start | None, asked("the byte to begin with: `next` of the piece before")] = None,
    ) -> Any:
        return operations.object_piece(execution_id, key, start or 0)

    @app.operation(
        "GET",
        VIEW + "pages",
        "What one chunk of a loop gave, as the manifest of its results says",
        view_shapes.PageResult,
        right=READS,
    )
    def get_page_result(
        execution_id: ExecutionId,
        run: Annotated[str, asked("of the chunk")],
        seq: Annotated[Position, asked("its position")],
    ) -> Any:
        return operations.page_result(execution_id, run, seq)

    @app.operation("GET", VIEW + "logs", "Standard output and standard error of tasks", view_shapes.Logs, right=READS)
    def list_logs(
        execution_id: ExecutionId,
        step: Annotated[str | None, asked("of this step")] = None,
        task: Annotated[str | None, asked("of this task")] = None,
        full: Annotated[Literal["false", "true"], asked("true: all that was kept, not its end")] = "false",
        after: Annotated[str | None, asked(AFTER)] = None,
        limit: Annotated[Limit | None, asked("attempts at most")] = None,
    ) -> Any:
        return operations.logs(execution_id, step=step, task=task, full=full == "true", after=after, limit=limit)
