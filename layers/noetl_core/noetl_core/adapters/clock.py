"""The clock of the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial


class SystemClock:
    """`Clock` of the machine: UTC microseconds, real sleep, random nonces."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)

    def nonce(self) -> str:
        return os.urandom(8).hex()


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_elapsed = partial(time.clock_gettime_ns, _STEADY)
"""Returns the elapsed nanoseconds, including time in which the machine was suspended if the system counts it. A built-in
function, because every event and every wait reads the time."""


class SteadyClock(SystemClock):
    """A clock that starts with the machine's time and then only counts elapsed time.

    When the machine's clock is set, forwards or back, no lease, timer or timeout of a running process ends early or late, and
    no event is dated before an earlier one. `not_before` moves it forward to instants that a log has recorded: the machine's
    clock may have been set back since another process wrote them.
    """

    def __init__(self, wall: Callable[[], int] | None = None, elapsed: Callable[[], int] = _elapsed) -> None:
        self._elapsed = elapsed
        self._offset = (wall or super().now)() - elapsed() // 1000

    def now(self) -> int:
        return self._offset + self._elapsed() // 1000

    def not_before(self, instant: int) -> None:
        """Move the clock forward to `instant` (microseconds) if it is behind."""
        self._offset = max(self._offset, instant - self._elapsed() // 1000)
