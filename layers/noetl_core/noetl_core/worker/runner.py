"""Drives one activation of a run. One driver thread owns every pass; tools run on that thread, on its event loop, or on threads
of their own. While a tool occupies the driver thread, the lease heartbeat commits and reads the gate."""

from __future__ import annotations

from collections import deque

from noetl_core.engine.loops import SpreadRule, outermost_scope
from noetl_core.engine.pipelines.pipeline import Pipeline
from noetl_core.events.event import BoundaryEvent
from noetl_core.events.runs import StepDone, StepFailed
from noetl_core.events.shapes import Failure
from noetl_core.ports import RateLimits
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import Activation
from noetl_core.worker.claiming.run_lease import Cancelled
from noetl_core.worker.loops.runner import LoopRunner
from noetl_core.worker.pipeline_passes import PipelinePasses
from noetl_core.worker.run_tree import CtxLayer, PipelinePass
from noetl_core.worker.secrets.callback_tokens import CallbackTokens
from noetl_core.worker.task_runner import TaskRunner
from noetl_core.worker.tasks.running_attempts import RunningAttempts
from noetl_core.worker.tasks.tool_caller import ToolCaller
from noetl_core.worker.waits.waiting_passes import WaitingPasses

TICK_S = 0.5


class Runner:
    """Carries out an activation until its run ends or is suspended."""

    def __init__(
        self,
        activation: Activation,
        passes: PipelinePasses,
        caller: ToolCaller,
        tokens: CallbackTokens,
        rates: RateLimits | None,
        spread: SpreadRule | None,
    ) -> None:
        self._activation, self._passes = activation, passes
        self._clock, self._journal, self._lease = activation.clock, activation.claim.journal, activation.claim.lease
        self._ready: deque[PipelinePass] = deque()
        self._waiting = WaitingPasses(activation, passes)
        self._running = RunningAttempts(caller)
        self.tasks = TaskRunner(activation, passes, self._ready, self._waiting, self._running, caller, tokens, rates)
        self._loops = LoopRunner(activation, passes, self._ready, caller, spread)

    def run(self) -> BoundaryEvent:
        """Drive the run until it ends or is suspended. Raises `Fenced`, `Cancelled`, and port errors, after which the queue
        delivers the command again."""
        activation = self._activation
        try:
            self._begin()
            while activation.ended is None:
                self._watch()
                if self._waiting.wake_at is not None:
                    self._ready += self._waiting.take_woken(self._clock.now())
                if self._ready and not activation.halt and self._loops.may_share_commit():
                    self._advance(self._ready.popleft())
                elif self._loops.commit_is_due:
                    if not (self._running and self._loops.may_share_commit() and self._collect(wait=False)):
                        self._loops.commit_ended()
                elif not activation.halt and self.tasks.reserve_permits():
                    continue
                elif self._running:
                    self._collect()
                elif self._loops.resume_postponed():
                    continue
                elif not self._sleep():
                    self._loops.prolong_claims(self._waiting.latest)
                    self._waiting.suspend(self._ready)
            return activation.ended
        except Cancelled:
            self._loops.release_claims()
            raise
        finally:
            if self._running:
                self._lease.stop()  # nobody needs the outcomes of calls that still run
            self._running.close()

    def _begin(self) -> None:
        activation = self._activation
        ctx = CtxLayer(activation.view.ctx)
        outer = outermost_scope(activation.view.workload)
        if activation.step.loop is None:
            self._ready.append(self._passes.begin(Pipeline(activation.step_run, ()), ctx, None, outer))
        else:
            self._loops.begin(activation.step.loop, ctx, outer)

    def _watch(self) -> None:
        """Commit if it is time, read the gate, prolong claims and give up overdue calls. Called between tasks."""
        now = self._clock.now()
        if self._journal.due(now):
            self._journal.flush()
            self._lease.read_gate()
        self._lease.check()
        self._loops.prolong_claims()
        if self._lease.gate == "pause" and not self._loops.holds_claims:
            self._activation.halt = self._activation.halt or "pause"
        if self._running.overdue_at is not None and now >= self._running.overdue_at:
            self.tasks.give_up(now)

    def _sleep(self) -> bool:
        """Sleep until the next short wait is over. Returns False if there is none."""
        wake_at = self._waiting.wake_at
        if self._activation.halt or wake_at is None or not self._waiting.is_soon(wake_at):
            return False
        self._journal.flush()
        self._clock.sleep(max(0, wake_at - self._clock.now()) / SECOND)
        self._ready.append(self._waiting.take_next())
        return True

    def _collect(self, *, wait: bool = True) -> bool:
        """Take the answer of a call that runs elsewhere, or return after a short wait. Returns whether there was one."""
        now = self._clock.now()
        wake_at = None if self._activation.halt else self._waiting.wake_at
        pauses = [max(0.0, (at - now) / SECOND) for at in (self._running.overdue_at, wake_at) if at is not None]
        if (ended := self._running.next_ended(min([TICK_S, *pauses]) if wait else 0.0)) is None:
            return False
        self.tasks.end(*ended)
        return True

    def _advance(self, pass_: PipelinePass) -> None:
        """Carry out the tasks of a pass until it ends, or cannot go on at once."""
        while pass_.pipe.status == "running":
            if self._activation.halt:
                self._ready.append(pass_)
                return
            if not self.tasks.advance(pass_):
                return
            if pass_.pipe.status == "running":  # the end of a pass belongs in the same commit as its last task
                self._watch()
        self._finish(pass_)

    def _finish(self, pass_: PipelinePass) -> None:
        """End a pass, and with it its iteration or the run."""
        activation, pipe = self._activation, pass_.pipe
        error: Failure | None = None
        if pipe.status != "done":
            assert pipe.error is not None  # it says why
            error = pipe.error.copy()
        if pass_.parent is not None:
            self._loops.finish(pass_.parent, pass_.path, pass_.ctx, result=pipe.result, error=error, broke=pipe.broke_loop)
            return
        if error is None:
            done: StepDone = {"result": pipe.result}
            if pass_.ctx.writes:
                done["set_ctx"] = activation.written(pass_.ctx)
            activation.end(StepDone, **done)
        else:
            failed: StepFailed = {"error": error}
            if pass_.ctx.writes:
                failed["set_ctx"] = activation.written(pass_.ctx)
            activation.end(StepFailed, **failed)
