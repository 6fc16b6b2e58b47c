"""Payloads of the control stream: what the control plane decided, in the order it decided it.

`engine.passes.RoutingPass.emit` leaves out what is None, so an optional key is there or it is not: it is never null.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from noetl_core.events.shapes import (
    Aggregates,
    ChildRequest,
    ChunkDone,
    Counts,
    Failure,
    Handled,
    LoopCounts,
    LoopPlan,
    Mail,
    MailKind,
    NotUndone,
    Parent,
    RedrivenFrom,
    RemainingStep,
    RepeatedArcs,
    RequestKey,
    RestoredToken,
    ResultPointer,
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
    """The playbook that the execution is pinned to."""
    payload: NotRequired[dict[str, Any] | None]
    rendered: NotRequired[dict[str, Any] | None]
    """What templates among the workload's defaults gave."""
    ctx: NotRequired[dict[str, Any] | None]
    parent: NotRequired[Parent | None]
    key: NotRequired[RequestKey | None]
    trace_id: NotRequired[str | None]
    trigger: NotRequired[Triggered | None]
    """What started it, where nobody asked for it."""
    labels: NotRequired[dict[str, str] | None]
    """By which lists find the execution."""
    priority: NotRequired[float | None]
    """That of the request, which comes before that of the playbook."""


class PlaybookRequestEvaluated(TypedDict):
    """The request was checked against the playbook."""

    digest: str


class WorkflowStarted(TypedDict):
    """The workflow begins at its entry step."""

    entry: str
    timeout_s: NotRequired[float | None]
    """The timeout of the execution, where an expression gave it."""


class WorkflowFinished(TypedDict):
    """The execution has ended: nothing is left to do."""

    status: Literal["completed", "failed", "cancelled"]
    error: NotRequired[Failure | None]
    not_undone: NotRequired[list[NotUndone] | None]
    """Compensations that failed."""


class PlaybookProcessed(TypedDict):
    """The result of the execution: the last event, unless it is redriven."""

    status: Literal["completed", "failed", "cancelled"]
    result: NotRequired[ResultPointer | None]


class ExecutionPaused(TypedDict):
    """An operator paused the execution."""


class ExecutionResumed(TypedDict):
    """An operator resumed a paused or stuck execution."""


class ExecutionCancelled(TypedDict):
    """An operator, or the parent, cancelled the execution: its open runs are ended."""

    reason: NotRequired[str | None]
    compensate: NotRequired[bool | None]
    """Finished steps are undone before it ends."""


class ExecutionFailing(TypedDict):
    """The execution as a whole fails: a timeout, a limit, an expression of the control plane."""

    error: Failure


class ExecutionStuck(TypedDict):
    """The control plane cannot decide about the execution: an operator must act."""

    reason: NotRequired[str]


class ExecutionRedriven(RedrivenFrom):
    """An ended execution is run again from some place. The payload is the state before that; the tokens follow in its commit."""

    epoch: int
    """How often it was redriven: a part of all ids that are derived from here on."""
    after: int
    """The control position for which it was planned."""
    again: list[str]
    """Runs that are run again."""
    ctx: dict[str, Any]
    tokens: list[RestoredToken]
    set: NotRequired[dict[str, Any]]
    """Keys of ctx that the operator set."""
    args: NotRequired[dict[str, Any]]
    steps: NotRequired[dict[str, RemainingStep]]
    """What `steps` shows of the steps that are taken back."""
    last_result: NotRequired[ResultPointer]
    joins: NotRequired[list[str]]
    """Joins that count as not fired."""
    forgotten: NotRequired[list[str]]
    """Runs that need no compensation any more."""
    arcs: NotRequired[list[RepeatedArcs]]
    digest: NotRequired[str]
    """The playbook with which it continues, if that is another one."""
    version: NotRequired[int]
    rendered: NotRequired[dict[str, Any]]


class SearchAttributesSet(SearchAttributes):
    """The search attributes of the execution are these, from its start or after ctx has changed."""


class FailureHandled(Handled):
    """What handles the failure was started, or cannot be. It comes after the end of the execution."""


class CtxPatched(TypedDict):
    """Keys of ctx were written."""

    run: NotRequired[str]
    patch: dict[str, Any]


# --- tokens -------------------------------------------------------------------------------------------------------------


class TokenEnqueued(TypedDict):
    """A token was produced: by an arc, a join, the start or a redrive."""

    token: str
    step: str
    """The step it goes to."""
    args: NotRequired[dict[str, Any] | None]
    run: NotRequired[str | None]
    """The run whose arc produced it."""
    arc: NotRequired[int | None]
    event: NotRequired[TokenEvent | None]
    joined: NotRequired[list[str] | None]
    """The tokens that a join merged."""
    priority: NotRequired[float | None]
    key: NotRequired[str | None]
    """Its key, where the router deduplicates."""
    rounds: NotRequired[dict[str, int] | None]
    """Joins past which its branch has gone back, and how often."""


class TokenClaimed(TypedDict):
    """A run consumed tokens."""

    tokens: list[str]
    run: str


class TokenParked(TypedDict):
    """Admission denied a token; it waits for ctx to change."""

    token: str


class TokenExpired(TypedDict):
    """A token is gone without a run."""

    token: str
    code: Literal["join", "denied", "ended", "error", "limit"]
    """A join had fired, admission stayed denied, the execution ended, an expression failed, or a limit was exceeded."""
    reason: str


class StepSkipped(TypedDict):
    """Admission denied a token, and the step is skipped then."""

    token: str
    step: str


class JoinClosed(TypedDict):
    """A round of a join of mode any or count fired and drops what comes late, or is over and may fire again."""

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
    """Why the arcs could not be evaluated."""


# --- runs ---------------------------------------------------------------------------------------------------------------


class StepScheduled(TypedDict):
    """A step run was opened; its command goes to the pool's queue."""

    run: str
    step: str
    args: NotRequired[dict[str, Any] | None]
    pool: str
    tokens: list[str]
    timeout_s: NotRequired[float | None]
    deadline_s: NotRequired[float | None]
    """The time limits of the run, where expressions gave them."""


class BoundaryRouted(TypedDict):
    """A boundary of a run's stream was consumed: everything up to it lies before this commit."""

    run: str
    step: str
    seq: int
    name: Literal["StepDone", "StepFailed", "StepSuspended", "LoopChunkDone"]
    """The boundary's event."""
    error: NotRequired[Failure | None]
    loop: NotRequired[LoopCounts | None]
    undo: NotRequired[bool | None]
    """The step has a compensation, which may have to undo this run."""
    events: NotRequired[int | None]
    """Envelopes of the run's stream so far."""
    waits: NotRequired[list[Wait]]
    succeeded: NotRequired[int]
    failed: NotRequired[int]
    """Iterations of a chunk."""
    innermost: NotRequired[Counts | None]
    broke: NotRequired[bool | None]
    writes: NotRequired[bool | None]
    """The chunk wrote to ctx."""
    result: NotRequired[Any]
    """The result of a chunk, if it is small."""
    aggregates: NotRequired[Aggregates | None]
    """What the boundary says of retries and iterations."""


class StepDone(TypedDict):
    """A step without tasks was over as soon as it was scheduled."""

    run: str
    step: str
    undo: NotRequired[bool | None]


class StepFailed(TypedDict):
    """A step failed before a worker was asked: it was not admitted, or one of its time limits is no number."""

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
    """A loop is distributed: from here on its chunks are scheduled."""

    run: str
    step: str
    plan: LoopPlan
    done: NotRequired[ChunkDone | None]
    """The first chunk, where the lead ran it itself; `aggregates` say what its iterations came to."""
    aggregates: NotRequired[Aggregates | None]


class LoopChunkScheduled(TypedDict):
    """The run of one chunk was opened."""

    run: str
    step: str
    parent: str
    """The step run of the loop."""
    chunk: int


class LoopDone(TypedDict):
    """A loop is over. Of a distributed loop this is its boundary."""

    run: str
    step: str
    total: NotRequired[int]
    succeeded: NotRequired[int]
    failed: NotRequired[int]
    result: NotRequired[Any]
    error: NotRequired[Failure | None]
    undo: NotRequired[bool | None]


class ResumeScheduled(TypedDict):
    """A wait of a suspended run is over; a command resumes the run."""

    run: str
    seq: int
    """The position of its stream at which it continues."""
    mail: list[Mail]


class TimerFired(TypedDict):
    """The time of a wait has come."""

    run: str
    wait_id: str
    kind: MailKind


# --- signals and children -----------------------------------------------------------------------------------------------


class SignalReceived(TypedDict):
    """A signal, an answer to a callback or its heartbeat was recorded; it is matched to a wait now or later."""

    id: str
    name: str
    data: NotRequired[Any]
    error: NotRequired[Failure]
    heartbeat: NotRequired[bool]
    by: NotRequired[str]
    """Which one it was of several answers at the same time."""


class SignalMatched(TypedDict):
    """A signal answers a wait."""

    run: str
    wait_id: str
    signal: str
    """Id of the signal."""
    data: NotRequired[Any]
    error: NotRequired[Failure | None]


class ChildRequested(TypedDict):
    """A run waits for a sub-playbook, which is started after this commit."""

    child: str
    """Its execution id."""
    run: str
    wait_id: str
    request: ChildRequest


class ChildFinished(TypedDict):
    """A child has ended, or a detached one has started."""

    child: str
    status: str
    result: NotRequired[Any]
    error: NotRequired[Failure]
    execution_id: NotRequired[str]


# --- compensation -------------------------------------------------------------------------------------------------------


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
