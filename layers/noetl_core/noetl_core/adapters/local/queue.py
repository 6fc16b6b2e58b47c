"""Commands and wakes in memory: delivered at least once, with visibility timeouts, like the SQS queues they replace."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence

from noetl_core.engine.records import Command
from noetl_core.ports import Backlog, Clock, Waiting
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND


@frozen
class Delivery:
    """One message: a command, or a wake (`command` None) of `execution_id`."""

    order: int
    execution_id: str
    command: Command | None = None


class LocalQueue:
    """`CommandQueue` in memory. A received message belongs to its receiver until it is put back. When the process ends, the
    queue is lost; the sweeper repairs that as it does for any lost message."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Delivery]] = []
        """A heap: when each message becomes visible, its order among messages of the same instant, and the message."""
        self._order: Iterator[int] = itertools.count()
        self.changed = threading.Condition()
        self.after_commit: Callable[[Callable[[], None]], None] = lambda call: call()
        """Calls a function when the transaction of its caller is committed (`Database.after_commit`): a command is received
        only when the commit that scheduled its run is in the store."""

    def send(self, commands: Sequence[Command], delay_s: int = 0) -> Sequence[Command]:
        self.after_commit(lambda: self._add([(command.execution_id, command) for command in commands], delay_s))
        return []

    def wake(self, *executions: str, delay_s: int = 0) -> None:
        self.after_commit(lambda: self._add([(execution_id, None) for execution_id in executions], delay_s))

    def _add(self, messages: Sequence[tuple[str, Command | None]], delay_s: int) -> None:
        at = self._clock.now() + delay_s * SECOND if delay_s else 0
        with self.changed:
            for execution_id, command in messages:
                self._push(at, Delivery(next(self._order), execution_id, command))
            self.changed.notify_all()

    def next_order(self) -> int:
        """Return an order between those of the messages sent so far and the later ones."""
        return next(self._order)

    def _push(self, at: int, delivery: Delivery) -> None:
        heapq.heappush(self._heap, (at, delivery.order, delivery))

    def depth(self, pool: str | None) -> int:
        with self.changed:
            return sum(1 for *_, d in self._heap if (None if d.command is None else d.command.pool) == pool)

    def backlog(self) -> Backlog:
        """Return the numbers of messages, without received ones. There are never dead letters."""
        with self.changed:
            now = self._clock.now()
            counts: dict[str, list[int]] = {"default": [0, 0], "": [0, 0]}
            for visible_at, _, d in self._heap:
                counts.setdefault(d.command.pool if d.command is not None else "", [0, 0])[visible_at > now] += 1
        waiting = {pool: Waiting(waiting=ready, delayed=late) for pool, (ready, late) in counts.items()}
        control = waiting.pop("")
        return Backlog(waiting, control, {})

    def receive(self) -> Delivery | None:
        """Return the next visible message, which then belongs to the caller; None when there is none."""
        with self.changed:
            if self._heap and self._heap[0][0] <= self._clock.now():
                return heapq.heappop(self._heap)[2]
            return None

    def put_back(self, delivery: Delivery, seconds: float) -> None:
        """Hide a received message for `seconds` and then make it visible again (ChangeMessageVisibility)."""
        with self.changed:
            self._push(self._clock.now() + int(seconds * SECOND), delivery)
            self.changed.notify_all()

    def next_at(self) -> int | None:
        """Return when the next message becomes visible (microseconds); None when the queue is empty."""
        with self.changed:
            return self._heap[0][0] if self._heap else None
