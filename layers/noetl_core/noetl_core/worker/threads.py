"""Threads that tools run on: daemons, because a tool that does not end must not keep the process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

Work = Callable[[], None]


class TaskThreads:
    """At most `most` threads, started when there is work and none is idle. `Work` does not raise."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._started = 0
        self._idle = threading.Semaphore(0)
        self._work: SimpleQueue[Work | None] = SimpleQueue()

    def submit(self, work: Work) -> None:
        self._work.put(work)
        if not self._idle.acquire(blocking=False) and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._run, name=f"task-{self._started}", daemon=True).start()

    def lose(self) -> None:
        """A thread is held by what does not end: another may take its place."""
        self._most += 1

    def close(self) -> None:
        """No more work: idle threads end at once, busy ones when they are done, what has not begun does not begin."""
        try:
            while True:
                self._work.get_nowait()
        except Empty:
            pass
        for _ in range(self._started):
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            self._idle.release()
