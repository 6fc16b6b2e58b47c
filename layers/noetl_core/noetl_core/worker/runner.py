"""Driving one activation of a run: one driver thread owns every pass; tools run on it, on its event loop, or on threads of their
own. While one runs on it, the lease heartbeat commits, and reads the gate."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from noetl_core.dsl.model import Task
from noetl_core.engine.loops import outermost_scope
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.pipeline import Pipeline
from noetl_core.events.event import BoundaryEvent
from noetl_core.events.runs import StepDone, StepFailed
from noetl_core.events.shapes import Failure
from noetl_core.instants import SECOND
from noetl_core.worker.activation import Activation
from noetl_core.worker.inputs import Unloaded
from noetl_core.worker.loop_runner import LoopRunner
from noetl_core.worker.nodes import CtxLayer, PipelinePass
from noetl_core.worker.outcomes import Outcomes
from noetl_core.worker.pipeline_passes import PipelinePasses
from noetl_core.worker.rate_permits import RatePermits
from noetl_core.worker.run_lease import Cancelled
from noetl_core.worker.running_attempts import RunningAttempt, RunningAttempts
from noetl_core.worker.task_inputs import TaskInputs
from noetl_core.worker.tokens import CallbackTokens
from noetl_core.worker.tool_caller import MARGIN_S, ToolCaller
from noetl_core.worker.waiting import WAITING_KINDS
from noetl_core.worker.waiting_passes import SPARE_S, WaitingPasses

TICK_S = 0.5


class Runner:
    """Carries an activation out, until its run ends or suspends."""

    def __init__(self, activation: Activation, passes: PipelinePasses, tool_caller: ToolCaller, tokens: CallbackTokens) -> None:
        self._activation, self._passes, self._tool_caller = activation, passes, tool_caller
        self._clock, self._journal, self._lease = activation.clock, activation.journal, activation.lease
        self._inputs = TaskInputs(activation, passes, tokens)
        self._outcomes = Outcomes(activation, passes)
        self._waiting = WaitingPasses(activation, passes)
        self._attempts = RunningAttempts(tool_caller)
        self._permits = RatePermits(activation, self._inputs, self._waiting)
        self._ready: deque[PipelinePass] = deque()
        self._loops = LoopRunner(activation, passes, self._ready, tool_caller.for_loop)
        self._started_any = False

    # --- driving --------------------------------------------------------------------------------------------------------

    def run(self) -> BoundaryEvent:
        """Run until the run ends or suspends. Raises `Fenced`, `Cancelled`, and port errors, after which the queue delivers
        the command again."""
        activation = self._activation
        try:
            self._begin()
            while activation.ended is None:
                self._watch()
                if self._waiting.wake_at is not None:
                    self._ready += self._waiting.woken(self._clock.now())
                if self._ready and not activation.halt:
                    self._advance(self._ready.popleft())
                elif not activation.halt and self._permits.asked(self._clock.now()):
                    self._refuse(self._permits.take())
                elif self._attempts:
                    self._collect()
                elif self._loops.go_on():
                    continue
                elif not self._sleep():
                    self._loops.keep_claims(self._waiting.latest)
                    self._waiting.suspend(self._ready)
            return activation.ended
        except Cancelled:
            self._loops.let_go()
            raise
        finally:
            if self._attempts:
                self._lease.stop()  # what still runs runs for nobody
            self._attempts.close()

    def _begin(self) -> None:
        activation = self._activation
        ctx = CtxLayer(activation.view.ctx)
        outer = outermost_scope(activation.view.workload)
        if activation.step.loop is None:
            self._ready.append(self._passes.begin(Pipeline(activation.step_run, ()), ctx, None, outer))
        else:
            self._loops.begin(activation.step.loop, ctx, outer)

    def _watch(self) -> None:
        """Between tasks: commit what is due, and read the gate."""
        now = self._clock.now()
        if self._journal.due(now):
            self._journal.flush()
            self._lease.read_gate()
        self._lease.check()
        self._loops.keep_claims()
        if self._lease.gate == "pause" and not self._loops.holds_claims:
            self._activation.halt = self._activation.halt or "pause"
        if self._attempts.overdue_at is not None and now >= self._attempts.overdue_at:
            self._give_up(now)

    def _sleep(self) -> bool:
        """Sleep until the next short wait is over, when there is nothing else to do. Returns False when there is no short
        wait."""
        wake_at = self._waiting.wake_at
        if self._activation.halt or wake_at is None or not self._waiting.soon(wake_at):
            return False
        self._journal.flush()
        self._clock.sleep(max(0, wake_at - self._clock.now()) / SECOND)
        self._ready.append(self._waiting.next_woken())
        return True

    # --- attempts on threads of their own -------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Process one finished task, or return after a short wait."""
        now, until = self._clock.now(), self._attempts.overdue_at
        wake_at = self._waiting.wake_at
        if wake_at is not None and not self._activation.halt:
            until = wake_at if until is None else min(until, wake_at)
        pause = TICK_S if until is None else min(TICK_S, max(0.0, (until - now) / SECOND))
        if (ended := self._attempts.next_ended(pause)) is not None:
            self._end_attempt(*ended)

    def _end_attempt(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        started = self._lease.ended(attempt.started_task)
        if outcome.status == "unfinished":
            self._continue_later(attempt.pass_)
            return
        self._outcomes.take(attempt.pass_, attempt.task, outcome, started)
        self._ready.append(attempt.pass_)

    def _continue_later(self, pass_: PipelinePass) -> None:
        """Leave a task that has not finished to another invocation, which begins it as if it had never been begun."""
        self._activation.halt = self._activation.halt or "deadline"
        self._ready.append(pass_)

    def _give_up(self, now: int) -> None:
        """End the attempts that run on after their timeout: their tasks time out and their pipelines continue."""
        for attempt in self._attempts.give_up(now):
            message = f"{attempt.call.kind}: did not end within {attempt.call.timeout_s:g} s, and was left behind"
            timed_out = Outcome.failed("timeout", message)
            self._end_attempt(attempt, self._tool_caller.measured(timed_out, attempt.call, attempt.started_task))

    # --- passes over the pipeline ---------------------------------------------------------------------------------------

    def _advance(self, pass_: PipelinePass) -> None:
        """Run a pass until it ends, waits, or a tool on a thread of its own has it."""
        activation = self._activation
        while pass_.pipe.status == "running":
            if activation.halt:
                self._ready.append(pass_)
                return
            task = activation.step.tasks[pass_.pipe.pc]
            if pass_.pipe.visited >= activation.playbook.executor.limits.max_task_visits:
                self._limit(pass_, task)
                break
            if pass_.pipe.not_before and pass_.pipe.not_before > self._clock.now():
                self._waiting.retry_later(pass_)
                return
            if not self._run_task(pass_, task):
                return
            if pass_.pipe.status == "running":  # else the end belongs into the same commit as the last task
                self._watch()
        self._finish(pass_)

    def _limit(self, pass_: PipelinePass, task: Task) -> None:
        limit = self._activation.playbook.executor.limits.max_task_visits
        pass_.pipe.status = "failed"
        remedy = "if that is meant, raise executor.spec.policy.limits.max_task_visits"
        message = f"the pipeline visited its tasks {limit} times; {remedy}"
        pass_.pipe.error = {"kind": "limit", "message": message, "retryable": False, "task": task.name}

    def _run_task(self, pass_: PipelinePass, task: Task) -> bool:
        """Run the next task of a pass: on this thread where it ends at once, or where it ends when it is to and there is nothing
        else to do. Returns False when the pass cannot go on now."""
        started = self._clock.now()
        try:
            given = self._permits.given(pass_, task) or self._inputs.of(pass_, task)
            if task.rate is not None and not self._permits.lets(pass_, task, task.rate, given):
                self._tool_caller.inline(task.kind)  # loads the tool, which takes time that a permit does not have
                return False
        except Unloaded as error:
            self._outcomes.take(pass_, task, error.outcome, started)
            return True
        if task.kind in WAITING_KINDS:
            answered = self._waiting.ask(pass_, task, given.inputs, started)
            if answered is None:
                return False
            self._outcomes.take(pass_, task, answered, started)
            return True
        if self._too_late(given.timeout, started):
            self._activation.halt = "deadline"
            self._ready.append(pass_)
            return False
        self._started_any = True
        call = self._tool_caller.prepare(pass_, task, given)
        started_task = self._lease.begun(call, list(pass_.path), started)
        alone = self._activation.step.loop is None and self._tool_caller.punctual(call)
        if alone or self._tool_caller.inline(task.kind):
            outcome, begun = self._tool_caller.invoke(call, started_task), self._lease.ended(started_task)
            if alone:
                self._lease.check()  # a run that was to stop meanwhile has no outcome
            if outcome.status == "unfinished":
                self._continue_later(pass_)
                return False
            self._outcomes.take(pass_, task, outcome, begun)
            return True
        self._attempts.begin(pass_, task, call, started_task, started)
        return False

    def _refuse(self, refused: Sequence[tuple[PipelinePass, Outcome]]) -> None:
        """End the tasks that get no permit in time."""
        for pass_, outcome in refused:
            self._outcomes.take(pass_, self._activation.step.tasks[pass_.pipe.pc], outcome, self._clock.now())
            self._ready.append(pass_)

    def _too_late(self, timeout: float | None, now: int) -> bool:
        """Return whether the task might not end before the invocation does. The first task of an invocation is always tried."""
        deadline = self._activation.deadline
        if deadline is None or not self._started_any:
            return False
        need = SPARE_S if timeout is None else timeout + MARGIN_S
        return now + need * SECOND > deadline

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
