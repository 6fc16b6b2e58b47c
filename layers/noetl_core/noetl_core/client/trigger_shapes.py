"""What the API answers about triggers (see `shapes`)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # of `typing` pydantic takes them from Python 3.12 on


class LastOccurrence(TypedDict):
    """The occurrence that a schedule started last, and its execution."""

    scheduled_at: str
    execution_id: str


class Trigger(TypedDict):
    """What starts a playbook by itself. `source` says when; `starts`, which version, where it is another one; `deleted_at`, since
    when its playbook is deleted; `stopped`, why the engine has switched it off."""

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


class Firing(TypedDict):
    """What became of an occurrence, or of a delivery."""

    id: str
    at: str
    result: Literal["started", "skipped", "missed", "refused"]
    execution_id: NotRequired[str]
    reason: NotRequired[str]


class TriggerDetails(Trigger):
    """A trigger with its next occurrences, and what became of the last ones, newest first."""

    payload: dict[str, Any]
    upcoming: list[str]
    firings: list[Firing]


class Triggers(TypedDict):
    """The triggers, by path and name."""

    triggers: list[Trigger]


class Refused(TypedDict):
    """An occurrence, or a delivery, that could not start. `facts` is what came, as templates read it in `trigger`."""

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
    """What could not start, newest first."""

    refused: list[Refused]


class Forgotten(TypedDict):
    """What was deleted."""

    id: str
    deleted: bool
