"""Gathers commands that are scheduled concurrently for many executions, to send them in full requests."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from noetl_core.adapters.aws.queue import BATCH
from noetl_core.engine.records import Command
from noetl_core.ports import Backlog, CommandQueue, PortError

log = logging.getLogger(__name__)


class GatheringQueue:
    """`CommandQueue` over `queue`. Within `gathering`, commands wait until a request of their pool is full. The commit that
    scheduled them is stored by then, so the sweeper sends them if this process dies. Thread-safe."""

    def __init__(self, queue: CommandQueue) -> None:
        self._queue = queue
        self._gathered: dict[str, list[Command]] | None = None
        self._unsent: Counter[str] = Counter()
        """Commands by execution, from when they are gathered until the queue has accepted them. None is lost silently when a
        thread is interrupted."""
        self._lock = Lock()

    @contextmanager
    def gathering(self) -> Iterator[set[str]]:
        """Gather commands in the block, and send the rest at its end. Yields the set of executions whose commands were not sent,
        which is complete after the block."""
        with self._lock:
            self._gathered, self._unsent = {}, Counter()
        unsent: set[str] = set()
        try:
            yield unsent
        finally:
            with self._lock:
                rest, self._gathered = self._taken(), None
            self._send(rest)
            unsent.update(execution_id for execution_id, count in self._unsent.items() if count > 0)

    def send(self, commands: Sequence[Command], delay_s: int = 0) -> Sequence[Command]:
        """Like `CommandQueue.send`; gathered commands do not count as unsent."""
        full = None if delay_s else self._put(commands)
        if full is None:
            return self._queue.send(commands, delay_s)
        self._send(full)
        return []

    def flush(self) -> None:
        """Send all gathered commands, in requests that need not be full."""
        with self._lock:
            rest = self._taken()
        self._send(rest)

    def _taken(self) -> list[Command]:
        gathered = self._gathered or {}
        rest = [command for mine in gathered.values() for command in mine]
        gathered.clear()
        return rest

    def _put(self, commands: Sequence[Command]) -> list[Command] | None:
        """Gather commands, and return those that fill requests; None if nothing is being gathered."""
        full: list[Command] = []
        with self._lock:
            if self._gathered is None:
                return None
            for command in commands:
                self._unsent[command.execution_id] += 1
                mine = self._gathered.setdefault(command.pool, [])
                mine.append(command)
                if len(mine) == BATCH:
                    full += mine
                    mine.clear()
        return full

    def _send(self, commands: Sequence[Command]) -> None:
        if not commands:
            return
        try:
            unsent = self._queue.send(commands)
        except PortError as error:
            log.warning("%d commands were not sent: %s", len(commands), error)
            return
        with self._lock:
            self._unsent.subtract(command.execution_id for command in commands)
            self._unsent.update(command.execution_id for command in unsent)

    def wake(self, *executions: str, delay_s: int = 0) -> None:
        self._queue.wake(*executions, delay_s=delay_s)

    def depth(self, pool: str | None) -> int:
        return self._queue.depth(pool)

    def backlog(self) -> Backlog:
        return self._queue.backlog()
