"""Payloads of run streams: what a worker did for one step run or chunk; a boundary ends its part.

`path` is the iteration's indexes from the outermost loop in; it is left out outside loops.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from noetl_core.events.shapes import Aggregates, Authored, Counts, DirectiveTaken, Failure, LoopPlan, Mail, TaskOutcome, Wait
from noetl_core.events.typed import TypedDict

# --- activations --------------------------------------------------------------------------------------------------------


class StepStarted(TypedDict):
    """A worker claimed the run."""

    step: str
    as_of: int
    """The control position whose ctx the run sees."""
    worker: str
    chunk: NotRequired[int]
    takeover: NotRequired[int]
    """How many workers of this run were lost before."""
    asked: NotRequired[bool]
    """A person asked for the takeover."""
    goes_on: NotRequired[str]
    """The run whose finished tasks and iterations are not run again."""


class StepResumed(TypedDict):
    """A worker claimed the run after a suspension."""

    step: str
    as_of: int
    worker: str
    mail: list[Mail]
    chunk: NotRequired[int]


class StepReleased(TypedDict):
    """The worker's process ended in an orderly way: another worker may continue at once."""

    reason: str


class StepSuspended(TypedDict):
    """Boundary: the run waits and holds no worker; or it hands its loop over to be distributed."""

    waits: list[Wait]
    loop: NotRequired[LoopPlan]
    succeeded: NotRequired[int]
    """Of the iterations that the run carried out before it handed over the others; so are the five that follow."""
    failed: NotRequired[int]
    innermost: NotRequired[Counts]
    result: NotRequired[Any]
    """Results in index order, or a reference to them."""
    ctx_writes: NotRequired[list[tuple[int, dict[str, Any]]]]
    aggregates: NotRequired[Aggregates]
    sealed: NotRequired[str]
    """The secrets of unfinished passes, encrypted."""
    events: NotRequired[int]


class StepDone(TypedDict):
    """Boundary: the pipeline ended well."""

    result: Any
    set_ctx: NotRequired[dict[str, Any]]
    events: NotRequired[int]
    aggregates: NotRequired[Aggregates]


class StepFailed(TypedDict):
    """Boundary: the pipeline failed, the loop could not begin, or the control plane ended the run."""

    error: Failure
    set_ctx: NotRequired[dict[str, Any]]
    source: NotRequired[Literal["server"]]
    """The control plane wrote it."""
    events: NotRequired[int]
    aggregates: NotRequired[Aggregates]


class LoopChunkDone(TypedDict):
    """Boundary: the loop, or this chunk of it, is over."""

    total: int
    succeeded: int
    failed: int
    result: Any
    """Results in index order, or a reference to them."""
    items: NotRequired[int]
    """Of the outermost loop, where loops are nested."""
    innermost: NotRequired[Counts]
    """What a chunk's innermost loop counted."""
    first: NotRequired[int]
    """Index of the chunk's first item."""
    count: NotRequired[int]
    broke: NotRequired[bool]
    ctx_writes: NotRequired[list[tuple[int, dict[str, Any]]]]
    """What a chunk's iterations wrote to ctx, by index; a pair is a list of two in JSON."""
    set_ctx: NotRequired[dict[str, Any]]
    error: NotRequired[Failure]
    events: NotRequired[int]
    aggregates: NotRequired[Aggregates]


# --- tasks --------------------------------------------------------------------------------------------------------------


class TaskStarted(TypedDict):
    """A task has started that takes long. Envelopes show this event before every task."""

    task: str
    run: str
    """The task run: the idempotency key of this visit."""
    attempt: int
    path: NotRequired[list[int]]
    authored: NotRequired[Authored]


class TaskRetried(TypedDict):
    """The policy of the task retries it."""

    task: str
    run: str
    attempt: int
    """The attempt that failed."""
    delay: float
    """Seconds before the next one."""
    path: NotRequired[list[int]]
    error: NotRequired[Failure]


class TaskProcessed(TypedDict):
    """A task has its outcome, and the pipeline the directive that its policy took."""

    task: str
    run: str
    visit: int
    """How often the pipeline has reached this task in the run; it begins with 1."""
    attempt: int
    outcome: TaskOutcome
    directive: DirectiveTaken
    started: NotRequired[int]
    """When it began, unless a `TaskStarted` has recorded that."""
    path: NotRequired[list[int]]
    authored: NotRequired[Authored]
    set_iter: NotRequired[dict[str, Any]]
    set_ctx: NotRequired[dict[str, Any]]
    prev: NotRequired[Any]
    """The value to which the policy set `_prev`."""
    error: NotRequired[Failure]
    """The error with which the pipeline fails, where it is not the outcome's."""
    masked: NotRequired[bool]
    """The event does not show its secrets."""


# --- loops --------------------------------------------------------------------------------------------------------------


class LoopCollected(TypedDict):
    """The collection of a loop was rendered; it is never rendered again."""

    total: int
    items: Any
    """The list, or a reference to it."""
    path: NotRequired[list[int]]


class LoopFrameClaimed(TypedDict):
    """A cursor loop claimed a frame of rows, which are iterations from now on; without rows, the loop has found no more."""

    run: str
    """The run that claimed it: a redrive goes on with the frames of the runs before."""
    frame: int
    """Which one of that run it is, from 0."""
    claim: str
    """The id under which the source has the claim."""
    failed: str
    """What marks rows that failed in this run."""
    first: int
    """Index of its first row."""
    keys: list[str]
    """The keys of its rows, in the order of their iterations."""
    rows: NotRequired[Any]
    """The rows, or a reference to them."""
    handles: NotRequired[Any]
    """What else the source needs to settle them, by row; or a reference to it."""
    key_type: NotRequired[str]
    """The type of the keys in the source."""
    repeated: NotRequired[int]
    """Rows that came again, though this loop had done them: they were settled and not run."""


class LoopIterationStarted(TypedDict):
    """An iteration began."""

    path: list[int]


class LoopIterationCompleted(TypedDict):
    """An iteration has ended."""

    path: list[int]
    status: Literal["success", "error"]
    result: NotRequired[Any]
    error: NotRequired[Failure]
    loop: NotRequired[Counts]
    """What the loop inside of it counted."""
    set_ctx: NotRequired[dict[str, Any]]
    broke: NotRequired[bool]
    masked: NotRequired[bool]
    """The log hides secrets of it."""
