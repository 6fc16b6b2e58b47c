"""Answers requests for views of an execution's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl_core.api.refused import BadRequest, iteration_path
from noetl_core.api.requests.views import (
    CompareExecutions,
    ExplainExecution,
    GetCost,
    GetGraph,
    GetIteration,
    GetObject,
    GetPageResult,
    GetStepSummary,
    GetTimeline,
    ListIterations,
    ListLogs,
    ReplayExecution,
    ReplayWithPlaybook,
)
from noetl_core.service.operations.base import Operations
from noetl_core.views.explain import answers, cost, timelines
from noetl_core.views.history.objects import object_piece, page_result
from noetl_core.views.steps import iterations
from noetl_core.views.steps.summary import step_summary

if TYPE_CHECKING:
    from noetl_core.api.shapes.steps import IterationDetail, Iterations
    from noetl_core.api.shapes.views import Cost, Graph, Logs, ObjectPiece, PageResult, Replay, StepAggregates, Timeline
    from noetl_core.api.shapes.why import Diff, Why


@GetTimeline.answered
def get_timeline(on: Operations, request: GetTimeline) -> Timeline:
    limit = timelines.SPANS if request.limit is None else request.limit
    return timelines.timeline(
        on.control(),
        request.execution_id,
        rows=request.rows,
        step=request.step,
        begin=request.begin,
        end=request.end,
        limit=limit,
    )


@GetGraph.answered
def get_graph(on: Operations, request: GetGraph) -> Graph | str:
    if request.format == "json":
        return answers.graph(
            on.control(), request.execution_id, layout=bool(request.layout), at=request.at, unfold=_unfold(request)
        )
    if request.layout or request.at is not None:
        raise BadRequest("layout and at require format=json", "query.format")
    return answers.drawing(on.control(), request.execution_id, request.format, _unfold(request))


def _unfold(request: GetGraph) -> list[str] | None:
    """Return the steps whose branches stay unfolded; None if none are folded."""
    return (request.unfold or "").split(",") if request.fold else None


@GetCost.answered
def get_cost(on: Operations, request: GetCost) -> Cost:
    memory = on.facts.get("worker_memory_mb")
    return cost.cost(on.control(), request.execution_id, int(memory) if memory else None)


@GetStepSummary.answered
def get_step_summary(on: Operations, request: GetStepSummary) -> StepAggregates:
    return step_summary(on.control(), request.execution_id, request.step, request.buckets)


@ListIterations.answered
def list_iterations(on: Operations, request: ListIterations) -> Iterations:
    return iterations.iterations(
        on.control(),
        request.execution_id,
        request.step,
        on.cursor_key(),
        status=request.status,
        text=request.q,
        first=request.begin or 0,
        after=request.after,
        limit=iterations.SHOWN if request.limit is None else request.limit,
    )


@GetIteration.answered
def get_iteration(on: Operations, request: GetIteration) -> IterationDetail:
    return iterations.iteration(on.control(), request.execution_id, request.step, iteration_path(request.iteration))


@ExplainExecution.answered
def explain_execution(on: Operations, request: ExplainExecution) -> Why:
    from noetl_core.views.explain.why import why  # 12 ms: short runs request no explanation

    return why(on.control(), request.execution_id, request.step, request.at)


@CompareExecutions.answered
def compare_executions(on: Operations, request: CompareExecutions) -> Diff:
    from noetl_core.views.explain.diff import diff  # 4 ms, as above

    return diff(on.control(), request.execution_id, request.other)


@GetObject.answered
def get_object(on: Operations, request: GetObject) -> ObjectPiece:
    return object_piece(on.control(), request.execution_id, request.key, request.start or 0)


@GetPageResult.answered
def get_page_result(on: Operations, request: GetPageResult) -> PageResult:
    return page_result(on.control(), request.execution_id, request.run, request.seq)


@ListLogs.answered
def list_logs(on: Operations, request: ListLogs) -> Logs:
    return answers.logs(
        on.control(),
        request.execution_id,
        on.cursor_key(),
        step=request.step,
        task=request.task,
        full=bool(request.full),
        after=request.after,
        limit=answers.LOGS if request.limit is None else request.limit,
    )


@ReplayExecution.answered
def replay_execution(on: Operations, request: ReplayExecution) -> Replay:
    return answers.replayed(on.control(), request.execution_id, request.after, None)


@ReplayWithPlaybook.answered
def replay_with_playbook(on: Operations, request: ReplayWithPlaybook) -> Replay:
    return answers.replayed(on.control(), request.execution_id, request.after, request.playbook)
