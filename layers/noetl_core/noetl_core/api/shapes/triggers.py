"""The API's answers about triggers (see `shapes`)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic accepts those of `typing` only from Python 3.12 on


class LastOccurrence(TypedDict):
    """The occurrence that a schedule started last, and its execution."""

    scheduled_at: str
    execution_id: str


class Trigger(TypedDict):
    """Starts a playbook automatically.

    `source` has its settings; `starts` is the version, if it is not the registered one; `deleted_at` the time since which its
    playbook has been deleted; `stopped` why the engine has disabled it; `unreached` why it can never fire.
    """

    path: str
    name: str
    kind: str
    version: int
    enabled: bool
    source: dict[str, Any]
    starts: NotRequired[int | str]
    deleted_at: NotRequired[str]
    next_at: NotRequired[str | None]
    last: NotRequired[LastOccurrence]
    waiting: NotRequired[list[str]]
    stopped: NotRequired[str]
    unreached: NotRequired[str]


class Firing(TypedDict):
    """The outcome of an occurrence, or of a delivery.

    `refused` is the id of a refused start, which is kept for two weeks, to be retried or deleted.
    """

    id: str
    at: str
    result: Literal["started", "skipped", "missed", "refused"]
    execution_id: NotRequired[str]
    reason: NotRequired[str]
    refused: NotRequired[str]


class StartedExecution(TypedDict):
    """The execution of an occurrence: its status, its start and its duration, so far if it is in progress."""

    status: str
    started_at: str
    duration_ms: int


class PastFiring(Firing):
    """The outcome of an occurrence, and what became of its execution."""

    execution: NotRequired[StartedExecution]


class TriggerDetails(Trigger):
    """A trigger with its next occurrences, and the outcome of the last ones, newest first."""

    payload: dict[str, Any]
    upcoming: list[str]
    firings: list[PastFiring]


class Triggers(TypedDict):
    """The triggers, by path and name."""

    triggers: list[Trigger]


class Refused(TypedDict):
    """An occurrence, or a delivery, that could not start. `facts` is its data, as templates read it in `trigger`."""

    id: str
    path: str
    trigger: str
    kind: str
    occurrence: str
    at: str
    code: str
    reason: str
    facts: dict[str, Any]


class RefusedDeliveries(TypedDict):
    """The refused occurrences and deliveries, newest first."""

    refused: list[Refused]


class Forgotten(TypedDict):
    """The deleted entry."""

    id: str
    deleted: bool
