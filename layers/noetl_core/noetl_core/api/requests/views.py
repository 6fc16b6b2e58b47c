"""States the operations that show views of an execution's log: spans, a graph, costs, iterations, causes, repeated decisions."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Annotated, Literal, cast

from noetl_core.api.fields import ID_SCHEMA, ExecutionId, Field, IterationIndex, StepName, number, switch
from noetl_core.api.refused import execution_id as checked_id
from noetl_core.api.request import JSON, Caller, Http, Operation, Request
from noetl_core.api.requests.executions import EXECUTION, Limit
from noetl_core.api.rights import READS
from noetl_core.values.request_bounds import MAX_CELLS, MAX_OFFSET, MAX_PAGE, MAX_RUNS, MAX_SPANS

if TYPE_CHECKING:
    from noetl_core.api.shapes import steps as steps_shapes
    from noetl_core.api.shapes import views as views_shapes
    from noetl_core.api.shapes import why as why_shapes

STEP = f"{EXECUTION}/steps/{{step}}"
MEDIA = {"json": JSON, "mermaid": "text/plain", "dot": "text/plain", "svg": "image/svg+xml"}
Drawn = Literal["mermaid", "dot", "svg"]
After = Annotated[str | None, Field("the cursor of the previous answer: positions up to it were replayed", place="query")]


class GetTimeline(Request["views_shapes.Timeline"]):
    """Step runs, attempts, waits, tasks and iterations as spans, in parallel lanes."""

    http = Http("GET", f"{EXECUTION}/timeline", right=READS)
    execution_id: ExecutionId
    limit: Annotated[int | None, number("maximum number of spans of tasks and iterations", 1, MAX_SPANS)] = None
    _: KW_ONLY
    rows: Annotated[
        int | None, number("maximum number of runs: failed and open ones first, then the slowest; all by default", 1, MAX_RUNS)
    ] = None
    step: Annotated[str | None, "only runs of this step"] = None
    begin: Annotated[str | None, Field("only runs at this instant or later; or milliseconds from the beginning", "from")] = None
    end: Annotated[str | None, Field("only runs up to this instant; or milliseconds from the beginning", "to")] = None


class GetGraph(Request["views_shapes.Graph | str"]):
    """Steps and arcs with their progress."""

    http = Http("GET", f"{EXECUTION}/graph", right=READS, media=tuple(dict.fromkeys(MEDIA.values())))
    execution_id: ExecutionId
    _: KW_ONLY
    format: Annotated[Literal["json", "mermaid", "dot", "svg"], "the format; json by default"] = "json"
    layout: Annotated[
        bool | None, switch("1: include the positions of steps and arcs (json only)", "0", "1", "false", "true")
    ] = None
    at: Annotated[str | None, "the id of an event: the graph just after it (json only)"] = None
    fold: Annotated[
        bool | None, switch("1: fold parallel branches of a large graph, except failed and open ones", "0", "1", "false", "true")
    ] = None
    unfold: Annotated[
        str | None, "steps, separated by commas: neither their branches nor the branches that contain them are folded; * for all"
    ] = None

    def content_type(self) -> str:
        return MEDIA[self.format]


class GetCost(Request["views_shapes.Cost"]):
    """Metered units and list prices, by step."""

    http = Http("GET", f"{EXECUTION}/cost", right=READS)
    execution_id: ExecutionId


class GetStepSummary(Request["views_shapes.StepAggregates"]):
    """Durations, retries, errors by kind and message, and failed iterations of a step."""

    http = Http("GET", f"{STEP}/summary", right=READS)
    execution_id: ExecutionId
    step: StepName
    buckets: Annotated[int | None, number("group neighbouring iterations into at most this many cells", 1, MAX_CELLS)] = None


class ListIterations(Request["steps_shapes.Iterations"]):
    """Iterations of the newest run of a step, as they ended."""

    http = Http("GET", f"{STEP}/iterations", right=READS)
    execution_id: ExecutionId
    step: StepName
    _: KW_ONLY
    status: Annotated[str | None, Field("only iterations with this status", schema=Literal["ok", "error", "running"])] = None
    q: Annotated[
        str | None, "only iterations with this text in kind, code or message of the error; a number selects the iteration's index"
    ] = None
    begin: Annotated[int | None, number("the approximate first index", 0, MAX_OFFSET, "from")] = None
    after: Annotated[str | None, "the cursor of the previous answer"] = None
    limit: Limit = None


class GetIteration(Request["steps_shapes.IterationDetail"]):
    """One iteration with its item and the attempts of its tasks."""

    http = Http("GET", f"{STEP}/iterations/{{iteration}}", right=READS)
    execution_id: ExecutionId
    step: StepName
    iteration: IterationIndex


class ExplainExecution(Request["why_shapes.Why"]):
    """Explain why a step ran or did not; without a step, why the execution has its status."""

    http = Http("GET", f"{EXECUTION}/why", right=READS)
    execution_id: ExecutionId
    step: Annotated[str | None, "the step"] = None
    _: KW_ONLY
    at: Annotated[str | None, "the id of an event: explain decisions up to it"] = None


class CompareExecutions(Request["why_shapes.Diff"]):
    """Differences between two executions, step by step."""

    http = Http("GET", f"{EXECUTION}/diff", right=READS)
    execution_id: ExecutionId
    other: Annotated[str, Field("the other execution's id", check=checked_id, schema=ID_SCHEMA)]


class GetObject(Request["views_shapes.ObjectPiece"]):
    """A piece of a stored value to which a reference points."""

    http = Http("GET", f"{EXECUTION}/object", right=READS)
    execution_id: ExecutionId
    key: Annotated[str, "key of the reference"]
    start: Annotated[int | None, number("the first byte: `next` of the previous piece", 0, MAX_OFFSET)] = None


class GetPageResult(Request["views_shapes.PageResult"]):
    """The results of one chunk of a loop, to which the manifest of its results points."""

    http = Http("GET", f"{EXECUTION}/pages", right=READS)
    execution_id: ExecutionId
    run: Annotated[str, "run of the chunk"]
    seq: Annotated[int, number("its position", 0, MAX_OFFSET)]


class ListLogs(Request["views_shapes.Logs"]):
    """Standard output and standard error of tasks."""

    http = Http("GET", f"{EXECUTION}/logs", right=READS)
    execution_id: ExecutionId
    _: KW_ONLY
    step: Annotated[str | None, "only logs of this step"] = None
    task: Annotated[str | None, "only logs of this task"] = None
    full: Annotated[bool | None, switch("true: everything that was kept, not only the end")] = None
    after: Annotated[str | None, "the cursor of the previous answer"] = None
    limit: Annotated[int | None, number("maximum number of attempts", 1, MAX_PAGE)] = None


class ReplayExecution(Request["views_shapes.Replay"]):
    """Repeat every control decision and return differences."""

    http = Http("GET", f"{EXECUTION}/replay", right=READS)
    execution_id: ExecutionId
    after: After = None


class ReplayWithPlaybook(Request["views_shapes.Replay"]):
    """Repeat the control decisions with another playbook and return the first difference."""

    http = Http("POST", f"{EXECUTION}/replay", right=READS, body="Other")
    execution_id: ExecutionId
    playbook: Annotated[str, Field("its text", filled=True)]
    after: After = None


class ViewsApi(Caller):
    """Methods that show views of an execution's log."""

    timeline = Operation(GetTimeline)
    cost = Operation(GetCost)
    step_summary = Operation(GetStepSummary)
    iterations = Operation(ListIterations)
    iteration = Operation(GetIteration)
    why = Operation(ExplainExecution)
    diff = Operation(CompareExecutions)
    object_piece = Operation(GetObject)
    page_result = Operation(GetPageResult)
    logs = Operation(ListLogs)

    def graph(self, execution_id: str, *, layout: bool | None = None, at: str | None = None) -> views_shapes.Graph:
        """Return steps and arcs, now or just after the event `at`; with `layout`, also their positions."""
        return cast("views_shapes.Graph", self.call(GetGraph(execution_id, layout=layout, at=at)))

    def drawing(self, execution_id: str, form: Drawn, *, fold: bool | None = None) -> str:
        """Return the graph as text in that format; with `fold`, parallel branches of a large one are folded."""
        return cast("str", self.call(GetGraph(execution_id, format=form, fold=fold)))

    def replay(self, execution_id: str, *, after: str | None = None, playbook: str | None = None) -> views_shapes.Replay:
        """Repeat every control decision, with the same or another playbook."""
        if playbook is None:
            return self.call(ReplayExecution(execution_id, after))
        return self.call(ReplayWithPlaybook(execution_id, playbook, after))
