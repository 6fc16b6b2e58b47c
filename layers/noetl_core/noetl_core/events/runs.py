"""Payloads of run streams: the work of a worker on one step run or chunk. A boundary ends the worker's part of the run.

`path` is the indexes of the iteration, outermost loop first; it is omitted outside loops.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from noetl_core.events.aggregates import Aggregates
from noetl_core.events.shapes import Authored, Blank, Counts, DirectiveTaken, Failure, LoopPlan, Mail, TaskOutcome, Wait
from noetl_core.events.typed import TypedDict

# --- activations --------------------------------------------------------------------------------------------------------


class StepStarted(TypedDict):
    """A worker claimed the run."""

    step: str
    as_of: int
    """The run sees ctx as it was at this position of the control stream."""
    worker: str
    chunk: NotRequired[int]
    takeover: NotRequired[int]
    """The number of workers that this run has lost so far."""
    asked: NotRequired[bool]
    """A person asked for the takeover."""
    goes_on: NotRequired[str]
    """The earlier run whose finished tasks and iterations are not run again."""


class StepResumed(TypedDict):
    """A worker claimed the run after a suspension."""

    step: str
    as_of: int
    worker: str
    mail: list[Mail]
    chunk: NotRequired[int]


class StepReleased(TypedDict):
    """The worker's process shut down: another worker may continue at once."""

    reason: str


class StepSuspended(TypedDict):
    """Boundary: the run waits and occupies no worker; or it hands its loop over to be distributed."""

    waits: list[Wait]
    loop: NotRequired[LoopPlan]
    succeeded: NotRequired[int]
    """The number of iterations that succeeded. This key and the next five are about the iterations that the run carried out
    before it handed over the others."""
    failed: NotRequired[int]
    innermost: NotRequired[Counts]
    result: NotRequired[Any]
    """Results in index order, or a reference to them."""
    ctx_writes: NotRequired[list[tuple[int, dict[str, Any]]]]
    aggregates: NotRequired[Aggregates]
    sealed: NotRequired[str]
    """The encrypted secrets of unfinished passes through the pipeline."""
    events: NotRequired[int]


class StepDone(TypedDict):
    """Boundary: the pipeline succeeded."""

    result: Any
    set_ctx: NotRequired[dict[str, Any]]
    events: NotRequired[int]
    aggregates: NotRequired[Aggregates]


class StepFailed(TypedDict):
    """Boundary: the pipeline failed, the loop could not begin, or the control plane ended the run."""

    error: Failure
    set_ctx: NotRequired[dict[str, Any]]
    source: NotRequired[Literal["server"]]
    """`server` if the control plane wrote the event."""
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
    """Items of the outermost loop, if loops are nested."""
    innermost: NotRequired[Counts]
    """The counts of a chunk's innermost loop."""
    first: NotRequired[int]
    """Index of the chunk's first item."""
    count: NotRequired[int]
    broke: NotRequired[bool]
    ctx_writes: NotRequired[list[tuple[int, dict[str, Any]]]]
    """The ctx writes of a chunk's iterations, by index; a pair is a list of two in JSON."""
    set_ctx: NotRequired[dict[str, Any]]
    error: NotRequired[Failure]
    events: NotRequired[int]
    aggregates: NotRequired[Aggregates]


# --- tasks --------------------------------------------------------------------------------------------------------------


class TaskStarted(TypedDict):
    """A task has started. The log has this event only if the task takes long; envelopes show it before every task."""

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
    """The failed attempt."""
    delay: float
    """Seconds before the next attempt."""
    path: NotRequired[list[int]]
    error: NotRequired[Failure]


class TaskProcessed(TypedDict):
    """A task has an outcome, for which its policy has chosen a directive."""

    task: str
    run: str
    visit: int
    """The number of times that the pipeline has reached this task in the run, from 1."""
    attempt: int
    outcome: TaskOutcome
    directive: DirectiveTaken
    started: NotRequired[int]
    """The instant at which the attempt began, in microseconds, unless a `TaskStarted` has recorded it."""
    path: NotRequired[list[int]]
    authored: NotRequired[Authored]
    set_iter: NotRequired[dict[str, Any]]
    set_ctx: NotRequired[dict[str, Any]]
    prev: NotRequired[Any]
    """The value to which the policy set `_prev`."""
    error: NotRequired[Failure]
    """The error with which the pipeline fails, if it differs from the outcome's."""
    undefined: NotRequired[list[Blank]]
    """The undefined names in texts of the task; they counted as empty."""
    masked: NotRequired[bool]
    """The secrets of the event are masked."""


# --- loops --------------------------------------------------------------------------------------------------------------


class LoopCollected(TypedDict):
    """The collection of a loop was rendered; it is never rendered again."""

    total: int
    items: Any
    """The list, or a reference to it."""
    path: NotRequired[list[int]]


class LoopFrameClaimed(TypedDict):
    """A cursor loop claimed a frame of rows, which become iterations. A frame without rows ends the loop."""

    run: str
    """The run that claimed the frame. A redriven run takes over the frames that earlier runs claimed."""
    frame: int
    """The number of the frame in that run, from 0."""
    claim: str
    """The id of the claim at the source."""
    failed: str
    """The id that marks rows that failed in this run."""
    first: int
    """Index of its first row."""
    keys: list[str]
    """The keys of its rows, in the order of their iterations."""
    rows: NotRequired[Any]
    """The rows, or a reference to them."""
    handles: NotRequired[Any]
    """The data that the source needs, besides the key, to settle a row: a list with one entry for each row, or a
    reference to this list."""
    key_type: NotRequired[str]
    """The type of the keys in the source."""
    repeated: NotRequired[int]
    """The number of claimed rows that this loop had done in earlier frames; they were settled and not run again."""


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
    """The counts of its inner loop."""
    set_ctx: NotRequired[dict[str, Any]]
    broke: NotRequired[bool]
    masked: NotRequired[bool]
    """The secrets of the event are masked."""
