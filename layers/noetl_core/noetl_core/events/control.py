"""These are the payloads of the control stream, which holds the decisions of the control plane in their order.

`engine.routing.passes.RoutingPass.emit` omits keys that are None, so optional keys are missing, never null.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from noetl_core.events.aggregates import Aggregates
from noetl_core.events.redrives import RedrivenFrom, RemainingStep, RepeatedArcs, RestoredToken
from noetl_core.events.shapes import (
    Blank,
    By,
    ChunkDone,
    Counts,
    EndStatus,
    Failure,
    Handled,
    LoopCounts,
    LoopPlan,
    NotUndone,
    Parent,
    RequestKey,
    ResultPointer,
    RunClaim,
    SearchAttributes,
    Selected,
    TokenEvent,
    Triggered,
    Wait,
)
from noetl_core.events.typed import TypedDict

# --- the execution ------------------------------------------------------------------------------------------------------


class PlaybookExecutionRequested(TypedDict):
    """A request was accepted: the first event of every execution."""

    path: str
    version: int
    digest: str
    """The digest of the playbook to which the execution is pinned."""
    payload: NotRequired[dict[str, Any] | None]
    rendered: NotRequired[dict[str, Any] | None]
    """The values of those defaults of the workload that are templates."""
    ctx: NotRequired[dict[str, Any] | None]
    parent: NotRequired[Parent | None]
    key: NotRequired[RequestKey | None]
    trace_id: NotRequired[str | None]
    trigger: NotRequired[Triggered | None]
    """The trigger that started it."""
    labels: NotRequired[dict[str, str] | None]
    """The attributes by which lists find the execution."""
    undefined: NotRequired[list[Blank] | None]
    """The undefined names in defaults of the workload; they counted as empty."""
    strict: NotRequired[bool | None]
    """Undefined values in templates, and errors that no rule matches, are failures."""
    priority: NotRequired[float | None]
    """The priority of the request, which overrides the playbook's."""
    by: NotRequired[By | None]


class PlaybookRequestEvaluated(TypedDict):
    """The request was checked against the playbook."""

    digest: str


class WorkflowStarted(TypedDict):
    """The workflow begins at its entry step."""

    entry: str
    timeout_s: NotRequired[float | None]
    """The value of the execution's timeout, if the playbook states the timeout as an expression."""


class WorkflowFinished(TypedDict):
    """The execution has ended: nothing is left to do."""

    status: EndStatus
    error: NotRequired[Failure | None]
    not_undone: NotRequired[list[NotUndone] | None]
    """Compensations that failed."""
    undefined: NotRequired[list[Blank] | None]
    """The undefined names that counted as empty."""


class PlaybookProcessed(TypedDict):
    """The result of the execution. This is the last event, unless the execution is redriven."""

    status: EndStatus
    result: NotRequired[ResultPointer | None]


class ExecutionPaused(TypedDict):
    """An operator paused the execution or its parent."""

    parent: NotRequired[str | None]
    """The paused parent. If it is resumed, this execution is resumed, too."""
    by: NotRequired[By | None]


class ExecutionResumed(TypedDict):
    """An operator resumed a paused or stuck execution."""

    by: NotRequired[By | None]


class ExecutionCancelled(TypedDict):
    """An operator, or the parent, cancelled the execution: its open runs are ended."""

    reason: NotRequired[str | None]
    compensate: NotRequired[bool | None]
    """Completed steps are undone before it ends."""
    by: NotRequired[By | None]


class ExecutionFailing(TypedDict):
    """The execution as a whole fails because of a timeout, a limit, or an expression that the control plane evaluates."""

    error: Failure


class ExecutionStuck(TypedDict):
    """The control plane cannot decide about the execution: an operator must act."""

    reason: NotRequired[str]


class EvaluationMarked(TypedDict):
    """A process died while it evaluated templates of the execution, or a process is about to evaluate them again. A decision
    that ends well sets `attempts` to 0 in its own commit."""

    attempts: int
    """The number of evaluations in a row that began and did not end. After three the execution is stuck. 0 means that one has
    ended."""


class ExecutionRedriven(RedrivenFrom):
    """An ended execution is run again from some place. The payload is the state from which it continues; its tokens follow in the
    same commit."""

    epoch: int
    """The number of redrives. All ids that are derived from now on contain it."""
    after: int
    """The position of the control stream for which the redrive was planned."""
    again: list[str]
    """Runs that are run again."""
    ctx: dict[str, Any]
    tokens: list[RestoredToken]
    set: NotRequired[dict[str, Any]]
    """Keys of ctx that the operator set."""
    args: NotRequired[dict[str, Any]]
    steps: NotRequired[dict[str, RemainingStep]]
    """The values that `steps` shows for the steps whose runs are repeated."""
    last_result: NotRequired[ResultPointer]
    joins: NotRequired[list[str]]
    """Joins that count as not fired."""
    forgotten: NotRequired[list[str]]
    """Runs that need no compensation any more."""
    arcs: NotRequired[list[RepeatedArcs]]
    digest: NotRequired[str]
    """The digest of the new playbook, if the execution continues with another playbook."""
    version: NotRequired[int]
    rendered: NotRequired[dict[str, Any]]
    by: NotRequired[By | None]


class SearchAttributesSet(SearchAttributes):
    """The search attributes of the execution were set: at its start, or after ctx has changed."""


class FailureHandled(Handled):
    """The failure handler was started, or it cannot be started. This event comes after the end of the execution."""


class CtxPatched(TypedDict):
    """Keys of ctx were written."""

    run: NotRequired[str]
    patch: dict[str, Any]


# --- tokens -------------------------------------------------------------------------------------------------------------


class TokenEnqueued(TypedDict):
    """A token was produced: by an arc, a join, the start or a redrive."""

    token: str
    step: str
    """The step to which it goes."""
    args: NotRequired[dict[str, Any] | None]
    run: NotRequired[str | None]
    """The run whose arc produced it."""
    arc: NotRequired[int | None]
    event: NotRequired[TokenEvent | None]
    joined: NotRequired[list[str] | None]
    """The tokens that a join merged."""
    priority: NotRequired[float | None]
    key: NotRequired[str | None]
    """The key of the token, if the router deduplicates."""
    rounds: NotRequired[dict[str, int] | None]
    """The number of times that the token's branch has gone back past a join, for each such join."""


class TokenClaimed(TypedDict):
    """A run consumed tokens."""

    tokens: list[str]
    run: str


class TokenParked(TypedDict):
    """Admission denied a token; it waits for ctx to change."""

    token: str


class TokenExpired(TypedDict):
    """A token was dropped without a run."""

    token: str
    code: Literal["join", "denied", "ended", "error", "limit"]
    """In this order: a join had fired or got too few tokens, admission stayed denied, the execution ended, an expression
    failed, or a limit was exceeded."""
    reason: str


class StepSkipped(TypedDict):
    """Admission denied a token, and the step is skipped."""

    token: str
    step: str


class JoinClosed(TypedDict):
    """If `fired` is true, a round of a join of mode `any` or `count` has fired, and late tokens are dropped. Otherwise the
    round is over, and the join may fire again."""

    step: str
    fired: bool
    round: NotRequired[int | None]


class NextEvaluated(TypedDict):
    """The arcs of a step were evaluated on a boundary."""

    run: str
    step: str
    event: str
    """`step.done`, `step.failed` or `loop.done`."""
    selected: list[Selected]
    unhandled: NotRequired[Failure | None]
    """The error that no arc handled."""
    error: NotRequired[str]
    """The reason why the arcs could not be evaluated."""
    undefined: NotRequired[list[Blank] | None]
    """The undefined names that counted as empty."""
    ending: NotRequired[bool | None]
    """The arcs of a success were not evaluated, because the execution was ending. A redrive evaluates them."""


# --- runs ---------------------------------------------------------------------------------------------------------------


class StepScheduled(TypedDict):
    """A step run was opened. Its command goes to the pool's queue, unless a worker has claimed the run (`claim`)."""

    run: str
    step: str
    args: NotRequired[dict[str, Any] | None]
    pool: str
    tokens: list[str]
    timeout_s: NotRequired[float | None]
    deadline_s: NotRequired[float | None]
    """`timeout_s` and `deadline_s` are the values of the run's time limits. Each is present only if the playbook states
    that limit as an expression."""
    undefined: NotRequired[list[Blank] | None]
    """The undefined names that counted as empty."""
    claim: NotRequired[RunClaim | None]
    """The claim of the worker that gets the run directly. While the claim is valid, no command goes to a queue."""


class BoundaryRouted(TypedDict):
    """A boundary of a run's stream was consumed. In the history, all events of the stream up to the boundary come before this
    commit."""

    run: str
    step: str
    seq: int
    name: Literal["StepDone", "StepFailed", "StepSuspended", "LoopChunkDone"]
    """The event of the boundary."""
    error: NotRequired[Failure | None]
    loop: NotRequired[LoopCounts | None]
    undo: NotRequired[bool | None]
    """The step has a compensation, which may have to undo this run."""
    events: NotRequired[int | None]
    """The number of events that the run's stream has so far, as readers count them."""
    waits: NotRequired[list[Wait]]
    succeeded: NotRequired[int]
    failed: NotRequired[int]
    """`succeeded` and `failed` are numbers of iterations of a chunk."""
    innermost: NotRequired[Counts | None]
    broke: NotRequired[bool | None]
    writes: NotRequired[bool | None]
    """The chunk wrote to ctx."""
    result: NotRequired[Any]
    """The result of a chunk, if it is small."""
    aggregates: NotRequired[Aggregates | None]
    """The numbers of retries and iterations up to this boundary."""
    asked: NotRequired[bool | None]
    """The boundary was routed at the request of its worker. Nothing is sent again when the stream wakes the router later."""


class StepDone(TypedDict):
    """A step without tasks ended as soon as it was scheduled."""

    run: str
    step: str
    undo: NotRequired[bool | None]


class StepFailed(TypedDict):
    """A step failed without a worker: it was not admitted, or one of its time limits is not a number."""

    run: str
    step: str
    error: Failure


class LoopStarted(TypedDict):
    """The run of a step with a loop was scheduled."""

    run: str
    step: str
    mode: Literal["sequential", "parallel"]
    exec: NotRequired[str | None]


class LoopSliced(TypedDict):
    """A loop is distributed: from now on its chunks are scheduled."""

    run: str
    step: str
    plan: LoopPlan
    done: NotRequired[ChunkDone | None]
    """The first chunk, if the step run of the loop carried it out itself. `aggregates` are the totals of this chunk's
    iterations."""
    aggregates: NotRequired[Aggregates | None]


class LoopChunkScheduled(TypedDict):
    """The run of one chunk was opened."""

    run: str
    step: str
    parent: str
    """The step run of the loop."""
    chunk: int


class LoopDone(TypedDict):
    """A loop is over. This event ends the step run of a distributed loop; a boundary has ended the run of any other loop."""

    run: str
    step: str
    total: NotRequired[int]
    succeeded: NotRequired[int]
    failed: NotRequired[int]
    result: NotRequired[Any]
    error: NotRequired[Failure | None]
    undo: NotRequired[bool | None]


# --- compensation, and stopping ---------------------------------------------------------------------------------------


class CompensationStarted(TypedDict):
    """A finished run is being undone."""

    run: str
    step: str
    of: str
    """The run that is undone."""


class CompensationDone(TypedDict):
    """A compensation has ended."""

    run: str
    step: str
    of: str
    error: NotRequired[Failure | None]


class StopStarted(TypedDict):
    """A run was ended while its outside work was in progress: the work is being stopped."""

    run: str
    step: str
    of: str
    """The run that was ended."""
    pool: str


class StopDone(TypedDict):
    """The outside work of an ended run was stopped, unless there is an `error`."""

    run: str
    step: str
    of: str
    error: NotRequired[Failure | None]
