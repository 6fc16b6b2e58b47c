"""An event loop: calls that wait for sockets share the thread that drives it, however many they are.

A coroutine waits for a socket, for an instant, or for another thread, and for nothing else; `until` (monotonic seconds) limits
each wait. The loop belongs to no thread: whoever calls `turn` runs what has become ready, on his own thread. It is not asyncio's,
because there a connection belongs to one loop, and those of this process are used by whichever run needs them next.
"""

from __future__ import annotations

import math
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")
Ended = Callable[["LoopTask"], None]

MOST: Final = 512
"""Coroutines on their way at once: each may need a file, and a Lambda function may have 1,024 open."""
SLICE_S: Final = 0.5
"""How often a call that is waited for is asked whether it is still needed."""


class Stopped(Exception):
    """The call is no longer needed. Raised where the coroutine waits."""


@dataclass(slots=True)
class _Wait:
    """What a coroutine waits for: a socket to become ready for `events`, or (without one) a signal; at most until `until`."""

    sock: socket.socket | None
    events: int
    until: float

    def __await__(self) -> Generator[_Wait, bool, bool]:
        return (yield self)


class LoopTask:
    """A coroutine on its way. `result` is what it returned, `error` what it raised, once `done`."""

    __slots__ = ("_coroutine", "_ended", "done", "error", "result", "wait")

    def __init__(self, coroutine: Coroutine[_Wait, bool, Any], ended: Ended | None) -> None:
        self._coroutine, self._ended = coroutine, ended
        self.wait: _Wait | None = None
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def step(self, ready: bool, stop: Exception | None = None) -> _Wait | None:
        """Go on until the next wait, which is returned; None when the coroutine has ended. `ready` False: the time is up."""
        coroutine: Coroutine[Any, Any, Any] = self._coroutine
        try:
            if stop is not None:
                self.wait = coroutine.throw(stop)
            else:
                self.wait = coroutine.send(None if self.wait is None else ready)
            return self.wait
        except StopIteration as stopped:
            self.result = stopped.value
        except BaseException as error:  # whoever started the coroutine raises it
            self.error = error
        self.wait, self.done = None, True
        if self._ended is not None:
            self._ended(self)
        return None

    def close(self) -> None:
        """End a coroutine that goes on after it was stopped."""
        self._coroutine.close()


class Signal:
    """Wakes one coroutine from any thread. It may be set before it is waited for."""

    __slots__ = ("_is_set", "_lock", "_loop", "_task")

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._is_set = False
        self._task: LoopTask | None = None

    def set(self) -> None:
        """Wake the coroutine. Thread-safe."""
        with self._lock:
            self._is_set, task = True, self._task
        if task is not None:
            self._loop.wake(task)

    async def wait(self, until: float) -> bool:
        """Return whether the signal was set in time."""
        with self._lock:
            self._task = self._loop.running
        while not self._is_set:
            if not await _Wait(None, 0, until):
                return self._is_set
        return True


class EventLoop:
    """Runs coroutines whenever its owner calls `turn`. Only `wake` may be called from other threads."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._selector = selectors.DefaultSelector()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._selector.register(self._reader, selectors.EVENT_READ)
        self._woken: deque[LoopTask | None] = deque()
        self._tasks: set[LoopTask] = set()
        self._queue: deque[LoopTask] = deque()
        """What begins once fewer than `most` are on their way."""
        self._due = math.inf
        """No wait ends before (monotonic seconds)."""
        self.running: LoopTask | None = None
        """The task whose coroutine runs at this moment."""

    def __bool__(self) -> bool:
        """Return whether a coroutine is on its way, or is to begin."""
        return bool(self._tasks or self._queue)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- what coroutines wait for ---------------------------------------------------------------------------------------

    async def readable(self, sock: socket.socket, until: float) -> bool:
        """Return True once `sock` can be read, False when the time is up."""
        return await _Wait(sock, selectors.EVENT_READ, until)

    async def writable(self, sock: socket.socket, until: float) -> bool:
        """Return True once `sock` can be written, False when the time is up."""
        return await _Wait(sock, selectors.EVENT_WRITE, until)

    async def sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await _Wait(None, 0, until)

    # --- what the owner does --------------------------------------------------------------------------------------------

    def start(self, coroutine: Coroutine[_Wait, bool, Any], ended: Ended | None = None) -> LoopTask:
        """Run a coroutine to its first wait, once fewer than `most` are on their way. `ended` is called once with its task, by
        this method or a later one."""
        task = LoopTask(coroutine, ended)
        if len(self._tasks) < self._most:
            self._begin(task)
        else:
            self._queue.append(task)
        return task

    def turn(self, timeout: float) -> None:
        """Wait until something can go on, at most `timeout` seconds, and let everything go on that can.

        What has arrived counts before what is due: an answer that waits in a socket is no timeout, however late it is read.
        """
        left = min(timeout, max(0.0, self._due - time.monotonic())) if self._due < math.inf else timeout
        for key, _ in self._selector.select(left):
            if key.data is None:
                self._go_on_woken()
            elif (task := key.data).wait is not None:
                self._step(task, True)
        if time.monotonic() >= self._due:
            self._end_waits()
        while self._queue and len(self._tasks) < self._most:
            if not (task := self._queue.popleft()).done:
                self._begin(task)

    def run(self, coroutine: Coroutine[_Wait, bool, T], cancelled: threading.Event) -> T:
        """Run a coroutine to its end, on this thread; `Stopped` is raised in it once `cancelled` is set."""
        task = self.start(coroutine)
        while not task.done:
            self.turn(SLICE_S)
            if cancelled.is_set():
                self.stop(task)
        if task.error is not None:
            raise task.error
        result: T = task.result
        return result

    def stop(self, task: LoopTask) -> None:
        """Raise `Stopped` in a coroutine where it waits."""
        if not task.done:
            self._step(task, True, Stopped())

    def wake(self, task: LoopTask | None = None) -> None:
        """Let a coroutine go on that waits for a signal; without one, let `turn` return. Thread-safe."""
        self._woken.append(task)
        with suppress(OSError):  # full: it will wake anyway; closed: nobody waits
            self._writer.send(b"\0")

    def close(self) -> None:
        """Stop every coroutine."""
        for task in (*self._tasks, *self._queue):
            self.stop(task)
            task.close()
        self._selector.close()
        self._reader.close()
        self._writer.close()

    # --- turning --------------------------------------------------------------------------------------------------------

    def _begin(self, task: LoopTask) -> None:
        self._tasks.add(task)
        self._step(task, True)

    def _step(self, task: LoopTask, ready: bool, stop: Exception | None = None) -> None:
        before = task.wait
        if before is not None and before.sock is not None:
            self._selector.unregister(before.sock)
        outer, self.running = self.running, task
        try:
            wait = task.step(ready, stop)
        finally:
            self.running = outer
        if wait is None:
            self._tasks.discard(task)
            return
        if wait.sock is not None:
            self._selector.register(wait.sock, wait.events, task)
        self._due = min(self._due, wait.until)

    def _go_on_woken(self) -> None:
        with suppress(BlockingIOError):
            while self._reader.recv(4096):
                pass
        while self._woken:
            task = self._woken.popleft()
            if task is not None and task.wait is not None and task.wait.sock is None:
                self._step(task, True)

    def _end_waits(self) -> None:
        now = time.monotonic()
        self._due = math.inf
        for task in list(self._tasks):
            if task.wait is not None and task.wait.until <= now:
                self._step(task, False)
        self._due = min((task.wait.until for task in self._tasks if task.wait is not None), default=math.inf)
