"""The API's answers as typed dictionaries: routes return them, the OpenAPI document describes them, the client passes them on.

Keys are only added, never removed. A `NotRequired` key is omitted if it has no value.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic accepts those of `typing` only from Python 3.12 on

from noetl_core.api.shapes.catalog import PlaybookVersion
from noetl_core.api.shapes.service import By as By
from noetl_core.events.shapes import ExecutionStatus as ExecutionStatus
from noetl_core.events.shapes import ListedStatus as ListedStatus

# --- executions -------------------------------------------------------------------------------------------------------------


class Started(TypedDict):
    """An accepted execution. `created` is false if the same idempotency key had started it before."""

    execution_id: str
    status: ExecutionStatus
    playbook: PlaybookVersion
    created: bool
    warnings: list[str]


class Parent(TypedDict):
    """The execution that another one belongs to; for a child also the run that called it, and its nesting depth. Lists have the
    depth as text."""

    execution_id: str
    run_id: NotRequired[str]
    depth: NotRequired[int | str]
    detached: NotRequired[bool | str]


class Failure(TypedDict):
    """The failure of an execution."""

    kind: str
    message: str
    step: NotRequired[str | None]
    task: NotRequired[str | None]
    code: NotRequired[Any]
    retryable: NotRequired[bool | None]
    details: NotRequired[Any]
    not_undone: NotRequired[list[Any]]


class LoopCounts(TypedDict):
    """Iterations of a loop."""

    total: int
    succeeded: int
    failed: int


class StepSummary(TypedDict):
    """The status of a step: `ok`, `error`, `running` or `skipped`."""

    status: str
    runs: int
    result: Any
    loop: NotRequired[LoopCounts]


class Decision(TypedDict):
    """The one required boolean of an answer, and the words of the buttons for true and false."""

    key: str
    yes: str
    no: str


class Wait(TypedDict):
    """A wait of an execution."""

    kind: str
    wait_id: str
    signal: NotRequired[str | None]
    child: NotRequired[str | None]
    task: NotRequired[str | None]
    iteration: NotRequired[Any]
    description: NotRequired[str | None]
    until: NotRequired[str]
    limit: NotRequired[str]
    since: NotRequired[str]
    held: NotRequired[int]
    max: NotRequired[int]
    held_by: NotRequired[list[str]]
    position: NotRequired[int]
    step: NotRequired[str]
    schema: NotRequired[Any]
    """The schema of an answer."""
    decision: NotRequired[Decision]


class LastRedrive(TypedDict):
    """The newest redrive, and how long the execution has taken since then; null: it has not ended."""

    at: str
    duration_ms: int | None


class Execution(TypedDict):
    """An execution: its status, result, ctx, error and steps."""

    execution_id: str
    status: ExecutionStatus
    playbook: PlaybookVersion
    input: dict[str, Any]
    """Its workload, with the payload of its request."""
    result: Any
    ctx: dict[str, Any]
    error: Failure | None
    steps: dict[str, StepSummary]
    started_at: str
    finished_at: str | None
    duration_ms: int
    events: int
    redrive: NotRequired[LastRedrive]
    waiting_for: NotRequired[list[Wait]]
    reason: NotRequired[str]
    parent: NotRequired[Parent]
    trigger: NotRequired[Triggered]
    labels: NotRequired[dict[str, str]]
    priority: NotRequired[float]
    """The trace id of its request."""
    warnings: NotRequired[Warnings]
    """Errors that were tolerated, if there are any."""
    strict: NotRequired[bool]
    """True if undefined values in templates, and errors that no rule matches, are failures."""
    by: NotRequired[dict[Literal["start", "pause", "resume", "cancel", "redrive", "answer"], By]]
    """The starter, and the last author of each operation on it."""
    on_failure: NotRequired[Handled]
    search: NotRequired[dict[str, Any]]
    """Its search attributes."""
    search_left_out: NotRequired[dict[str, str]]
    """Values that could not be an attribute, with the reasons."""


class WarningGroup(TypedDict):
    """Warnings of a task with the same code and message; numbers in messages are ignored. `error_passed`: its policy continued
    after an error. `iteration_failed`: the loop did not fail with its iteration. `undefined`: an undefined name counted as
    empty."""

    code: Literal["error_passed", "iteration_failed", "undefined"]
    message: str
    count: int
    kind: NotRequired[str]
    """The kind of the error."""
    error_code: NotRequired[int | str]
    """The code of the error."""
    step: NotRequired[str]
    task: NotRequired[str]
    iteration: NotRequired[list[int]]
    """Indexes of the first iteration with this warning, outermost loop first."""


class Warnings(TypedDict):
    """The number of warnings of an execution, and the first of them by groups."""

    count: int
    groups: list[WarningGroup]


class Handled(TypedDict):
    """The outcome of a failure's handling: the handler's execution, or why that could not be started."""

    epoch: int
    handler: str
    execution_id: NotRequired[str]
    error: NotRequired[str]


class Triggered(TypedDict):
    """The trigger that started an execution, as its templates read it in `trigger`."""

    kind: str
    name: str
    id: str
    scheduled_at: NotRequired[str]
    previous_at: NotRequired[str]
    event: NotRequired[Any]


class ListedExecution(TypedDict):
    """An execution as lists show it."""

    execution_id: str
    status: ListedStatus
    playbook: PlaybookVersion
    started_at: str
    finished_at: str | None
    duration_ms: int | None
    error: Failure | None
    parent: Parent | None
    trigger: TriggerName | None
    search: NotRequired[dict[str, Any]]
    """Its search attributes."""
    labels: dict[str, str]
    warnings: int
    """The number of its warnings."""
    redrive: NotRequired[LastRedrive]
    waiting_for: NotRequired[list[Wait]]
    """Its wait, or the first of several; kind `retry` is the next attempt of a task."""


class TriggerName(TypedDict):
    """The trigger that started an execution."""

    kind: str
    name: str


class Executions(TypedDict):
    """A page of executions; `cursor` continues after it, null: there are no more. `searched` counts the executions that were
    examined for it."""

    executions: list[ListedExecution]
    cursor: str | None
    searched: int


class Event(TypedDict):
    """An event of a history. `data` depends on `name`."""

    event_id: str
    execution_id: str
    timestamp: str
    source: Literal["server", "worker"]
    name: str
    event_type: str
    entity: Literal["playbook", "workflow", "step", "task", "loop", "next"]
    entity_id: str
    status: Literal["in_progress", "success", "error", "paused"]
    data: dict[str, Any]
    step: NotRequired[str]
    step_run_id: NotRequired[str]
    task: NotRequired[str]
    task_run_id: NotRequired[str]
    iteration: NotRequired[Any]
    attempt: NotRequired[int]
    parent_id: NotRequired[str]
    trace_id: NotRequired[str]


class Events(TypedDict):
    """A page of a history, in causal order. `more`: continue at once with `cursor`; `cursor` null: the execution has ended, and
    this was the last page. `back`: the preceding page ends `before` this event. `position`: the number of the first event, if
    it was requested by number."""

    events: list[Event]
    cursor: str | None
    more: bool
    back: str | None
    position: NotRequired[int]


class EventParts(TypedDict):
    """A page of a history like `Events`; each event has only the requested `fields`, if any."""

    events: list[Event | dict[str, Any]]
    cursor: str | None
    more: bool
    back: str | None
    position: NotRequired[int]


class TokenState(TypedDict):
    """A token on its way to a step."""

    token: str
    step: str
    args: dict[str, Any]
    parked: bool


class RunState(TypedDict):
    """An open run of a step."""

    run: str
    step: str
    status: str
    waits: list[dict[str, Any]]
    chunk: int | None


class StepState(TypedDict):
    """The number of runs of a step."""

    status: str | None
    runs: int
    visits: int


class RunProgress(TypedDict):
    """The progress of the run to which an event belongs. `partial`: `tasks` and `ctx` are those of its last events only."""

    run: str
    status: str
    tasks: dict[str, dict[str, Any]]
    ctx: dict[str, Any]
    iterations: int
    worker: NotRequired[str | None]
    waits: NotRequired[list[dict[str, Any]] | None]
    partial: NotRequired[bool]


class ExecutionState(TypedDict):
    """The state of an execution now or at an event; `run` if that is an event of a run."""

    execution_id: str
    status: ExecutionStatus
    ctx: dict[str, Any]
    tokens: list[TokenState]
    runs: list[RunState]
    steps: dict[str, StepState]
    run: NotRequired[RunProgress]


class Ctx(TypedDict):
    """ctx of an execution."""

    execution_id: str
    ctx: dict[str, Any]


class UndefinedName(TypedDict):
    """An undefined name, and the name that was probably meant."""

    name: str
    hint: str


class Rendered(TypedDict):
    """The value of a template; `undefined` are the names that it reads and that have no value."""

    value: Any
    undefined: NotRequired[list[UndefinedName]]


# --- operations -------------------------------------------------------------------------------------------------------------


class Operated(TypedDict):
    """The state of the execution after an operation."""

    execution_id: str
    status: ExecutionStatus


class RunAgain(TypedDict):
    """A run that a redrive reverts, and which parts of it run again."""

    step: str
    run: str
    tasks: NotRequired[list[str]]
    kept_tasks: NotRequired[list[str]]
    kept_visits: NotRequired[dict[str, int]]
    """The number of kept visits of each kept task that has several: `tasks` begins with the visit after them."""
    iterations: NotRequired[list[str]]
    kept_iterations: NotRequired[int]


class RedrivePlan(TypedDict):
    """The parts that a redrive runs again, and those it keeps."""

    epoch: int
    again: list[RunAgain]
    then: list[str]
    waiting: list[str]
    kept: list[str]
    ctx: dict[str, Any]


class Redriven(Operated):
    """An execution that was redriven, or would be."""

    redrive: RedrivePlan


class CallbackReply(TypedDict):
    """The effect of an answer or a heartbeat: it was delivered to the waiting task, is kept for it, had been recorded before, or
    was a heartbeat."""

    execution_id: str
    callback: Literal["answered", "early", "recorded", "alive"]


class OpenCallback(TypedDict):
    """A waiting callback, with the token that answers it."""

    step: str
    wait_id: str
    task: str
    token: str
    iteration: NotRequired[Any]
    description: NotRequired[str | None]
    schema: NotRequired[dict[str, Any] | None]
    decision: NotRequired[Decision]
    heartbeat: NotRequired[float | None]
    until: NotRequired[str]


class OpenCallbacks(TypedDict):
    """The waiting callbacks of one execution."""

    callbacks: list[OpenCallback]
