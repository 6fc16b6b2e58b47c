"""Virtual time: it passes only when everything sleeps, and then it jumps."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from noetl_core.adapters.clock import SteadyClock
from noetl_core.values.instants import SECOND

START: Final = 1_767_225_600 * SECOND
"""The instant at which a test begins unless it names one: 2026-01-01T00:00:00Z."""


class TestIsOver(BaseException):
    """Ends the work of a thread that still sleeps when its test is over. No error handler catches it."""

    __test__ = False


class VirtualClock(SteadyClock):
    """A clock that stands still until `advance`. Threads that sleep wait for it; one of them is awake at a time."""

    def __init__(self, start: int = START) -> None:
        self._now = start
        self._nonces = count(1)
        self.order: Iterator[int] = count()
        """Gives each sleeper its place among those of the same instant."""
        self._sleepers: list[tuple[int, int, threading.Event]] = []
        """A heap with the time of each sleeper, its order among those of the same instant, and the event that wakes it."""
        self._over = False
        self.changed = threading.Condition()

    def now(self) -> int:
        return self._now

    def nonce(self) -> str:
        return f"{next(self._nonces):016x}"

    def not_before(self, instant: int) -> None:
        self._now = max(self._now, instant)

    def advance(self, instant: int) -> None:
        """Move the clock forward to `instant` (microseconds) and wake the first sleeper whose time has come."""
        self.not_before(instant)
        with self.changed:
            if self._sleepers and self._sleepers[0][0] <= self._now:
                heapq.heappop(self._sleepers)[2].set()

    def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        awake = threading.Event()
        with self.changed:
            heapq.heappush(self._sleepers, (self._now + int(seconds * SECOND), next(self.order), awake))
            self.changed.notify_all()
        awake.wait()
        if self._over:
            raise TestIsOver

    def next_waking(self) -> int | None:
        """Return when the next sleeper wakes (microseconds); None if nobody sleeps."""
        with self.changed:
            return self._sleepers[0][0] if self._sleepers else None

    def settle(self, at_work: Callable[[], int]) -> None:
        """Wait until all of the threads that are `at_work` sleep."""
        with self.changed:
            while at_work() > len(self._sleepers):
                self.changed.wait()

    def close(self) -> None:
        """End the work of all sleepers."""
        with self.changed:
            self._over = True
            for _, _, awake in self._sleepers:
                awake.set()
            self._sleepers.clear()
