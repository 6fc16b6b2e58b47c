"""Drives one activation of a run. One driver thread owns every pass; tools run on that thread, on its event loop, or on threads
of their own. While a tool occupies the driver thread, the lease heartbeat commits and reads the gate."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from noetl_core.dsl.kinds import WAITING_KINDS
from noetl_core.dsl.model import Task
from noetl_core.engine.loops import outermost_scope
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.pipelines.pipeline import Pipeline
from noetl_core.events.event import BoundaryEvent
from noetl_core.events.runs import StepDone, StepFailed
from noetl_core.events.shapes import Failure
from noetl_core.tools.base import ToolCall
from noetl_core.values.instants import SECOND
from noetl_core.worker.activation import Activation
from noetl_core.worker.claiming.run_lease import Cancelled
from noetl_core.worker.loops.runner import LoopRunner
from noetl_core.worker.pipeline_passes import PipelinePasses
from noetl_core.worker.run_tree import CtxLayer, PipelinePass
from noetl_core.worker.secrets.callback_tokens import CallbackTokens
from noetl_core.worker.tasks.inputs import TaskInputs
from noetl_core.worker.tasks.outcomes import Outcomes
from noetl_core.worker.tasks.running_attempts import RunningAttempt, RunningAttempts
from noetl_core.worker.tasks.tool_caller import MARGIN_S, ToolCaller
from noetl_core.worker.values.inputs import InputsNotLoaded
from noetl_core.worker.waits.outside_work import LOOK_S, OutsideTasks
from noetl_core.worker.waits.rate_permits import RatePermits
from noetl_core.worker.waits.waiting_passes import SPARE_S, WaitingPasses

TICK_S = 0.5


class Runner:
    """Carries out an activation until its run ends or is suspended."""

    def __init__(self, activation: Activation, passes: PipelinePasses, tool_caller: ToolCaller, tokens: CallbackTokens) -> None:
        self._activation, self._passes, self._tool_caller = activation, passes, tool_caller
        self._clock, self._journal, self._lease = activation.clock, activation.journal, activation.lease
        self._inputs = TaskInputs(activation, passes, tokens)
        self._outcomes = Outcomes(activation, passes)
        self._waiting = WaitingPasses(activation, passes)
        self._outside = OutsideTasks(activation, tool_caller, self._waiting)
        self._attempts = RunningAttempts(tool_caller)
        self._permits = RatePermits(activation, self._inputs, self._waiting)
        self._ready: deque[PipelinePass] = deque()
        self._loops = LoopRunner(activation, passes, self._ready, tool_caller.call_for_loop)
        self._started_any = activation.chained

    # --- driving --------------------------------------------------------------------------------------------------------

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
                if self._ready and not activation.halt:
                    self._advance(self._ready.popleft())
                elif not activation.halt and self._permits.is_reservation_due(self._clock.now()):
                    self._end_refused(self._permits.reserve())
                elif self._attempts:
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
            if self._attempts:
                self._lease.stop()  # nobody needs the outcomes of calls that still run
            self._attempts.close()

    def stop_begun(self) -> None:
        """Stop outside work that began after the run had been ended."""
        self._outside.stop_begun()

    def _begin(self) -> None:
        activation = self._activation
        ctx = CtxLayer(activation.view.ctx)
        outer = outermost_scope(activation.view.workload)
        if activation.step.loop is None:
            self._ready.append(self._passes.begin(Pipeline(activation.step_run, ()), ctx, None, outer))
        else:
            self._loops.begin(activation.step.loop, ctx, outer)

    def _watch(self) -> None:
        """Commit what is due, read the gate, prolong claims and give up overdue attempts. Called between tasks."""
        now = self._clock.now()
        if self._journal.due(now):
            self._journal.flush()
            self._lease.read_gate()
        self._lease.check()
        self._loops.prolong_claims()
        if self._lease.gate == "pause" and not self._loops.holds_claims:
            self._activation.halt = self._activation.halt or "pause"
        if self._attempts.overdue_at is not None and now >= self._attempts.overdue_at:
            self._give_up(now)

    def _sleep(self) -> bool:
        """Sleep until the next short wait is over. Returns False if there is none."""
        wake_at = self._waiting.wake_at
        if self._activation.halt or wake_at is None or not self._waiting.is_soon(wake_at):
            return False
        self._journal.flush()
        self._clock.sleep(max(0, wake_at - self._clock.now()) / SECOND)
        self._ready.append(self._waiting.take_next())
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
        started = self._lease.task_ended(attempt.started_task)
        if outcome.status == "unfinished":
            self._continue_later(attempt.pass_)
        elif self._take(attempt.pass_, attempt.task, attempt.call, outcome, started):
            self._ready.append(attempt.pass_)

    def _take(self, pass_: PipelinePass, task: Task, call: ToolCall, outcome: Outcome, started: int | None) -> bool:
        """Take the answer of a tool. Returns False if outside work is still in progress."""
        if call.outside is not None:
            answer = self._outside.take_answer(pass_, task, outcome)
            if answer is None:
                return False
            outcome = answer
        self._outcomes.take(pass_, task, outcome, started)
        return True

    def _continue_later(self, pass_: PipelinePass) -> None:
        """Leave an unfinished task to another invocation, which begins it again."""
        self._activation.halt = self._activation.halt or "deadline"
        self._ready.append(pass_)

    def _give_up(self, now: int) -> None:
        """Abandon the attempts that run past their timeout: their tasks time out and their pipelines continue."""
        for attempt in self._attempts.give_up(now):
            if attempt.call.outside is not None:
                self._end_attempt(attempt, self._outside.no_answer(attempt.pass_, attempt.task))
                continue
            message = f"{attempt.call.kind}: did not end within {attempt.call.timeout_s:g} s, and was left behind"
            timed_out = Outcome.failed("timeout", message)
            self._end_attempt(attempt, self._tool_caller.with_meta(timed_out, attempt.call, attempt.started_task))

    # --- passes over the pipeline ---------------------------------------------------------------------------------------

    def _advance(self, pass_: PipelinePass) -> None:
        """Run a pass until it ends, waits, or has an attempt that runs elsewhere."""
        activation = self._activation
        while pass_.pipe.status == "running":
            if activation.halt:
                self._ready.append(pass_)
                return
            task = activation.step.tasks[pass_.pipe.pc]
            if pass_.pipe.visited >= activation.playbook.executor.limits.max_task_visits:
                self._fail_visit_limit(pass_, task)
                break
            if pass_.pipe.not_before and pass_.pipe.not_before > self._clock.now():
                self._waiting.retry_later(pass_)
                return
            if not self._run_task(pass_, task):
                return
            if pass_.pipe.status == "running":  # the end of a pass belongs in the same commit as its last task
                self._watch()
        self._finish(pass_)

    def _fail_visit_limit(self, pass_: PipelinePass, task: Task) -> None:
        limit = self._activation.playbook.executor.limits.max_task_visits
        pass_.pipe.status = "failed"
        remedy = "if that is meant, raise executor.spec.policy.limits.max_task_visits"
        message = f"the pipeline visited its tasks {limit} times; {remedy}"
        pass_.pipe.error = {"kind": "limit", "message": message, "retryable": False, "task": task.name}

    def _run_task(self, pass_: PipelinePass, task: Task) -> bool:
        """Run the next task of a pass: on this thread if its tool never blocks, or if it keeps its timeout and nothing else is to
        do. Returns False if the pass cannot continue now."""
        started = self._clock.now()
        try:
            given = self._permits.inputs_of_waiting(pass_, task) or self._inputs.of(pass_, task)
            limited = None if self._outside.is_recorded(pass_, task) else task.rate  # a poll needs no permit
            if limited is not None and not self._permits.may_begin(pass_, task, limited, given):
                self._tool_caller.inline(task.kind)  # loads the tool now: loading may take longer than a permit is valid
                return False
        except InputsNotLoaded as error:
            self._outcomes.take(pass_, task, error.outcome, started)
            return True
        if task.kind in WAITING_KINDS:
            answered = self._waiting.answer_or_wait(pass_, task, given.inputs, started)
            if answered is None:
                return False
            self._outcomes.take(pass_, task, answered, started)
            return True
        outside = self._tool_caller.works_outside(task.kind)
        if self._may_miss_deadline(LOOK_S if outside else given.timeout, started):
            self._activation.halt = "deadline"
            self._ready.append(pass_)
            return False
        if outside:
            due = self._outside.next_call(pass_, task, given, started)
            if isinstance(due, Outcome):
                self._outcomes.take(pass_, task, due, started)
                return True
            if due is None:
                return False
            call = due
        else:
            call = self._tool_caller.prepare(pass_, task, given)
        self._started_any = True
        started_task = self._lease.task_started(call, list(pass_.path), started)
        alone = self._activation.step.loop is None and self._tool_caller.punctual(call)
        if alone or self._tool_caller.inline(task.kind):
            outcome, begun = self._tool_caller.invoke(call, started_task), self._lease.task_ended(started_task)
            if alone:
                self._lease.check()  # a run that must stop records no outcome
            if outcome.status == "unfinished":
                self._continue_later(pass_)
                return False
            return self._take(pass_, task, call, outcome, begun)
        self._attempts.begin(pass_, task, call, started_task, started)
        return False

    def _end_refused(self, refused: Sequence[tuple[PipelinePass, Outcome]]) -> None:
        """End the tasks that cannot get a permit in time."""
        for pass_, outcome in refused:
            self._outcomes.take(pass_, self._activation.step.tasks[pass_.pipe.pc], outcome, self._clock.now())
            self._ready.append(pass_)

    def _may_miss_deadline(self, timeout: float | None, now: int) -> bool:
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
