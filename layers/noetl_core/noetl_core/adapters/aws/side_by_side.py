"""Concurrent calls in threads, each with a time limit of its own, for the messages and executions of one invocation.

A call that takes too long never blocks the others: it is interrupted (`OutOfTime` is raised in it) at a safe point, and abandoned
if it does not end. What an abandoned call still writes is harmless, because commits are conditional.

An exception from another thread may arrive between any two bytecodes. That is safe with our own locks, which are taken by `with`
and implemented in C, but not in libraries: it could leave a connection pool locked for good. Calls are therefore not interrupted
within libraries, which have time limits of their own. A single call runs in the main thread, which cannot be abandoned: a signal
interrupts it anywhere, and the clients are created anew.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from noetl_core.adapters.aws.clients import forget_clients
from noetl_core.adapters.aws.invocation import OutOfTime, at_most

GRACE_S = 1.0
"""How long an interrupted call may take to end (seconds)."""
LIBRARIES = frozenset({"aws_lambda_powertools", "aws_xray_sdk", "botocore", "http", "logging", "queue", "threading", "urllib3"})
"""Packages whose locks an exception from another thread could leave locked."""
NAME = "noetl-side-by-side"
PULSE_S = 0.05
"""Interval of `pulse` while waiting for the calls (seconds)."""


@dataclass(slots=True)
class _Running:
    place: int
    thread: threading.Thread
    limit_s: float
    ends_at: float
    interrupted: bool = False


class _Calls:
    """The calls of one invocation: waiting, running and ended ones."""

    def __init__(self, calls: Sequence[Callable[[], object]], limit_s: Callable[[], float], interrupt: bool) -> None:
        self._calls, self._limit_s, self._interrupt = calls, limit_s, interrupt
        self._waiting = deque(range(len(calls)))
        self._running: dict[int, _Running] = {}
        self._lock = threading.Lock()
        self.ended = threading.Event()
        """Set when all have ended."""
        self.outcomes: dict[int, BaseException | None] = {}

    def work(self) -> bool:
        """Make calls until none waits. Returns whether this thread can be reused."""
        while (running := self._begin()) is not None:
            error: BaseException | None = None
            try:
                self._calls[running.place]()
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
                    running = _Running(place, threading.current_thread(), limit_s, time.monotonic() + limit_s)
                    self._running[place] = running
                    return running
                self._record(place, NotBegun("no time was left for it in this invocation"))
        return None

    def _record(self, place: int, error: BaseException | None) -> None:
        self.outcomes[place] = error
        if len(self.outcomes) == len(self._calls):
            self.ended.set()

    def _end(self, running: _Running, error: BaseException | None) -> bool:
        """Record the outcome of a call. Returns False if it was interrupted: the exception may arrive only now, so its thread
        ends."""
        with self._lock:
            if self._running.pop(running.place, None) is None:
                return False
            self._record(running.place, error)
            return not running.interrupted

    def interrupt_overdue(self) -> int:
        """Interrupt calls that take too long, and abandon those that do not end. Returns how many threads are lost by this."""
        now, lost = time.monotonic(), 0
        with self._lock:
            for running in list(self._running.values()):
                if now < running.ends_at:
                    continue
                if self._interrupt and not running.interrupted and _is_safe(running.thread):
                    running.interrupted = True
                    _raise_in(running.thread)
                    lost += 1
                if not self._interrupt or now >= running.ends_at + GRACE_S:
                    del self._running[running.place]
                    self._record(running.place, OutOfTime(f"it took longer than {running.limit_s:g} s"))
                    lost += not running.interrupted
        return lost


class _Threads:
    """Threads that the next invocation reuses."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[_Calls] = SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def join(self, calls: _Calls, threads: int) -> None:
        """Let this many threads work on `calls`."""
        with self._lock:
            new = max(0, threads - self._idle)
            self._idle = max(0, self._idle - threads)
        for _ in range(threads):
            self._asked.put(calls)
        for _ in range(new):
            threading.Thread(target=self._run, daemon=True, name=NAME).start()

    def _run(self) -> None:
        try:
            while self._asked.get().work():
                with self._lock:
                    self._idle += 1
        except OutOfTime:
            return  # interrupted when it had just ended: the interrupter has recorded its outcome


_threads = _Threads()


class NotBegun(OutOfTime):
    """No time was left for a call."""


def side_by_side(
    calls: Sequence[Callable[[], object]],
    at_once: int,
    limit_s: Callable[[], float],
    *,
    interrupt: bool = True,
    pulse: Callable[[], None] | None = None,
) -> list[BaseException | None]:
    """Make `calls`, `at_once` at a time, and return what each raised, in their order.

    `limit_s` returns the seconds that a call which begins now may take; without `interrupt`, a longer one is abandoned but not
    interrupted. A single call is made in this thread. `pulse` is called while none ends.
    """
    if not calls:
        return []
    if len(calls) == 1:
        return [_alone(calls[0], limit_s(), interrupt)]
    them = _Calls(calls, limit_s, interrupt)
    _threads.join(them, min(at_once, len(calls)))
    ended = 0
    while not them.ended.wait(PULSE_S):
        if lost := them.interrupt_overdue():
            _threads.join(them, lost)
        if pulse is not None and ended == len(them.outcomes):
            pulse()
        ended = len(them.outcomes)
    return [them.outcomes[place] for place in range(len(calls))]


def _alone(call: Callable[[], object], limit_s: float, interrupt: bool) -> BaseException | None:
    if limit_s <= 0:
        return NotBegun("no time was left for it in this invocation")
    try:
        with at_most(limit_s if interrupt else float("inf")):
            call()
    except OutOfTime as error:
        forget_clients()  # it may have been within a connection pool, which then stays locked
        return error
    except Exception as error:  # whatever it is, it is this call's
        return error
    return None


def _is_safe(thread: threading.Thread) -> bool:
    """Return whether a thread is in our own code and not in a library. This holds for a moment, while this thread has the GIL."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code is not _Calls.work.__code__:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in LIBRARIES:
            return False
        frame = frame.f_back
    return frame is not None


def _raise_in(thread: threading.Thread) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(OutOfTime))
