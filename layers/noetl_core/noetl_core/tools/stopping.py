"""Stops long calls at their timeout or when they are cancelled."""

from __future__ import annotations

import time
from collections.abc import Callable

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall, ToolFailed


def stopper(call: ToolCall) -> Callable[[], None]:
    """Return a function to call between pieces of work: it raises `ToolFailed` once the call is cancelled or its timeout, counted
    from now, has passed."""
    until = None if call.timeout_s is None else time.monotonic() + call.timeout_s

    def stop() -> None:
        if call.cancelled.is_set():
            raise ToolFailed(Outcome.failed("cancelled", f"{call.kind}: cancelled", retryable=False))
        if until is not None and time.monotonic() >= until:
            raise ToolFailed(Outcome.failed("timeout", f"{call.kind}: not done after {call.timeout_s:g} s"))

    return stop
