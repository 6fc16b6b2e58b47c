"""Concurrent calls in threads, each with a deadline of its own, for the messages and executions of one invocation.

A call that takes too long never blocks the others, nor the end of the invocation. It checks its deadline itself and raises
`OutOfTime`. A call that does not end in time, because it waits in a library or computes between two checks, is left behind: no
caller waits for it any more, and its thread ends with it. Its later writes are harmless, because commits are conditional.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

from noetl_core.ports import Deadline, OutOfTime

GRACE_S = 1.0
"""Seconds after its deadline before a call is left behind: the longest computation between two checks."""
NAME = "noetl-side-by-side"
PULSE_S = 0.05
"""Interval of `pulse` while waiting for the calls (seconds)."""

T = TypeVar("T")
Call = Callable[[Deadline], object]


class NotBegun(OutOfTime):
    """No time was left for a call."""


@dataclass(slots=True)
class _Running:
    place: int
    deadline: Deadline


class _Calls:
    """The calls of one invocation: waiting, running and ended ones."""

    def __init__(self, calls: Sequence[Call], limit_s: Callable[[], float], grace_s: float) -> None:
        self._calls, self._limit_s, self._grace_s = calls, limit_s, grace_s
        self._waiting = deque(range(len(calls)))
        self._running: dict[int, _Running] = {}
        self._lock = threading.Lock()
        self.ended = threading.Event()
        """Set when all have ended."""
        self.outcomes: dict[int, BaseException | None] = {}

    def work(self) -> bool:
        """Make calls until none waits. Return False if the last one was left behind: another thread has replaced this one."""
        while (running := self._begin()) is not None:
            error: BaseException | None = None
            try:
                self._calls[running.place](running.deadline)
            except BaseException as raised:  # the outcome of this call
                error = raised
            if not self._end(running, error):
                return False
        return True

    def _begin(self) -> _Running | None:
        with self._lock:
            while self._waiting:
                place, limit_s = self._waiting.popleft(), self._limit_s()
                if limit_s > 0:
                    running = _Running(place, Deadline.after(limit_s))
                    self._running[place] = running
                    return running
                self._record(place, NotBegun("no time was left for the call in this invocation"))
        return None

    def _record(self, place: int, error: BaseException | None) -> None:
        self.outcomes[place] = error
        if len(self.outcomes) == len(self._calls):
            self.ended.set()

    def _end(self, running: _Running, error: BaseException | None) -> bool:
        """Record the outcome of a call. Return False if it was left behind."""
        with self._lock:
            if self._running.pop(running.place, None) is None:
                return False
            self._record(running.place, error)
            return True

    def leave_overdue(self) -> int:
        """Leave behind the calls that go on after their deadlines. Return how many there are."""
        now = time.monotonic()
        with self._lock:
            overdue = [running for running in self._running.values() if now >= running.deadline.at_s + self._grace_s]
            for running in overdue:
                del self._running[running.place]
                self._record(running.place, OutOfTime(f"it took longer than {running.deadline.limit_s:g} s"))
        return len(overdue)


class _Threads:
    """Threads that the next invocation reuses."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Calls] = SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def join(self, calls: _Calls, threads: int) -> None:
        """Let this many threads work on `calls`."""
        with self._lock:
            new = max(0, threads - self._idle)
            self._idle = max(0, self._idle - threads)
        for _ in range(threads):
            self._queue.put(calls)
        for _ in range(new):
            threading.Thread(target=self._run, daemon=True, name=NAME).start()

    def _run(self) -> None:
        while self._queue.get().work():
            with self._lock:
                self._idle += 1


_threads = _Threads()


def side_by_side(
    calls: Sequence[Call],
    at_once: int,
    limit_s: Callable[[], float],
    *,
    grace_s: float | None = None,
    pulse: Callable[[], None] | None = None,
) -> list[BaseException | None]:
    """Make `calls`, `at_once` at a time, and return the exception of each, or None, in their order.

    `limit_s` returns the seconds that a call which begins now may take; the call gets them as a `Deadline`. It is left behind
    `grace_s` seconds after that (None: `GRACE_S`). `pulse` is called while none ends.
    """
    if not calls:
        return []
    them = _Calls(calls, limit_s, GRACE_S if grace_s is None else grace_s)
    _threads.join(them, min(at_once, len(calls)))
    ended = 0
    while not them.ended.wait(PULSE_S):
        if lost := them.leave_overdue():
            _threads.join(them, lost)
        if pulse is not None and ended == len(them.outcomes):
            pulse()
        ended = len(them.outcomes)
    return [them.outcomes[place] for place in range(len(calls))]


def in_time(call: Callable[[Deadline], T], seconds: float) -> T:
    """Make one call, and return its result or raise its error; `OutOfTime` when it takes more than `seconds`."""
    results: list[T] = []
    (error,) = side_by_side([lambda deadline: results.append(call(deadline))], 1, lambda: seconds)
    if error is not None:
        raise error
    return results[0]
