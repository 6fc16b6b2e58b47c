"""The API's answers about limits that executions share."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict


class LimitHolder(TypedDict):
    """A holder of a place in a limit, or a waiter: an execution, or a run of one of its steps."""

    execution_id: str
    holder: str
    since: NotRequired[str]
    displaced_by: NotRequired[str]
    """The execution that displaced it: this one is about to end."""


class LimitInUse(TypedDict):
    """A limit on the number of concurrent runs. `max` is that of the last request."""

    key: str
    held: int
    max: int
    waiting: bool
    holders: NotRequired[list[LimitHolder]]
    waiters: NotRequired[list[LimitHolder]]
    more: NotRequired[bool]


class RateInUse(TypedDict):
    """A rate of tasks: nothing is reserved after `free_at`, `behind_s` seconds from now."""

    key: str
    per_second: float
    free_at: str
    behind_s: float


class Limits(TypedDict):
    """The limits that executions share."""

    limits: list[LimitInUse]
    rates: list[RateInUse]
