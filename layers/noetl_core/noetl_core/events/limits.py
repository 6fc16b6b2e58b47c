"""These payloads of the control stream concern places in limits that executions share (docs/limits.md)."""

from __future__ import annotations

from typing import Literal, NotRequired

from noetl_core.events.typed import TypedDict


class LimitRequested(TypedDict):
    """The execution, or a run of one of its steps, needs a place in a limit, and begins once it has the place."""

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
    """The holder of the place that the requester shares, such as its parent, or the parent's run that calls it."""


class LimitRefused(TypedDict):
    """The requester gets no place and does not wait for one. It fails if it would have waited forever (`deadlock`), or if
    another requester displaced it (`displaced`); otherwise it is skipped."""

    holder: str
    reason: str
    deadlock: NotRequired[bool]
    displaced: NotRequired[bool]


class LimitReleased(TypedDict):
    """A run has ended and freed its place. The places that an execution frees at its end are not recorded."""

    holder: str
    key: str
