"""Answers for following executions: changes of one, and overviews of all (`shapes` has the others)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from noetl_core.api.shapes.catalog import PlaybookVersion
from noetl_core.api.shapes.executions import Decision, ExecutionStatus, Failure, LastRedrive, LoopCounts, Wait


class StepStanding(TypedDict):
    """The status of a step. `open` runs have not ended, `tokens` wait for the step, `parked` ones were denied. `arcs`:
    how often each was selected, by index. `status` is null until it has one."""

    status: str | None
    visits: int
    open: int
    tokens: int
    parked: int
    arcs: dict[str, int]
    loop: NotRequired[LoopCounts]


class Changes(TypedDict):
    """An execution now, and the events since a cursor. `count` counts the events of its history, `epoch` its redrives.
    `ended`: nothing more follows unless it is redriven. `more`: continue at once. `etag` is the tag of the answer."""

    execution_id: str
    status: ExecutionStatus
    ended: bool
    started_at: str
    finished_at: str | None
    duration_ms: int
    count: int
    error: Failure | None
    epoch: int
    steps: dict[str, StepStanding]
    events: list[dict[str, Any]]
    cursor: str
    more: bool
    etag: str
    redrive: NotRequired[LastRedrive]
    waiting_for: NotRequired[list[Wait]]
    reason: NotRequired[str]


class WaitingCallback(TypedDict):
    """A waiting callback of some execution. An answer must match `schema`."""

    execution_id: str
    playbook: PlaybookVersion
    started_at: str
    step: str
    wait_id: str
    task: str
    iteration: NotRequired[Any]
    description: NotRequired[Any]
    schema: NotRequired[Any]
    decision: NotRequired[Decision]
    heartbeat: NotRequired[float | None]
    until: NotRequired[str]


class WaitingCallbacks(TypedDict):
    """A page of waiting callbacks. It may be short, or empty, before the last one: a null `cursor` means that there are no
    more."""

    callbacks: list[WaitingCallback]
    cursor: str | None


class LedTo(TypedDict):
    """The outcome of an execution after an answer. `cost` is in US dollars."""

    execution_id: str
    status: ExecutionStatus
    duration_ms: int | None
    cost: float | None
    result: NotRequired[Any]
    error: NotRequired[str]


class PastAnswer(TypedDict):
    """Outcomes of an answer: the executions by their status, the medians of duration and cost, and the newest ones.

    `words` are those of the button, or name the answer.
    """

    answer: str
    words: str
    count: int
    statuses: dict[str, int]
    duration_ms: float | None
    cost: float | None
    newest: list[LedTo]


class PastAnswers(TypedDict):
    """Answers to a question in past executions of the playbook: `read` executions were read, `more` are kept."""

    path: str
    step: str
    task: str
    read: int
    more: bool
    answers: list[PastAnswer]


class StatusCounts(TypedDict):
    """Executions by status; of the running ones, `waiting` and `retrying` are counted separately."""

    running: int
    waiting: int
    retrying: int
    paused: int
    cancelling: int
    stuck: int
    completed: int
    failed: int
    cancelled: int


class PathStats(TypedDict):
    """Executions of one playbook, and when the newest began."""

    path: str
    counts: StatusCounts
    newest: str


class Stats(TypedDict):
    """Executions by status and by playbook: those that began since an instant.

    By default, all in progress, and the ended ones that began since then. `exact` false: a status has more executions than were
    counted, or more are running than were examined; those count as running.
    """

    since: str
    counts: StatusCounts
    paths: list[PathStats]
    exact: bool


class BatchError(TypedDict):
    """The reason why an operation was refused."""

    code: str
    message: str


class BatchEntry(TypedDict):
    """The outcome of an operation on one execution. `status` is the one after it, or the one before if nothing was done."""

    execution_id: str
    playbook: PlaybookVersion
    status: str
    outcome: Literal["would", "done", "refused"]
    error: NotRequired[BatchError]


class Batch(TypedDict):
    """A page of a batch. Repeat the request with `cursor` to continue; null: these were the last."""

    action: Literal["cancel", "pause", "resume", "redrive"]
    preview: bool
    executions: list[BatchEntry]
    cursor: str | None
