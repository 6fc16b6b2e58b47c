"""Data about many runs or iterations together, as boundaries and states hold it (`engine.aggregates` makes it)."""

from __future__ import annotations

from typing import NotRequired

from noetl_core.events.typed import TypedDict


class ErrorGroup(TypedDict):
    """Errors whose kind, code, task and message are the same; numbers in messages count as the same."""

    kind: str
    message: str
    """Of the first that was met."""
    count: int
    code: NotRequired[str | int]
    task: NotRequired[str]
    first: NotRequired[list[int]]
    """Indexes of the first iteration that failed with it, from the outermost loop in."""


class Cells(TypedDict):
    """What neighbouring iterations came to: cell `n` has those with indexes from `n << bits` on, up to the next cell."""

    bits: int
    at: dict[str, list[int]]
    """Cell -> `[ended, failed, total_us, max_us]`."""


class Aggregates(TypedDict, total=False):
    """What many runs or iterations came to, bounded however many they are (`engine.aggregates`)."""

    items: int
    """Of the collection, while its loop goes on."""
    us: dict[str, int]
    """How many took how long: under `n`, those that took less than 2**n and at least 2**(n-1) microseconds."""
    total_us: int
    max_us: int
    retries: int
    """Attempts of tasks that were followed by another one."""
    errors: list[ErrorGroup]
    """The most frequent first."""
    others: int
    """Failures of groups that are not listed."""
    failed: list[list[int]]
    """Ranges `[first, last, failed]` of indexes of the outermost loop: how many iterations failed in each."""
    cells: Cells
    """By index of the outermost loop."""
