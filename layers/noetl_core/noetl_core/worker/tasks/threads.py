"""Threads on which tools run. They are daemon threads, because a tool that does not end must not keep the process from
ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

Work = Callable[[], None]


class TaskThreads:
    """At most `most` threads. A thread is started when there is work and no thread is idle. `Work` does not raise."""

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
        """Allow one more thread, because a call that does not end occupies one."""
        self._most += 1

    def close(self) -> None:
        """Take no more work: idle threads end at once, busy threads end after their work, and waiting work is dropped."""
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
