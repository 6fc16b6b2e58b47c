"""The waits of a suspended run, as its `StepSuspended` lists them: when a wait ends by itself, and which signal answers it.

A wait is `{wait_id, kind, task, at?, ...}`; `kind` is `timer`, `signal`, `callback`, `child`, `pause` or `deadline`. A
callback by token has `callback`, its task run. With `heartbeat` (seconds) it also has `beat_by`: the next heartbeat must arrive
before that instant.
"""

from __future__ import annotations

from noetl_core.events.shapes import Wait
from noetl_core.values.instants import SECOND

BY_TOKEN = "callback:"
"""The prefix of signals that are answers by token. No caller can send these by name."""


def callback_signal(task_run: str) -> str:
    """Return the name of the signal as which an answer by token enters the mailbox."""
    return BY_TOKEN + task_run


def signal_name(wait: Wait) -> str:
    """Return the signal that answers a wait of kind `signal` or `callback`."""
    return callback_signal(wait["callback"]) if "callback" in wait else wait.get("signal") or wait["wait_id"]


def due_at(wait: Wait) -> int | None:
    """Return when a wait ends by itself (microseconds): at its time, at its timeout, or after its last heartbeat plus the
    allowed silence."""
    return min((at for at in (wait.get("at"), wait.get("beat_by")) if at is not None), default=None)


def beat_by(seconds: float, now: int) -> int:
    """Return the instant before which the next heartbeat of a callback must come. It adds a tenth of the interval (a second
    at most) for the time of transport and for heartbeats that are counted as one."""
    return now + int((seconds + min(seconds / 10, 1.0)) * SECOND)


def is_repeated_heartbeat(wait: Wait, now: int) -> bool:
    """Return whether a ping follows the last one so closely that it carries no new information."""
    seconds = wait["heartbeat"]
    return beat_by(seconds, now) - wait["beat_by"] < min(seconds / 10, 1.0) * SECOND
