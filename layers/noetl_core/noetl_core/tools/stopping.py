"""When a call that takes long is to stop: its time is up, or nobody needs its outcome any more."""

from __future__ import annotations

import time
from collections.abc import Callable

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall, ToolFailed


def stopper(call: ToolCall) -> Callable[[], None]:
    """Return what raises `ToolFailed` once the call is cancelled or its time, which begins now, is up: to be called between the
    pieces of the work."""
    until = None if call.timeout_s is None else time.monotonic() + call.timeout_s

    def stop() -> None:
        if call.cancelled.is_set():
            raise ToolFailed(Outcome.failed("cancelled", f"{call.kind}: cancelled", retryable=False))
        if until is not None and time.monotonic() >= until:
            raise ToolFailed(Outcome.failed("timeout", f"{call.kind}: not done after {call.timeout_s:g} s"))

    return stop
