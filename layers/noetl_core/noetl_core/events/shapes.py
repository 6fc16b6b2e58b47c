"""Data that events, states, commands and snapshots share: plain JSON, as it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, final

from noetl_core.events.aggregates import Aggregates as Aggregates
from noetl_core.events.aggregates import ErrorGroup as ErrorGroup
from noetl_core.events.typed import TypedDict


@final
class CommitPointer(TypedDict):
    """A result that the last event of commit `seq` of a run holds."""

    run: str
    seq: int


@final
class ValuePointer(TypedDict):
    """A result that the control plane made itself."""

    value: Any


ResultPointer = CommitPointer | ValuePointer
"""Where a result is."""


class Failure(TypedDict):
    """What went wrong. A policy that fails a task may add keys of its own."""

    kind: str
    """One of the error kinds of `outcome.error`."""
    message: str
    retryable: NotRequired[bool]
    code: NotRequired[str | int]
    """What the service said: an HTTP status, an SQLSTATE."""
    details: NotRequired[Any]
    """Further details; a reference when they are large."""
    step: NotRequired[str]
    task: NotRequired[str]
    iteration: NotRequired[list[int]]
    """Indexes of the failed iteration, from the outermost loop in."""
    fatal: NotRequired[bool]
    """The execution ends, whatever its failure mode."""


class Counts(TypedDict):
    """Iterations of a loop: of its innermost loop where loops are nested."""

    total: int
    succeeded: int
    failed: int


class LoopCounts(Counts):
    """What a loop's boundary says of it."""

    items: NotRequired[int]
    """Items of the outermost loop, where loops are nested."""


class TokenEvent(TypedDict):
    """`event` as stored with the tokens that a boundary made: what arcs and admission read."""

    name: str
    """`step.done`, `step.failed` or `loop.done`."""
    step: str
    run_id: str
    at: ResultPointer | None
    error: NotRequired[Failure]
    loop: NotRequired[Counts]


WaitKind = Literal["timer", "signal", "callback", "child", "pause", "deadline"]


class Wait(TypedDict):
    """One thing a suspended run waits for."""

    wait_id: str
    kind: WaitKind
    """`pause` and `deadline`: the worker stopped between two tasks, because the execution is paused or its invocation ends."""
    task: NotRequired[str]
    iteration: NotRequired[list[int]]
    at: NotRequired[int]
    """When the wait is over by itself, in microseconds: a timer's instant, a timeout."""
    signal: NotRequired[str]
    """Name of the signal that answers it."""
    callback: NotRequired[str]
    """Task run of a callback by token."""
    heartbeat: NotRequired[float]
    """The longest silence of a callback, in seconds."""
    beat_by: NotRequired[int]
    """The instant before which the next heartbeat must come, in microseconds."""
    schema: NotRequired[Any]
    """The JSON Schema of an answer."""
    description: NotRequired[Any]
    result: NotRequired[Any]
    """What a timer gives its task."""
    child: NotRequired[str]
    """Execution id of a sub-playbook; the keys below are the request for it."""
    path: NotRequired[str]
    version: NotRequired[int | str]
    args: NotRequired[dict[str, Any]]
    iter: NotRequired[dict[str, Any]]
    ctx: NotRequired[dict[str, Any]]
    detach: NotRequired[bool]
    idempotency_key: NotRequired[str]
    backfill: NotRequired[Occurrence]
    return_step: NotRequired[str]
    """The step of the child whose result is its result here."""
    part: NotRequired[str]
    """Which part of the child's result the task takes."""
    limit: NotRequired[str]
    """The key of the rate for which the task waits."""
    permit: NotRequired[int]
    """When the rate lets it begin, in microseconds: a little after `at`, for which the run wakes."""


class Handled(TypedDict):
    """What was done about a failed end."""

    epoch: int
    """How often the execution was redriven before that end."""
    handler: str
    """The playbook, the address or the topic that is told."""
    execution_id: NotRequired[str]
    """The execution that tells it."""
    error: NotRequired[str]
    """Why it cannot be started."""


class SearchAttributes(TypedDict):
    """What lists find an execution by."""

    attributes: dict[str, Any]
    """Texts, numbers and flags, by name."""
    left_out: NotRequired[dict[str, str] | None]
    """Attributes that could not be one, and why."""


class Occurrence(TypedDict):
    """The occurrence of a schedule for which a child is run."""

    name: str
    """The trigger."""
    scheduled_at: str
    previous_at: NotRequired[str]


class ChildRequest(TypedDict):
    """The request for a child."""

    path: str
    version: NotRequired[int | str]
    """A number, or the name of an alias; left out: the latest."""
    args: NotRequired[dict[str, Any]]
    iter: NotRequired[dict[str, Any]]
    """The iteration that calls the child, as the child's `iter.parent`."""
    ctx: NotRequired[dict[str, Any]]
    detach: NotRequired[bool]
    """The child is independent once it has started."""
    idempotency_key: NotRequired[str]
    backfill: NotRequired[Occurrence]
    """The child's `trigger`."""
    return_step: NotRequired[str]
    """The step of the child whose result is its result here."""


MailKind = Literal["timer", "timeout", "heartbeat", "pause", "deadline", "signal", "child"]


class Mail(TypedDict):
    """What answers a wait: that its time has come, a signal's data, a child's end."""

    wait_id: str
    kind: MailKind
    """`timeout`: nobody answered in time; `heartbeat`: no heartbeat came in time."""
    data: NotRequired[Any]
    error: NotRequired[Failure]


class LoopPlan(TypedDict):
    """How a distributed loop is cut into chunks."""

    total: int
    """Items of the collection."""
    chunk_size: int
    chunks: int
    window: int
    """Chunks open at once."""
    per_chunk: int
    """Iterations at once within a chunk."""
    checksum: NotRequired[str]
    """Of all slices of the collection."""
    tolerated: NotRequired[int]
    """Failed iterations that do not fail the loop."""
    view: NotRequired[str]
    """Key of the object with what the templates of the iterations see."""
    slices: NotRequired[str]
    """The run whose slices a redriven loop uses."""
    first: NotRequired[int]
    """Items of the first chunk, where the lead ran them itself before it handed over the others."""
    seconds: NotRequired[float]
    """What an iteration took the lead that handed over the others."""
    claim: NotRequired[int]
    """Position of the claim of the worker that stored the slices, if that was not the first."""


class LoopCommand(LoopPlan):
    """Of the command of a chunk: the plan, and the step run it belongs to."""

    run: str


class ChunkOfLoop(LoopCommand):
    """A chunk as its worker sees it."""

    chunk: int


class ChunkDone(TypedDict):
    """A finished chunk, as a state keeps it and a redrive takes it over."""

    run: str
    seq: int
    succeeded: int
    failed: int
    writes: NotRequired[bool]
    result: NotRequired[Any]
    innermost: NotRequired[Counts | None]


class Rerun(TypedDict, total=False):
    """What of an earlier run is run again; all that is not named is carried over."""

    failed: bool
    """What had failed or not ended."""
    path: list[int]
    """This iteration, with the iterations around it and inside it."""
    task: str
    """From this task on."""
    ctx: list[str]
    """Writes to these keys are dropped: an operator has set them."""


class CarriedOver(TypedDict, total=False):
    """What a redriven run carries over from the runs before it: `loop` of a distributed loop, `runs` of any other run."""

    runs: list[tuple[str, Rerun]]
    """Run, and what of it is run again, oldest first; a pair is a list of two in JSON."""
    loop: CarriedOverLoop


class CarriedOverLoop(TypedDict):
    """What a redriven distributed loop carries over."""

    plan: LoopPlan
    done: dict[str, ChunkDone]
    """The chunks that are kept, by their index."""
    chunks: dict[str, CarriedOver]
    """What is carried over into those that run again."""
    before: NotRequired[dict[str, CarriedOver]]
    """What had been carried over into chunks that are kept: a later redrive of one of them reads it."""


class Undoes(TypedDict):
    """The finished run that a compensation undoes."""

    run: str
    at: ResultPointer | None
    loop: Counts | None


class Completed(TypedDict):
    """A finished run of a step that has a compensation."""

    run: str
    step: str
    args: dict[str, Any]
    at: ResultPointer | None
    loop: Counts | None
    pool: str


class NotUndone(TypedDict):
    """A compensation that failed."""

    step: str
    kind: str | None
    message: str | None


class RemainingStep(TypedDict, total=False):
    """What `steps.<name>` shows of a step of which runs are taken back: its last remaining run; empty if none remains."""

    status: str | None
    at: ResultPointer | None
    loop: Counts | None


class Selected(TypedDict):
    """An arc that fired."""

    arc: int
    step: str


if TYPE_CHECKING:
    RedrivenFrom = TypedDict("RedrivenFrom", {"from": NotRequired[str]})  # no class can give a key this name
else:

    class RedrivenFrom(TypedDict):
        """The place from which an execution is redriven."""

    RedrivenFrom.__annotations__ = {"from": "NotRequired[str]"}


class RestoredToken(TypedDict):
    """A token that a redrive puts back."""

    token: str
    of: str
    """The token in whose place it is put."""
    step: str
    run: NotRequired[str]
    arc: NotRequired[int]
    args: NotRequired[dict[str, Any]]
    event: NotRequired[TokenEvent]
    joined: NotRequired[list[str]]
    priority: NotRequired[float]
    rounds: NotRequired[dict[str, int]]
    prior: NotRequired[CarriedOver]


class ChunkLineage(TypedDict):
    """A chunk in a run's lineage; without `seq` it has not ended."""

    run: str
    seq: NotRequired[int]
    succeeded: NotRequired[int]
    failed: NotRequired[int]
    writes: NotRequired[bool]
    result: NotRequired[Any]
    innermost: NotRequired[Counts | None]
    error: NotRequired[Failure]


class RepeatedArcs(TypedDict):
    """A run whose arcs a redrive evaluates again."""

    run: str
    step: str
    args: dict[str, Any]
    event: TokenEvent


class RequestKey(TypedDict):
    """The idempotency key of a request, and the fingerprint of its body."""

    key: str
    fingerprint: str


class Parent(TypedDict):
    """The execution that called another one."""

    execution_id: str
    run_id: NotRequired[str]
    """The run that called it; without one the parent is a label and gives no rights."""
    depth: NotRequired[str]
    detached: NotRequired[str]
    return_step: NotRequired[str]
    """The step whose result the caller wants."""


class Triggered(TypedDict):
    """What started an execution that nobody asked for. A source may add what came with it."""

    kind: str
    """The source: `schedule`, ..."""
    name: str
    """The trigger, among those of the playbook."""
    id: str
    """The occurrence, or the delivery."""
    scheduled_at: NotRequired[str]
    """The instant it was to start at."""
    previous_at: NotRequired[str]
    """The one before that."""


class TaskOutcome(TypedDict):
    """The envelope of a tool call's outcome. A kind may add a section of its own: `http`, `pg`, `py`."""

    status: Literal["ok", "error"]
    meta: dict[str, Any]
    """Attempt, duration, times, the log's end."""
    result: NotRequired[Any]
    error: NotRequired[Failure]


class DirectiveTaken(TypedDict):
    """What a pipeline does after an outcome."""

    do: Literal["continue", "retry", "jump", "break", "fail"]
    to: NotRequired[str]
    """The target of a jump."""
    delay: NotRequired[float]
    """Seconds before the next attempt."""
    scope: NotRequired[Literal["loop"]]
    """The `break` ends the loop, not only the iteration."""
    matched: NotRequired[int | str | None]
    """Which rule of the policy: its index, `else`, or null for none."""


class Signal(TypedDict):
    """A signal in the mailbox: received and not matched to a wait yet."""

    id: str
    name: str
    data: Any
    error: NotRequired[Failure]


class CommandContext(TypedDict):
    """What the templates of a run see, as its command carries it; results are pointers."""

    workload: dict[str, Any]
    ctx: dict[str, Any]
    args: dict[str, Any]
    steps: dict[str, StepSeen]
    trace_id: NotRequired[str]
    trigger: NotRequired[Triggered]


class StepSeen(TypedDict):
    """A finished step, as commands carry it."""

    status: str | None
    at: ResultPointer | None
    loop: Counts | None


class Authored(TypedDict):
    """Where a task that sugar was compiled to comes from."""

    label: str
    line: int | None


OPEN: frozenset[type] = frozenset({Failure, TaskOutcome, Triggered})
"""Shapes that may hold keys besides those they name."""
