"""Stops long calls at their timeout or when they are cancelled, and names what was running then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall, ToolFailed

MAX_CHARS: Final = 100
"""Characters that a message about a timeout shows of what was running."""


def running(text: str) -> str:
    """Return ` in: SELECT ...` for a message about a timeout: the first line of what was running; empty without any."""
    first, *rest = text.strip().splitlines() or [""]
    line = first.rstrip()[:MAX_CHARS]
    return f" in: {line}{'…' if rest or line != first.rstrip() else ''}" if line else ""


@contextmanager
def noted_on_error(text: str) -> Iterator[None]:
    """Add `text` as a note to an exception of the block: what was running when it was raised."""
    try:
        yield
    except Exception as error:
        error.add_note(text)
        raise


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
