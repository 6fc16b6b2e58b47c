"""The API's answers about the iterations of a step (`views` has the summary of a step)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from noetl_core.api.shapes.executions import Failure


class Iteration(TypedDict):
    """An iteration of the innermost loop of a step. `index` is its index in the outermost loop, `path` all indexes from the
    outermost loop in; `run` is the run whose stream contains it."""

    index: int
    path: list[int]
    run: str
    status: Literal["ok", "error", "running"]
    attempts: int
    started_at: NotRequired[str]
    ended_at: NotRequired[str]
    duration_ms: NotRequired[float]
    error: NotRequired[Failure]
    event_id: NotRequired[str]


class Iterations(TypedDict):
    """A page of the iterations of the newest run of a step, as they ended. It may be short before the last: `more`
    tells whether to continue with `cursor`."""

    execution_id: str
    step: str
    run: str | None
    total: int
    iterations: list[Iteration]
    cursor: str | None
    more: bool


class IterationTask(TypedDict):
    """An attempt of a task in an iteration, and the directive of its policy."""

    task: str
    attempt: int
    status: str
    directive: str
    event_id: str
    started_at: NotRequired[str]
    duration_ms: NotRequired[float]
    result: NotRequired[Any]
    error: NotRequired[Failure]
    stdout: NotRequired[str]
    stderr: NotRequired[str]


class IterationDetail(Iteration):
    """One iteration with its item, its result and the attempts of its tasks; `item` is omitted if it is no longer
    stored."""

    item: NotRequired[Any]
    result: NotRequired[Any]
    tasks: list[IterationTask]
