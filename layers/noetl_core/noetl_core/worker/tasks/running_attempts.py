"""Attempts that block: they run on the event loop of the driver's thread, or on threads of their own. The runner starts them,
takes their outcomes, and abandons those that run past their timeout."""

from __future__ import annotations

from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.values.instants import SECOND
from noetl_core.worker.claiming.run_lease import StartedTask
from noetl_core.worker.run_tree import PipelinePass
from noetl_core.worker.tasks.threads import TaskThreads
from noetl_core.worker.tasks.tool_caller import ToolCaller

if TYPE_CHECKING:
    from noetl_core.tools.calls.event_loop import EventLoop, LoopTask

POOL_THREADS = 64
GRACE_S = 1.0
"""A tool that keeps its own timeout reports it better; the worker waits this much longer before it abandons the attempt."""


@dataclass(slots=True, eq=False)
class RunningAttempt:
    """A running attempt. At `until` (microseconds) it is abandoned; None means never."""

    pass_: PipelinePass
    call: ToolCall
    started_task: StartedTask
    until: int | None
    loop_task: LoopTask | None = None
    """Its task on the event loop; None if it runs on a thread."""
    outcome: Outcome | BaseException | None = None
    """The tool's return value or exception, once it has ended."""


class RunningAttempts:
    """The attempts of one activation that have not ended. Only the driver thread uses this object, and the event loop runs on it;
    tools that block run on other threads."""

    def __init__(self, caller: ToolCaller) -> None:
        self.overdue_at: int | None = None
        """The earliest time at which an attempt must be abandoned (microseconds)."""
        self._caller = caller
        self._running: set[RunningAttempt] = set()
        self._ended: SimpleQueue[RunningAttempt] = SimpleQueue()
        self._threads: TaskThreads | None = None
        self._loop: EventLoop | None = None

    def __bool__(self) -> bool:
        return bool(self._running)

    def begin(self, pass_: PipelinePass, call: ToolCall, started_task: StartedTask) -> None:
        until = None if call.timeout_s is None else started_task.since + int((call.timeout_s + GRACE_S) * SECOND)
        attempt = RunningAttempt(pass_, call, started_task, until)
        self._running.add(attempt)
        if until is not None and (self.overdue_at is None or until < self.overdue_at):
            self.overdue_at = until
        if self._caller.evented(call.kind):
            self._begin_evented(attempt)
        else:
            self._begin_threaded(attempt)

    def _begin_evented(self, attempt: RunningAttempt) -> None:
        if self._loop is None:
            from noetl_core.tools.calls.event_loop import EventLoop  # 30 ms: only kinds that wait for sockets

            self._loop = EventLoop()

        def ended(task: LoopTask) -> None:
            attempt.outcome = task.result if task.error is None else task.error
            self._ended.put(attempt)

        attempt.loop_task = self._loop.start(self._caller.answer(attempt.call, attempt.started_task, self._loop), ended)

    def _begin_threaded(self, attempt: RunningAttempt) -> None:
        if self._threads is None:
            self._threads = TaskThreads(POOL_THREADS)

        def work() -> None:
            try:
                attempt.outcome = self._caller.invoke(attempt.call, attempt.started_task)
            except BaseException as error:  # the driver raises it; otherwise it would wait forever
                attempt.outcome = error
            self._ended.put(attempt)
            if self._loop is not None:
                self._loop.wake()

        self._threads.submit(work)

    def next_ended(self, timeout: float) -> tuple[RunningAttempt, Outcome] | None:
        """Wait at most `timeout` seconds for the next attempt to end and return it with its outcome, or None. Raises the tool's
        exception; tools normally raise none."""
        if self._loop and self._ended.empty():
            self._loop.turn(timeout)
            timeout = 0.0
        try:
            attempt = self._ended.get(timeout=timeout) if timeout else self._ended.get_nowait()
        except Empty:
            return None
        if attempt not in self._running:
            return None  # abandoned: its outcome no longer counts
        self._running.discard(attempt)
        if isinstance(attempt.outcome, BaseException):
            raise attempt.outcome
        assert attempt.outcome is not None
        return attempt, attempt.outcome

    def give_up(self, now: int) -> list[RunningAttempt]:
        """Cancel and return the attempts that run past their timeout. Nobody waits for them any longer."""
        overdue = [a for a in self._running if a.until is not None and now >= a.until]
        for attempt in overdue:
            self._running.discard(attempt)
            attempt.call.cancelled.set()
            if attempt.loop_task is not None and self._loop is not None:
                self._loop.stop(attempt.loop_task)
            elif self._threads is not None:
                self._threads.lose()
        self.overdue_at = min((a.until for a in self._running if a.until is not None), default=None)
        return overdue

    def close(self) -> None:
        """Start no more attempts. Outcomes of attempts that still run are ignored."""
        if self._threads is not None:
            self._threads.close()
        if self._loop is not None:
            self._loop.close()
