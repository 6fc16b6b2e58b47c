"""The lease of one run: renewed while its tasks run, lost to a fence, given up when the gate says stop."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from noetl_core.engine.records import Command, StreamId
from noetl_core.events.event import new
from noetl_core.events.runs import TaskStarted
from noetl_core.ports import Clock, Gates, PortError, RunningOutput, RunningTask
from noetl_core.tools.base import ToolCall
from noetl_core.values.instants import SECOND, to_rfc3339
from noetl_core.worker.claiming.journal import FLUSH_EVERY_S, HEARTBEAT_S, Fenced, Journal
from noetl_core.worker.values.task_log import TaskLog

MOST_SHOWN = 20
"""The most running tasks whose output is shown: the newest."""


class Cancelled(Exception):
    """The gate says stop. The control plane decides how the run ends."""


@dataclass(slots=True, eq=False)
class StartedTask:
    """A started task. The lease heartbeat records `TaskStarted` if the task takes long. `cancelled` is the flag of its call."""

    data: TaskStarted
    since: int
    cancelled: threading.Event
    announced: bool = False
    step: str = ""
    log: TaskLog | None = None
    """Its output, if that may be shown while it runs."""


class RunLease:
    """The lease of a run that this process carries out, and its running tasks, which are cancelled when the run must stop.

    The runner's thread calls `check`; the lease heartbeat calls `renew_lease`; the shutdown of the process calls `leave`. The
    claim sets the journal.
    """

    def __init__(self, gates: Gates, clock: Clock, command: Command, output: RunningOutput | None = None) -> None:
        self._gates, self._clock = gates, clock
        self._output, self._published_sizes = output, dict[tuple[str, int], dict[str, int]]()
        self._execution_id, self._run_id = command.execution_id, command.run_id
        self._undoing = command.undoes is not None
        self.journal: Journal | None = None
        self.gate = "run"
        self.being_ended = False
        """True if the control plane is ending this run with a reason of its own. The worker then writes no boundary."""
        self.cancelled = threading.Event()
        self._fenced: Fenced | None = None
        self._started_tasks: set[StartedTask] = set()
        self._lock = threading.Lock()

    # --- tasks ----------------------------------------------------------------------------------------------------------

    def task_started(self, call: ToolCall, path: list[int], now: int) -> StartedTask:
        """Register a task that begins. The heartbeat records `TaskStarted` if the task takes long."""
        data: TaskStarted = {"task": call.task, "run": call.task_run_id, "attempt": call.attempt}
        if path:
            data["path"] = path
        log = call.log if self._output is not None and isinstance(call.log, TaskLog) and not call.log.hidden else None
        started_task = StartedTask(data, now, call.cancelled, step=call.step, log=log)
        with self._lock:
            self._started_tasks.add(started_task)
            if self.cancelled.is_set():
                started_task.cancelled.set()
        return started_task

    def task_ended(self, started_task: StartedTask) -> bool:
        """Unregister a task that has ended or was abandoned. Returns whether `TaskStarted` is recorded."""
        with self._lock:
            self._started_tasks.discard(started_task)
            return started_task.announced

    def stop(self) -> None:
        """Cancel every running call, because its outcome is no longer needed."""
        with self._lock:
            self.cancelled.set()
            for started_task in self._started_tasks:
                started_task.cancelled.set()

    # --- the gate and the fence -----------------------------------------------------------------------------------------

    def read_gate(self) -> None:
        """Read the gate: continue, pause or stop."""
        gate = self._gates.gate(self._execution_id)
        self.being_ended = self._run_id in gate.stopped_runs
        self.gate = "stop" if self.being_ended else gate.mode
        if self._undoing and gate.mode == "stop" and not self.being_ended:
            self.gate = "run"  # compensations run while the rest of the execution is stopped
        if self.gate == "stop":
            self.stop()

    def check(self) -> None:
        """Raise `Fenced` if the lease heartbeat was fenced, or `Cancelled` if the gate says stop."""
        if self._fenced is not None:
            raise self._fenced
        if self.gate == "stop":
            raise Cancelled(self._execution_id)

    def renew_lease(self) -> None:
        """Record tasks that take long, commit, and renew the lease. The heartbeat thread calls this about twice a second."""
        journal, now = self.journal, self._clock.now()
        if journal is None:
            return
        try:
            with self._lock:
                for started_task in self._started_tasks:
                    if not started_task.announced and now - started_task.since >= FLUSH_EVERY_S * SECOND:
                        started_task.announced = True
                        journal.put(new(TaskStarted, started_task.since, **started_task.data))
            silent = now - journal.flushed_at
            wrote = journal.flush() if journal.due(now) else False
            if not wrote and silent >= HEARTBEAT_S * SECOND:
                wrote = journal.flush(heartbeat=True)
            if wrote:
                self.read_gate()
        except Fenced as fenced:
            self._fenced = fenced
            self.stop()
        except PortError:
            return  # the next heartbeat tries again; a lease that ends is taken over

    def show_output(self) -> None:
        """Publish the output that running tasks have written since the last call. The heartbeat thread calls this."""
        if self._output is None:
            return
        with self._lock:
            writing = [task for task in self._started_tasks if task.log]
        now = {(task.data["run"], task.data["attempt"]): task.log.written() for task in writing if task.log is not None}
        if now == self._published_sizes:
            return
        newest = sorted(writing, key=lambda task: task.since)[-MOST_SHOWN:]
        if self._output.show(StreamId(self._execution_id, self._run_id), [_running(task) for task in newest]):
            self._published_sizes = now

    def hide_output(self) -> None:
        """Withdraw the published output, because the log has it now."""
        if self._output is not None and self._published_sizes:
            self._output.show(StreamId(self._execution_id, self._run_id), [])

    def leave(self, reason: str) -> None:
        """Release the run. Raises `Fenced`, and port errors."""
        try:
            if self.journal is not None:
                self.journal.release(reason)
        finally:
            self._fenced = Fenced("the run was released")
            self.stop()


def _running(task: StartedTask) -> RunningTask:
    assert task.log is not None
    ends = task.log.ends()
    out: RunningTask = {
        "step": task.step,
        "task": task.data["task"],
        "task_run_id": task.data["run"],
        "attempt": task.data["attempt"],
        "started_at": to_rfc3339(task.since),
        "written": task.log.written(),
    }
    if "path" in task.data:
        out["iteration"] = task.data["path"]
    if "stdout" in ends:
        out["stdout"] = ends["stdout"]
    if "stderr" in ends:
        out["stderr"] = ends["stderr"]
    return out
