"""Tasks whose work another service does (`tools.base.OutsideTool`): recorded before it begins, polled, and stopped at its
timeout.

The run is suspended with a wait for the first poll before the work begins. The component that ends the run after that therefore
knows that work may be in progress outside, and has it stopped (`stop_run`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

from noetl_core.dsl.model import Task
from noetl_core.engine.outcome import Outcome
from noetl_core.events.shapes import OutsideWork
from noetl_core.tools.base import Outside, ToolCall
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import Activation
from noetl_core.worker.attempt import Inputs
from noetl_core.worker.run_tree import PipelinePass
from noetl_core.worker.tasks.tool_caller import ToolCaller
from noetl_core.worker.values.inputs import CannotBegin
from noetl_core.worker.waits.waiting_passes import WaitingPasses

LOOK_S: Final = 60.0
"""Seconds that one poll may take."""
AGAIN_S: Final = 30.0
"""Seconds until work is polled again after its tool did not answer in time, or could not stop it."""
STOPS: Final = 10
"""The most attempts to stop timed-out work."""


class OutsideTasks:
    """The outside work of one activation's tasks."""

    def __init__(self, activation: Activation, tool_caller: ToolCaller, waiting: WaitingPasses) -> None:
        self._activation, self._tool_caller, self._waiting = activation, tool_caller, waiting
        self._history = activation.claim.history
        self._called: dict[tuple[str, int], ToolCall] = {}
        """Calls that may have begun work that is still in progress, by task run and attempt."""

    def is_recorded(self, pass_: PipelinePass) -> bool:
        """Return whether the work of the pass's task is recorded."""
        return pass_.key in self._history.outside

    def next_call(self, pass_: PipelinePass, inputs: Inputs) -> ToolCall | None:
        """Return the tool call to make now; None if the pass first waits for the record to be written or for the next poll.
        Raises `CannotBegin`."""
        now = pass_.attempt.started
        wait = self._history.outside.get(pass_.key)
        if wait is None:
            work = self._planned(pass_, inputs, now)
            if inputs.timeout is not None:
                work["until"] = now + int(inputs.timeout * SECOND)
            self._wait(pass_, work, now)
            return None
        work = wait["outside"]
        if wait["at"] > now and wait["wait_id"] not in self._history.mail:
            self._waiting.wait_for(pass_, wait)
            return None
        call = self._tool_caller.prepare(pass_, replace(inputs, timeout=LOOK_S))
        call = self._called[pass_.key] = _with(call, work)
        return call

    def take_answer(self, pass_: PipelinePass, outcome: Outcome) -> Outcome | None:
        """Take the answer of a call. Return the outcome of the task, or None while the work is in progress and the pass waits for
        the next poll. Work is stopped at its timeout."""
        call, now = self._called[pass_.key], self._activation.clock.now()
        work = self._history.outside[pass_.key]["outside"].copy()
        if outcome.status != "outside":
            del self._called[pass_.key]
            return self._tool_caller.with_total_times(outcome, call, work["since"])
        work["kept"], work["looks"] = cast("dict[str, Any]", outcome.result), work["looks"] + 1
        look_at = now + int(outcome.meta["look_in_s"] * SECOND)
        if "until" in work and now >= work["until"]:
            stopped = self._tool_caller.stop(_with(call, work))
            work["stops"] = work.get("stops", 0) + 1
            if not should_stop_again(stopped) or work["stops"] >= STOPS:
                return self._tool_caller.with_total_times(_timed_out(pass_.task, stopped), call, work["since"])
            look_at = now + int(AGAIN_S * SECOND)
        elif "until" in work:
            look_at = min(look_at, work["until"])
        self._wait(pass_, work, look_at)
        return None

    def no_answer(self, pass_: PipelinePass) -> Outcome:
        """Return the answer for a call that timed out: the work may have begun, so it is polled again."""
        return Outcome.outside(self._history.outside[pass_.key]["outside"]["kept"], AGAIN_S)

    def stop_begun(self) -> None:
        """Stop work that calls of this activation may have begun after its run was ended, and so after `stop_run` looked for it.
        Failures are ignored: `stop_run` looks once more when the lease has expired."""
        for key, call in self._called.items():
            self._tool_caller.stop(_with(call, self._history.outside[key]["outside"]))

    def _planned(self, pass_: PipelinePass, inputs: Inputs, now: int) -> OutsideWork:
        """Return the record of work that has not begun. Raises `CannotBegin`."""
        loop, kind, (run, attempt) = self._activation.step.loop, pass_.task.kind, pass_.key
        if loop is not None and loop.cursor is not None:
            message = (
                f"a task of kind {kind} does its work outside, and the rows of a cursor would have to stay claimed"
                " meanwhile: collect them first (`set_ctx` with a reducer), and loop over them in the next step"
            )
            raise CannotBegin(Outcome.failed("unsupported", message, retryable=False))
        planned = self._tool_caller.plan(self._tool_caller.prepare(pass_, inputs))
        if planned.status != "outside":
            raise CannotBegin(planned)
        return {"run": run, "attempt": attempt, "kind": kind, "kept": dict(planned.result), "looks": 0, "since": now}

    def _wait(self, pass_: PipelinePass, work: OutsideWork, at: int) -> None:
        """Let a pass wait for the next poll. The run is always suspended, because the record must be in the log first."""
        wait_id = pass_.wait_id(f"look-{work['looks']}")
        wait = pass_.placed({"wait_id": wait_id, "kind": "timer", "at": at, "outside": work})
        self._history.waits[wait_id] = self._history.outside[pass_.key] = wait
        self._waiting.wait_for(pass_, wait)


def should_stop_again(stopped: Outcome) -> bool:
    """Return whether stopping failed and is worth another try."""
    return stopped.error is not None and stopped.error.as_dict().get("retryable") is True


def _with(call: ToolCall, work: OutsideWork) -> ToolCall:
    return replace(call, outside=Outside(work["kept"], work["looks"]))


def _timed_out(task: Task, stopped: Outcome) -> Outcome:
    message = f"{task.kind}: the work had not ended when the time of task {task.name} was up, and was stopped"
    if stopped.error is not None:
        message += f", but stopping failed: {stopped.error.message}"
    return Outcome.failed("timeout", message, retryable=False)
