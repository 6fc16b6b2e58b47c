"""The machine's clock."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable


class SystemClock:
    """`Clock` of the machine: UTC microseconds, real sleep, random nonces."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)

    def nonce(self) -> str:
        return secrets.token_hex(8)


def _elapsed() -> int:
    """Microseconds that have passed, with those the machine was suspended where the system counts them."""
    return time.clock_gettime_ns(_STEADY) // 1000


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SteadyClock(SystemClock):
    """The machine's time as it was when the process began, and what has passed since: a machine whose clock is set, forwards or
    back, ends no lease, timer or timeout of a running process early or late, and no event is dated before the one it follows.

    `not_before` moves it on to what a log has seen: the clock may have been set back since another process wrote that.
    """

    def __init__(self, wall: Callable[[], int] | None = None, elapsed: Callable[[], int] = _elapsed) -> None:
        self._elapsed = elapsed
        self._offset = (wall or super().now)() - elapsed()

    def now(self) -> int:
        return self._offset + self._elapsed()

    def not_before(self, instant: int) -> None:
        """From here on it is `instant` (microseconds) or later."""
        self._offset = max(self._offset, instant - self._elapsed())
