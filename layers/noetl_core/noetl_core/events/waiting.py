"""Payloads of the control stream about what suspended runs wait for: timers, signals, children."""

from __future__ import annotations

from typing import Any, NotRequired

from noetl_core.events.shapes import By, ChildRequest, Failure, Mail, MailKind
from noetl_core.events.typed import TypedDict


class ResumeScheduled(TypedDict):
    """A wait of a suspended run is over; a command resumes the run."""

    run: str
    seq: int
    """The position in the run's stream at which the run continues."""
    mail: list[Mail]


class TimerFired(TypedDict):
    """The time of a wait is over."""

    run: str
    wait_id: str
    kind: MailKind


class SignalReceived(TypedDict):
    """A signal, an answer to a callback, or a heartbeat of a callback was recorded. It is matched to a wait now or later."""

    id: str
    name: str
    data: NotRequired[Any]
    error: NotRequired[Failure]
    heartbeat: NotRequired[bool]
    nonce: NotRequired[str]
    """The id that tells this answer apart from others at the same time."""
    by: NotRequired[By | str | None]
    """The sender. In older logs it is a text: the `nonce`."""


class SignalMatched(TypedDict):
    """A signal answers a wait."""

    run: str
    wait_id: str
    signal: str
    """Id of the signal."""
    data: NotRequired[Any]
    error: NotRequired[Failure | None]


class ChildRequested(TypedDict):
    """A run waits for a child execution, which is started after this commit."""

    child: str
    """Its execution id."""
    run: str
    wait_id: str
    request: ChildRequest


class ChildFinished(TypedDict):
    """A child has ended, or a detached one has started."""

    child: str
    status: str
    result: NotRequired[Any]
    error: NotRequired[Failure]
    execution_id: NotRequired[str]
