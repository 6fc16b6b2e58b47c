"""What a suspended run waits for, as its `StepSuspended` lists it: when a wait is over by itself, and which signal answers it.

A wait is `{wait_id, kind, task, at?, ...}`; `kind` is `timer`, `signal`, `callback`, `child`, `pause` or `deadline`. A callback
by token has `callback` (its task run), and maybe `heartbeat` (seconds) with `beat_by`: until when it must be heard of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.instants import SECOND

BY_TOKEN = "callback:"
"""Signals whose names begin so are answers by token; nobody sends them by name."""


def callback_signal(task_run: str) -> str:
    """Name of the signal that an answer by token is in the mailbox."""
    return BY_TOKEN + task_run


def signal_name(wait: Mapping[str, Any]) -> str:
    """The signal that answers a wait of kind `signal` or `callback`."""
    return callback_signal(wait["callback"]) if "callback" in wait else str(wait.get("signal") or wait["wait_id"])


def due_at(wait: Mapping[str, Any]) -> int | None:
    """When a wait is over by itself (microseconds): its time, its timeout, or the silence after its last heartbeat."""
    times = [int(wait[key]) for key in ("at", "beat_by") if wait.get(key) is not None]
    return min(times, default=None)


def beat_by(seconds: float, now: int) -> int:
    """Until when a callback must be heard of again; a tenth (a second at most) is for the way and for pings taken as one."""
    return now + int((seconds + min(seconds / 10, 1.0)) * SECOND)


def beats_as_one(wait: Mapping[str, Any], now: int) -> bool:
    """Whether a ping comes so soon after the last that it says nothing new."""
    seconds = float(wait["heartbeat"])
    return bool(beat_by(seconds, now) - int(wait["beat_by"]) < min(seconds / 10, 1.0) * SECOND)
