"""Attempts on threads of their own: begun, taken when they land, given up when they go on after their timeout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from noetl_core.dsl.model import Task
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.pipeline import SECOND
from noetl_core.tools.base import ToolCall
from noetl_core.worker.calls import Running
from noetl_core.worker.nodes import Leaf
from noetl_core.worker.threads import TaskThreads

POOL_THREADS = 64
GRACE_S = 1.0
"""A tool that keeps its timeout says so itself, and better; this long after it the worker stops waiting."""


@dataclass(slots=True, eq=False)
class Flight:
    """An attempt on a thread of its own. `until` (microseconds) is when it is given up, if ever."""

    leaf: Leaf
    task: Task
    call: ToolCall
    running: Running
    until: int | None

    outcome: Outcome | BaseException | None = None
    """What the tool gave or raised, once it has ended."""


class Flights:
    """The attempts of one activation that have not ended. One driver thread owns it; the tools run on others."""

    def __init__(self) -> None:
        self.overdue_at: int | None = None
        """None is to be given up before (microseconds)."""
        self._aloft: set[Flight] = set()
        self._landed: SimpleQueue[Flight] = SimpleQueue()
        self._threads: TaskThreads | None = None

    def __bool__(self) -> bool:
        return bool(self._aloft)

    def begin(
        self,
        leaf: Leaf,
        task: Task,
        call: ToolCall,
        running: Running,
        started: int,
        invoke: Callable[[ToolCall, Running], Outcome],
    ) -> None:
        until = None if call.timeout_s is None else started + int((call.timeout_s + GRACE_S) * SECOND)
        flight = Flight(leaf, task, call, running, until)
        if self._threads is None:
            self._threads = TaskThreads(POOL_THREADS)
        self._aloft.add(flight)
        if until is not None and (self.overdue_at is None or until < self.overdue_at):
            self.overdue_at = until

        def work() -> None:
            try:
                flight.outcome = invoke(flight.call, flight.running)
            except BaseException as error:  # the driver raises it: a task that vanished would be waited for, for ever
                flight.outcome = error
            self._landed.put(flight)

        self._threads.submit(work)

    def landed(self, timeout: float) -> tuple[Flight, Outcome] | None:
        """The next that has ended, waited for at most `timeout` seconds. Raises what its tool raised, which tools do not."""
        try:
            flight = self._landed.get(timeout=timeout)
        except Empty:
            return None
        if flight not in self._aloft:
            return None  # given up: what it brings now counts for nothing
        self._aloft.discard(flight)
        if isinstance(flight.outcome, BaseException):
            raise flight.outcome
        assert flight.outcome is not None
        return flight, flight.outcome

    def give_up(self, now: int) -> list[Flight]:
        """Those that go on after their timeout: they are told, left behind, and no longer waited for."""
        overdue = [f for f in self._aloft if f.until is not None and now >= f.until]
        for flight in overdue:
            self._aloft.discard(flight)
            flight.call.cancelled.set()
            if self._threads is not None:
                self._threads.lose()
        self.overdue_at = min((f.until for f in self._aloft if f.until is not None), default=None)
        return overdue

    def close(self) -> None:
        """Nothing more begins; what has not ended ends for nobody."""
        if self._threads is not None:
            self._threads.close()
