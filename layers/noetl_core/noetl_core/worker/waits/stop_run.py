"""Runs that stop the outside work of another run, which the control plane has ended.

The stream of the ended run lists this work: it was recorded before it began, and has no outcome. If stopping fails and may
succeed later, the stop run is suspended and tries again. If a worker held the ended run, it may still begin work after the stop;
the stop is therefore repeated when the lease of that worker has expired.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from noetl_core.engine import ids
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Command, StreamId
from noetl_core.events.event import BoundaryEvent, new
from noetl_core.events.runs import StepDone, StepFailed, StepSuspended
from noetl_core.events.shapes import Failure, Wait
from noetl_core.events.table import TERMINAL
from noetl_core.log.history import commits_of
from noetl_core.log.run_history import RunHistory, fold_run_history
from noetl_core.ports import Clock, EventStore
from noetl_core.tools.base import Outside, ToolCall
from noetl_core.tools.invoke import invoke_stop
from noetl_core.tools.registry import ToolRegistry
from noetl_core.values.instants import SECOND
from noetl_core.worker.waits.outside_work import LOOK_S, should_stop_again

STOP_ATTEMPTS: Final = 12
"""The most attempts to stop a run, over about two hours."""
FIRST_S: Final = 10
LONGEST_S: Final = 900
MARGIN_S: Final = 5
"""Seconds after the end of a worker's lease from which on it certainly begins nothing more."""


def was_ended(store: EventStore, stream: StreamId) -> bool:
    """Return whether the control plane has ended a run."""
    last = store.last(stream)
    if last is None or not last.events:
        return False
    data: Any = last.events[-1].data
    return last.events[-1].name in TERMINAL and data.get("source") == "server"


class StopRun:
    """Stops the outside work of an ended run."""

    def __init__(
        self, store: EventStore, tools: ToolRegistry, clock: Clock, command: Command, cancelled: threading.Event
    ) -> None:
        self._store, self._tools, self._clock = store, tools, clock
        self._command, self._cancelled = command, cancelled

    def carry_out(self, ended: str, history: RunHistory) -> BoundaryEvent:
        """Stop the work of the run `ended` and return the boundary with which this run ends or waits. `history` is this run's."""
        commits = list(commits_of(self._store, StreamId(self._command.execution_id, ended)))
        left = fold_run_history(commits)
        outcomes = [(wait["outside"]["run"], self._stop(wait)) for wait in left.outside.values()]
        failed = [outcome for _, outcome in outcomes if outcome.error is not None]
        now, attempts = self._clock.now(), len(history.waits) + 1
        may_begin_until = max((commit.lease_until for commit in commits[-2:-1]), default=0) + MARGIN_S * SECOND
        if any(map(should_stop_again, failed)) and attempts < STOP_ATTEMPTS:
            return self._again(now + min(FIRST_S << attempts, LONGEST_S) * SECOND, attempts)
        if left.outside and may_begin_until > now:
            return self._again(may_begin_until, attempts)
        if failed:
            return new(StepFailed, now, error=_error(failed[0], len(failed)))
        return new(StepDone, now, result={"stopped": [run for run, _ in outcomes]})

    def _stop(self, wait: Wait) -> Outcome:
        work, command = wait["outside"], self._command
        tool = self._tools.outside(work["kind"])
        if tool is None:
            return Outcome.failed("unsupported", f"kind {work['kind']} is not installed here", retryable=False)
        call = ToolCall(
            kind=work["kind"],
            inputs={},
            execution_id=command.execution_id,
            step=command.step,
            task=wait.get("task", ""),
            task_run_id=work["run"],
            attempt=work["attempt"],
            path=tuple(wait.get("iteration", ())),
            timeout_s=LOOK_S,
            cancelled=self._cancelled,
            outside=Outside(work["kept"], work["looks"]),
        )
        return invoke_stop(tool, call)

    def _again(self, at: int, attempts: int) -> BoundaryEvent:
        wait: Wait = {"wait_id": ids.wait_id(self._command.run_id, attempts, "stop"), "kind": "timer", "at": at}
        return new(StepSuspended, self._clock.now(), waits=[wait])


def _error(outcome: Outcome, count: int) -> Failure:
    assert outcome.error is not None
    more = f" (and {count - 1} others)" if count > 1 else ""
    return {
        **outcome.error.as_dict(),
        "message": f"the task's work outside may go on: {outcome.error.message}{more}",
        "retryable": False,
    }
