"""Data about many runs or iterations together, in boundaries and states (`engine.fold.aggregates` computes it)."""

from __future__ import annotations

from typing import Literal, NotRequired

from noetl_core.events.typed import TypedDict


class ErrorGroup(TypedDict):
    """Errors with the same kind, code, task and message; numbers in messages are ignored."""

    kind: str
    message: str
    """The message of the first error."""
    count: int
    code: NotRequired[int | str]
    task: NotRequired[str]
    first: NotRequired[list[int]]
    """Indexes of the first iteration that failed with it, outermost loop first."""


class Cells(TypedDict):
    """Totals of neighbouring iterations: cell `n` has the indexes from `n << bits` up to the next cell."""

    bits: int
    at: dict[str, list[int]]
    """Cell -> `[ended, failed, total_us, max_us]`."""


WarningCode = Literal["error_passed", "iteration_failed", "undefined"]


class WarningGroup(TypedDict):
    """Warnings with the same code, task and message; numbers in messages are ignored."""

    code: WarningCode
    """`error_passed`: a task failed and its policy continued. `iteration_failed`: an iteration failed, and its loop did not.
    `undefined`: an undefined name counted as empty."""
    message: str
    """The message of the first warning."""
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
    """The errors and anomalies that did not fail the execution."""

    count: int
    groups: list[WarningGroup]
    """The first groups."""


class Aggregates(TypedDict, total=False):
    """Totals of many runs or iterations, of bounded size (`engine.fold.aggregates`)."""

    items: int
    """The number of items in a loop's collection; it is given only while the loop is in progress."""
    us: dict[str, int]
    """Histogram of durations: key `n` counts those of at least 2**(n-1) and less than 2**n microseconds."""
    total_us: int
    max_us: int
    retries: int
    """Attempts of tasks that were followed by another attempt."""
    errors: list[ErrorGroup]
    """The most frequent first."""
    others: int
    """Failures of groups that are not listed."""
    failed: list[list[int]]
    """Ranges `[first, last, failed]` of indexes of the outermost loop: how many iterations failed in each."""
    cells: Cells
    """Cells of iterations, by index of the outermost loop."""
    warnings: Warnings
