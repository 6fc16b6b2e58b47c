"""An event loop that runs any number of calls which wait for sockets on the thread of their driver.

It is an asyncio loop that the driver of a run turns between its other work. The loops belong to the process: a run takes one and
returns it with its connections, which the next run uses, on any thread. Only one thread at a time turns a loop; a forked process
inherits none.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

T = TypeVar("T")
Ended = Callable[["LoopTask"], None]
Stopped = asyncio.CancelledError
"""The call is no longer needed. Raised at an `await` of the coroutine."""

MOST: Final = 512
"""Maximum concurrent coroutines: each may need a file, and a Lambda function may have 1,024 open."""
SLICE_S: Final = 0.5
"""Seconds between two checks whether a call is still needed."""
STOP_S: Final = 1.0
"""Seconds that a coroutine may take to end after it is stopped."""


class Kept(Protocol):
    """State that an owner keeps on an asyncio loop between runs."""

    async def close(self) -> None: ...


def _runs_a_loop() -> bool:
    """Return whether this thread is in a coroutine of an asyncio loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class KeptLoop:
    """An asyncio loop, and the state that owners keep on it."""

    def __init__(self) -> None:
        self.aio = asyncio.SelectorEventLoop()
        self.kept: dict[object, Kept] = {}

    def turn(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for an event, or until the loop is stopped, and run ready callbacks."""
        handle = self.aio.call_later(timeout, self.aio.stop) if timeout > 0 else self.aio.call_soon(self.aio.stop)
        try:
            if _runs_a_loop():  # the driver of the run is called from a coroutine of an application
                self._turn_elsewhere()
            else:
                self.aio.run_forever()
        finally:
            handle.cancel()

    def _turn_elsewhere(self) -> None:
        """Turn on another thread, because a thread runs one asyncio loop at a time."""
        thread = threading.Thread(target=self.aio.run_forever, name="turn", daemon=True)
        thread.start()
        try:
            thread.join()
        except BaseException:  # Ctrl-C: the loop must be at rest before it is turned again
            self.aio.call_soon_threadsafe(self.aio.stop)
            thread.join()
            raise

    def close_kept(self, owner: object) -> None:
        """Close the state that `owner` keeps here."""
        kept = self.kept.pop(owner, None)
        if kept is not None:
            task = self.aio.create_task(kept.close())
            until = time.monotonic() + STOP_S
            while not task.done() and time.monotonic() < until:
                self.turn(0.01)
            self.turn(0)  # sockets are closed one turn after their connections

    def close(self) -> None:
        for owner in list(self.kept):
            self.close_kept(owner)
        self.aio.close()


_idle: list[KeptLoop] = []
_dropped: weakref.WeakSet[Any] = weakref.WeakSet()
"""Closed owners that may still have state on loops in use."""
_lock = threading.Lock()
_abandoned: list[KeptLoop] = []
"""Loops that are never closed: those inherited by a fork, whose sockets belong to the parent, and those with coroutines that
could not be stopped."""


def drop(owner: object) -> None:
    """Close the state that `owner` keeps on loops: at once on idle loops, on others when they are returned."""
    with _lock:
        loops, _idle[:] = list(_idle), []
        _dropped.add(owner)
    for loop in loops:
        loop.close_kept(owner)
    with _lock:
        _idle.extend(loops)


def _close_idle() -> None:
    with _lock:
        loops, _idle[:] = list(_idle), []
    for loop in loops:
        loop.close()


def _forked() -> None:
    global _lock
    _lock = threading.Lock()
    _abandoned.extend(_idle)
    _idle.clear()


atexit.register(_close_idle)
os.register_at_fork(after_in_child=_forked)


class LoopTask:
    """A running coroutine. Once `done`, `result` is its return value and `error` its exception."""

    __slots__ = ("_ended", "coroutine", "done", "error", "result", "task")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], ended: Ended | None) -> None:
        self.coroutine, self._ended = coroutine, ended
        self.task: asyncio.Task[Any] | None = None
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def end(self, result: Any, error: BaseException | None) -> None:
        self.result, self.error, self.done = result, error, True
        if self._ended is not None:
            self._ended(self)


class EventLoop:
    """Runs coroutines whenever its owner calls `turn`. Only `wake` may be called from other threads."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        with _lock:
            self._loop: KeptLoop | None = _idle.pop() if _idle else None
        self._loop = self._loop or KeptLoop()
        self._aio = self._loop.aio
        self._tasks: set[LoopTask] = set()
        self._queue: deque[LoopTask] = deque()
        """Coroutines that begin once fewer than `most` are running."""

    def __bool__(self) -> bool:
        """Return whether a coroutine is running, or waits to begin."""
        return bool(self._tasks or self._queue)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def kept(self, owner: object, make: Callable[[], Kept]) -> Kept:
        """Return the state that `owner` keeps on this loop, created at its first use. Called by coroutines that run on the
        loop."""
        assert self._loop is not None
        found = self._loop.kept.get(owner)
        if found is None:
            found = self._loop.kept[owner] = make()
        return found

    def start(self, coroutine: Coroutine[Any, Any, Any], ended: Ended | None = None) -> LoopTask:
        """Run a coroutine in the following turns, once fewer than `most` are running. `ended` is called once with its
        task."""
        task = LoopTask(coroutine, ended)
        if len(self._tasks) < self._most:
            self._begin(task)
        else:
            self._queue.append(task)
        return task

    def turn(self, timeout: float) -> None:
        """Run ready callbacks until a coroutine ends or `wake` is called, at most `timeout` seconds."""
        if self._loop is not None:
            self._loop.turn(timeout)

    def run(self, coroutine: Coroutine[Any, Any, T], cancelled: threading.Event) -> T:
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

    def stop(self, *tasks: LoopTask) -> None:
        """Raise `Stopped` in coroutines where they wait, and let them end."""
        for task in tasks:
            if task.task is not None:
                task.task.cancel()
            elif not task.done:  # it never began
                with suppress(ValueError):
                    self._queue.remove(task)
                task.coroutine.close()
                task.end(None, Stopped())
        until = time.monotonic() + STOP_S
        while not all(task.done for task in tasks) and time.monotonic() < until:
            self.turn(0)

    def wake(self) -> None:
        """Let `turn` return. Thread-safe."""
        with suppress(RuntimeError):  # closed: nobody waits
            self._aio.call_soon_threadsafe(self._aio.stop)

    def close(self) -> None:
        """Stop every coroutine, and return the asyncio loop."""
        queue = list(self._queue)
        self._queue.clear()
        self.stop(*self._tasks, *queue)
        loop, self._loop = self._loop, None
        if loop is None:
            return
        if self._tasks:
            _abandoned.append(loop)
            return
        while True:
            with _lock:
                dropped = [owner for owner in loop.kept if owner in _dropped]
                if not dropped:
                    _idle.append(loop)
                    return
            for owner in dropped:
                loop.close_kept(owner)

    def _begin(self, task: LoopTask) -> None:
        self._tasks.add(task)
        task.task = self._aio.create_task(task.coroutine)
        task.task.add_done_callback(lambda ended: self._end(task, ended))

    def _end(self, task: LoopTask, ended: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        while self._queue and len(self._tasks) < self._most:
            self._begin(self._queue.popleft())
        self._aio.stop()
        error = Stopped() if ended.cancelled() else ended.exception()
        task.end(ended.result() if error is None else None, error)
