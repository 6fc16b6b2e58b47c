"""What those are answered who follow executions: changes of one, and what there is over all of them (`shapes` has the others)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from noetl_core.client.catalog_shapes import PlaybookVersion
from noetl_core.client.shapes import ExecutionStatus, Failure, LoopCounts, Wait


class StepStanding(TypedDict):
    """What a step stands at. `open` runs have not ended, `tokens` wait for the step, `parked` are those that were denied. `arcs`:
    how often each was selected, by its index. `status` is null where nothing says one yet."""

    status: str | None
    visits: int
    open: int
    tokens: int
    parked: int
    arcs: dict[str, int]
    loop: NotRequired[LoopCounts]


class Changes(TypedDict):
    """An execution now, and what has happened since a cursor. `count` counts the events of its history, `epoch` its redrives.
    `ended`: nothing more comes unless it is redriven. `more`: ask on at once. `etag` is the tag of the answer."""

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
    waiting_for: NotRequired[list[Wait]]
    reason: NotRequired[str]


class WaitingCallback(TypedDict):
    """A callback that waits, of some execution. `schema` is what an answer must conform to."""

    execution_id: str
    playbook: PlaybookVersion
    started_at: str
    step: str
    wait_id: str
    task: str
    iteration: NotRequired[Any]
    description: NotRequired[Any]
    schema: NotRequired[Any]
    heartbeat: NotRequired[float | None]
    until: NotRequired[str]


class WaitingCallbacks(TypedDict):
    """A page of callbacks that wait. It may be short, or empty, before the last: `cursor` null says that there are no more."""

    callbacks: list[WaitingCallback]
    cursor: str | None


class StatusCounts(TypedDict):
    """Executions by what they do: of those that run, `waiting` and `retrying` ones apart."""

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
    """Executions that began since an instant, by status and by playbook. `exact` false: there are more of a status than were
    counted, or more are running than were looked at; those count as running."""

    since: str
    counts: StatusCounts
    paths: list[PathStats]
    exact: bool


class BatchError(TypedDict):
    """Why an operation was refused."""

    code: str
    message: str


class BatchEntry(TypedDict):
    """What came of an operation on one execution. `status` is that after it, or before where nothing was done."""

    execution_id: str
    playbook: PlaybookVersion
    status: str
    outcome: Literal["would", "done", "refused"]
    error: NotRequired[BatchError]


class Batch(TypedDict):
    """A page of a batch. `cursor` goes on with the same request, null: these were the last."""

    action: Literal["cancel", "pause", "resume", "redrive"]
    preview: bool
    executions: list[BatchEntry]
    cursor: str | None
