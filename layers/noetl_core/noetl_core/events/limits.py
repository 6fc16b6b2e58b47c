"""Payloads of the control stream about places in limits that executions share (docs/limits.md)."""

from __future__ import annotations

from typing import Literal, NotRequired

from noetl_core.events.typed import TypedDict


class LimitRequested(TypedDict):
    """The execution, or a run of one of its steps, needs a place in a limit; it begins once it has one."""

    holder: str
    """The future holder of the place: `<execution id>`, or `<execution id>/<run id>`."""
    key: str
    max: int
    on_limit: Literal["wait", "skip", "cancel_oldest"]
    priority: NotRequired[float | None]
    step: NotRequired[str | None]
    token: NotRequired[str | None]
    """The token that becomes the run."""


class LimitGranted(TypedDict):
    """The requester got its place."""

    holder: str
    shared: NotRequired[str | None]
    """The place of its parent, which it shares."""


class LimitRefused(TypedDict):
    """The requester gets no place, and does not wait for one: it is skipped, or fails because it would have waited forever
    (`deadlock`), or because another one displaced it (`displaced`)."""

    holder: str
    reason: str
    deadlock: NotRequired[bool]
    displaced: NotRequired[bool]


class LimitReleased(TypedDict):
    """A run has ended and freed its place. The places that an execution frees at its end are not recorded."""

    holder: str
    key: str
