"""Interrupts a call that blocks in a library, when its time is up or when it is cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

SLICE_S: Final = 0.1


@dataclass(slots=True)
class StopReason:
    """The reason why the call was interrupted; None if it was not."""

    why: Literal["timeout", "cancelled"] | None = None


@contextmanager
def watched(interrupt: Callable[[], object], timeout_s: float | None, cancelled: threading.Event) -> Iterator[StopReason]:
    """While the block runs: once the time is up or the call is cancelled, call `interrupt()` from another thread, every
    second."""
    stop, done = StopReason(), threading.Event()
    deadline = None if timeout_s is None else time.monotonic() + timeout_s

    def watch() -> None:
        while not done.wait(SLICE_S):
            if cancelled.is_set():
                stop.why = "cancelled"
            elif deadline is not None and time.monotonic() >= deadline:
                stop.why = "timeout"
            while stop.why is not None:
                interrupt()
                if done.wait(1):
                    return

    thread = threading.Thread(target=watch, name="noetl-watch", daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        done.set()
        thread.join()
