"""Data that events, states, commands and snapshots share: plain JSON, as it is stored."""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, final

from noetl_core.events.typed import TypedDict

ExecutionStatus = Literal["running", "waiting", "paused", "cancelling", "stuck", "completed", "failed", "cancelled"]
ListedStatus = Literal["running", "waiting", "retrying", "paused", "cancelling", "stuck", "completed", "failed", "cancelled"]
"""Statuses in lists and counts. An execution that is `retrying` tries a task again, or waits for that."""
EndStatus = Literal["completed", "failed", "cancelled"]
"""The status with which an execution ends."""


@final
class CommitPointer(TypedDict):
    """A result in the last event of commit `seq` of a run."""

    run: str
    seq: int


@final
class ValuePointer(TypedDict):
    """A result that the control plane computed."""

    value: Any


ResultPointer = CommitPointer | ValuePointer
"""The position of a result."""


class Failure(TypedDict):
    """An error. A policy that fails a task may add keys of its own."""

    kind: str
    """One of the error kinds of `outcome.error`."""
    message: str
    retryable: NotRequired[bool]
    code: NotRequired[int | str]
    """The code of the service: an HTTP status, an SQLSTATE."""
    details: NotRequired[Any]
    """Further details; a reference when they are large."""
    step: NotRequired[str]
    task: NotRequired[str]
    iteration: NotRequired[list[int]]
    """Indexes of the failed iteration, outermost loop first."""
    fatal: NotRequired[bool]
    """The execution ends, regardless of its failure mode."""


class Counts(TypedDict):
    """Iterations of a loop, or of the innermost loop if loops are nested."""

    total: int
    succeeded: int
    failed: int


class LoopCounts(Counts):
    """The counts in a loop's boundary."""

    items: NotRequired[int]
    """Items of the outermost loop, if loops are nested."""


class TokenEvent(TypedDict):
    """The value of `event` for arcs and admission, as it is stored with the tokens of a boundary."""

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
    """`pause` and `deadline`: the worker stopped between two tasks, because the execution is paused or the worker's invocation
    ends."""
    task: NotRequired[str]
    iteration: NotRequired[list[int]]
    at: NotRequired[int]
    """The instant, in microseconds, at which the wait ends by itself: the end of a timer, or a timeout."""
    signal: NotRequired[str]
    """The name of the signal that answers it."""
    callback: NotRequired[str]
    """The task run of the callback, if the callback is answered by token."""
    heartbeat: NotRequired[float]
    """The longest time between heartbeats of a callback, in seconds."""
    beat_by: NotRequired[int]
    """The instant by which the next heartbeat must have come, in microseconds."""
    schema: NotRequired[Any]
    """The JSON Schema of an answer."""
    description: NotRequired[Any]
    result: NotRequired[Any]
    """The result of a timer's task."""
    child: NotRequired[str]
    """The execution id of the child. The keys from `path` to `return_step` are the request for it."""
    path: NotRequired[str]
    version: NotRequired[int | str]
    args: NotRequired[dict[str, Any]]
    iter: NotRequired[dict[str, Any]]
    ctx: NotRequired[dict[str, Any]]
    detach: NotRequired[bool]
    idempotency_key: NotRequired[str]
    backfill: NotRequired[Occurrence]
    return_step: NotRequired[str]
    """The caller gets the result of this step of the child."""
    part: NotRequired[str]
    """The part of the child's result that the task takes."""
    limit: NotRequired[str]
    """The key of the rate for which the task waits."""
    permit: NotRequired[int]
    """The instant from which the permit may be used, in microseconds. It is a little after `at`, the instant at which the run
    wakes."""
    outside: NotRequired[OutsideWork]
    """The outside work that the task polls at `at`."""


class OutsideWork(TypedDict):
    """The outside work of an attempt of a task, for which no worker waits."""

    run: str
    """The task run."""
    attempt: int
    kind: str
    """The kind of the task, whose tool polls the work and stops it."""
    kept: dict[str, Any]
    """The data by which the tool finds the work."""
    looks: int
    """The number of times that the tool has reported the work as in progress; 0 before the work begins."""
    since: int
    """The instant at which the attempt began, in microseconds."""
    until: NotRequired[int]
    """The instant at which the attempt times out, in microseconds."""
    stops: NotRequired[int]
    """The number of failed attempts to stop the work after its timeout."""


class Handled(TypedDict):
    """The handling of a failed execution."""

    epoch: int
    """The number of redrives of the execution before that end."""
    handler: str
    """The playbook, the URL or the topic that is notified."""
    execution_id: NotRequired[str]
    """The execution that runs the handler."""
    error: NotRequired[str]
    """The reason why it cannot be started."""


class SearchAttributes(TypedDict):
    """The attributes by which lists find an execution."""

    attributes: dict[str, Any]
    """Texts, numbers and flags, by name."""
    left_out: NotRequired[dict[str, str] | None]
    """Attributes with an invalid value, and why."""


class Occurrence(TypedDict):
    """The occurrence of a schedule for which a child execution is started."""

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
    """The iteration that calls the child; the child reads it as `iter.parent`."""
    ctx: NotRequired[dict[str, Any]]
    detach: NotRequired[bool]
    """The child is independent once it has started."""
    idempotency_key: NotRequired[str]
    backfill: NotRequired[Occurrence]
    """The child's `trigger`."""
    return_step: NotRequired[str]
    """The caller gets the result of this step of the child."""


MailKind = Literal["timer", "timeout", "heartbeat", "pause", "deadline", "signal", "child"]


class Mail(TypedDict):
    """The message that ends a wait, such as a timer's end, a signal's data or a child's end."""

    wait_id: str
    kind: MailKind
    """`timeout`: no answer came in time; `heartbeat`: no heartbeat came in time."""
    data: NotRequired[Any]
    error: NotRequired[Failure]


class LoopPlan(TypedDict):
    """The division of a distributed loop into chunks."""

    total: int
    """Items of the collection."""
    chunk_size: int
    chunks: int
    window: int
    """The most chunks that are open at the same time."""
    per_chunk: int
    """The most concurrent iterations within a chunk."""
    checksum: NotRequired[str]
    """The checksum of all slices of the collection."""
    tolerated: NotRequired[int]
    """The number of iterations that may fail without failing the loop."""
    view: NotRequired[str]
    """The key of the object that holds the data for the templates of the iterations."""
    slices: NotRequired[str]
    """The run whose slices a redriven loop uses."""
    first: NotRequired[int]
    """Items of the first chunk, if the step run of the loop carried them out itself before it handed over the others."""
    seconds: NotRequired[float]
    """Mean seconds of an iteration in the step run of the loop, before this run handed over the others. If the processor
    limited the iterations, `seconds` is the mean time from the end of one iteration to the end of the next."""
    claim: NotRequired[int]
    """The position, in the stream of the step run, of the claim by the worker that stored the slices. The key is left out if
    this worker was the first of the run."""


class LoopCommand(LoopPlan):
    """The loop in the command of a chunk: its plan, and its step run."""

    run: str


class ChunkOfLoop(LoopCommand):
    """The loop and chunk of a chunk run."""

    chunk: int


class ChunkDone(TypedDict):
    """A finished chunk, in the form in which the state stores it and a redrive takes it over."""

    run: str
    seq: int
    succeeded: int
    failed: int
    writes: NotRequired[bool]
    result: NotRequired[Any]
    innermost: NotRequired[Counts | None]


class Undoes(TypedDict):
    """The completed run that a compensation undoes, or the ended run whose outside work is stopped."""

    run: str
    at: ResultPointer | None
    loop: Counts | None
    stops: NotRequired[bool]
    """The run was ended while its outside work was in progress: only this work is stopped."""


class RunClaim(TypedDict):
    """The claim of a worker to a run, made in the commit that schedules it."""

    worker: str
    ask: str
    """The id of the worker's request; empty if the worker is in the process that decides."""
    until: int
    """The instant at which it lapses, in microseconds."""


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


class Selected(TypedDict):
    """An arc that fired."""

    arc: int
    step: str


class RequestKey(TypedDict):
    """The idempotency key of a request, and the fingerprint of its body."""

    key: str
    fingerprint: str


class Parent(TypedDict):
    """The execution that called another one."""

    execution_id: str
    run_id: NotRequired[str]
    """The run that made the call. Without this key, the parent is a label and grants no rights."""
    depth: NotRequired[str]
    detached: NotRequired[str]
    return_step: NotRequired[str]
    """The step whose result the caller wants."""


MAX_PRINCIPAL: Final = 200
"""The most characters of a principal."""


class By(TypedDict):
    """The caller of an operation, and the way by which the request came."""

    principal: str
    """An ARN, the name in a token, a user of this machine; for operations without a caller, the trigger or the parent
    execution."""
    source: str
    """`api`, `cli`, `console`, `playbook` (the parent), `hook`, `s3`, or the kind of another trigger, such as `schedule`."""


class Triggered(TypedDict):
    """The trigger of an execution. A kind of trigger may add its data."""

    kind: str
    """The kind of the trigger, such as `schedule`."""
    name: str
    """The name of the trigger in the playbook."""
    id: str
    """The occurrence, or the delivery."""
    scheduled_at: NotRequired[str]
    """The nominal start time."""
    previous_at: NotRequired[str]
    """The nominal start time of the previous occurrence."""


class TaskOutcome(TypedDict):
    """The envelope of a tool call's outcome. A kind of task may add a section of its own, such as `http`, `pg` or `py`."""

    status: Literal["ok", "error"]
    meta: dict[str, Any]
    """Attempt, duration, times, the end of the task's log."""
    result: NotRequired[Any]
    error: NotRequired[Failure]


class Blank(TypedDict):
    """An undefined name that counted as an empty text, an empty list, or null."""

    name: str
    """The name as the template has it; empty if a secret is part of it."""
    template: str


class DirectiveTaken(TypedDict):
    """The action of a pipeline after an outcome."""

    do: Literal["continue", "retry", "jump", "break", "fail"]
    to: NotRequired[str]
    """The target of a jump."""
    delay: NotRequired[float]
    """Seconds before the next attempt."""
    scope: NotRequired[Literal["loop"]]
    """The `break` ends the loop, not only the iteration."""
    matched: NotRequired[int | str | None]
    """The rule of the policy that matched: its index, `else`, or null for none."""


class Signal(TypedDict):
    """A signal in the mailbox: received and not matched to a wait yet."""

    id: str
    name: str
    data: Any
    error: NotRequired[Failure]


class CommandContext(TypedDict):
    """The data that the templates of a run see, in its command; results are pointers."""

    workload: dict[str, Any]
    ctx: dict[str, Any]
    args: dict[str, Any]
    steps: dict[str, StepSeen]
    trace_id: NotRequired[str]
    trigger: NotRequired[Triggered]
    strict: NotRequired[bool]


class StepSeen(TypedDict):
    """A finished step, in commands."""

    status: str | None
    at: ResultPointer | None
    loop: Counts | None


class Authored(TypedDict):
    """The origin of a task that was compiled from sugar."""

    label: str
    line: int | None


OPEN: frozenset[type] = frozenset({Failure, TaskOutcome, Triggered})
"""Shapes that may have keys besides the declared ones."""
