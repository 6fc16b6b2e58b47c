"""Carries out the tasks of an activation: each proceeds as far as it can, and continues at the next turn of its pass."""

from __future__ import annotations

from collections import deque

from noetl_core.dsl.kinds import WAITING_KINDS
from noetl_core.engine.outcome import Outcome
from noetl_core.ports import RateLimits
from noetl_core.tools.base import ToolCall
from noetl_core.worker.activation import Activation
from noetl_core.worker.pipeline_passes import PipelinePasses
from noetl_core.worker.run_tree import PipelinePass
from noetl_core.worker.secrets.callback_tokens import CallbackTokens
from noetl_core.worker.tasks.inputs import TaskInputs
from noetl_core.worker.tasks.outcomes import Outcomes
from noetl_core.worker.tasks.running_attempts import RunningAttempt, RunningAttempts
from noetl_core.worker.tasks.tool_caller import ToolCaller
from noetl_core.worker.values.inputs import CannotBegin
from noetl_core.worker.waits.outside_work import LOOK_S, OutsideTasks
from noetl_core.worker.waits.rate_permits import RatePermits
from noetl_core.worker.waits.waiting_passes import WaitingPasses


class TaskRunner:
    """The tasks of one activation. A pass that can continue is in `ready`; others are in `waiting`
    or in `running`, or queue for a permit."""

    def __init__(
        self,
        activation: Activation,
        passes: PipelinePasses,
        ready: deque[PipelinePass],
        waiting: WaitingPasses,
        running: RunningAttempts,
        caller: ToolCaller,
        tokens: CallbackTokens,
        rates: RateLimits | None,
    ) -> None:
        self._activation, self._ready, self._waiting = activation, ready, waiting
        self._running, self._caller = running, caller
        self._clock, self._lease = activation.clock, activation.claim.lease
        self._inputs = TaskInputs(activation, passes, tokens, caller.takes_texts)
        self._outcomes = Outcomes(activation, passes)
        self._permits = RatePermits(activation, rates, self._inputs, waiting)
        self._outside = OutsideTasks(activation, caller, waiting)
        self._max_visits = activation.playbook.executor.limits.max_task_visits

    # --- the next move of a task ----------------------------------------------------------------------------------------

    def advance(self, pass_: PipelinePass) -> bool:
        """Advance the task of a pass as far as possible now. Returns whether the pass can go on at once: its outcome is recorded.
        Otherwise the pass sleeps, waits, has a call that runs elsewhere, or is left to another invocation."""
        pipe = pass_.pipe
        if pipe.visited >= self._max_visits:
            self._fail_visit_limit(pass_)
            return True
        if pipe.not_before and pipe.not_before > self._clock.now():
            self._waiting.retry_later(pass_)
            return False
        pass_.attempt.started = self._clock.now()
        try:
            outcome = self._next_outcome(pass_)
        except CannotBegin as error:
            outcome = error.outcome
        if outcome is not None:
            self._outcomes.take(pass_, outcome)
        return outcome is not None

    def _next_outcome(self, pass_: PipelinePass) -> Outcome | None:
        """Return the outcome of a task if it has one now. Its earlier progress is known from its attempt and the log. Raises
        `CannotBegin`."""
        task, inputs = pass_.task, self._inputs.of(pass_)
        limited = None if self._outside.is_recorded(pass_) else task.rate  # a poll needs no permit
        if limited is not None and not self._permits.may_begin(pass_, limited):
            self._caller.inline(task.kind)  # loads the tool now: loading may take longer than a permit is valid
            return None
        if task.kind in WAITING_KINDS:
            return self._waiting.answer_or_wait(pass_, inputs.inputs)
        outside = self._caller.works_outside(task.kind)
        if self._activation.invocation.may_end_during(LOOK_S if outside else inputs.timeout, pass_.attempt.started):
            self._leave(pass_)
            return None
        call = self._outside.next_call(pass_, inputs) if outside else self._caller.prepare(pass_, inputs)
        return None if call is None else self._outcome_of_call(pass_, call)

    def _outcome_of_call(self, pass_: PipelinePass, call: ToolCall) -> Outcome | None:
        """Call a tool: on this thread if it never blocks, or if it keeps its timeout and nothing else is to do. Otherwise begin
        the call and return None."""
        self._activation.invocation.used = True
        started_task = self._lease.task_started(call, list(pass_.path), pass_.attempt.started)
        alone = self._activation.step.loop is None and self._caller.punctual(call)
        if not alone and not self._caller.inline(call.kind):
            self._running.begin(pass_, call, started_task)
            return None
        answer = self._caller.invoke(call, started_task)
        pass_.attempt.announced = self._lease.task_ended(started_task)
        if alone:
            self._lease.check()  # a run that must stop records no outcome
        return self._answered(pass_, call, answer)

    def _answered(self, pass_: PipelinePass, call: ToolCall, answer: Outcome) -> Outcome | None:
        """Return the outcome of a task whose tool has answered; None if the task is unfinished."""
        if answer.status == "unfinished":
            self._leave(pass_)
            return None
        return answer if call.outside is None else self._outside.take_answer(pass_, answer)

    def _leave(self, pass_: PipelinePass) -> None:
        """Leave a task to another invocation, which begins it again."""
        self._activation.halt = self._activation.halt or "deadline"
        self._ready.append(pass_)

    def _fail_visit_limit(self, pass_: PipelinePass) -> None:
        pass_.pipe.status = "failed"
        remedy = "if that is meant, raise executor.spec.policy.limits.max_task_visits"
        message = f"the pipeline visited its tasks {self._max_visits} times; {remedy}"
        pass_.pipe.error = {"kind": "limit", "message": message, "retryable": False, "task": pass_.task.name}

    # --- calls that run elsewhere ---------------------------------------------------------------------------------------

    def end(self, attempt: RunningAttempt, answer: Outcome) -> None:
        """Take the answer of a call that has ended."""
        pass_ = attempt.pass_
        pass_.attempt.announced = self._lease.task_ended(attempt.started_task)
        outcome = self._answered(pass_, attempt.call, answer)
        if outcome is not None:
            self._outcomes.take(pass_, outcome)
            self._ready.append(pass_)

    def give_up(self, now: int) -> None:
        """Abandon the calls that run past their timeout: their tasks time out and their pipelines continue."""
        for attempt in self._running.give_up(now):
            if attempt.call.outside is not None:
                self.end(attempt, self._outside.no_answer(attempt.pass_))
                continue
            message = f"{attempt.call.kind}: did not end within {attempt.call.timeout_s:g} s, and was abandoned"
            timed_out = Outcome.failed("timeout", message)
            self.end(attempt, self._caller.with_meta(timed_out, attempt.call, attempt.started_task))

    # --- permits, and work outside --------------------------------------------------------------------------------------

    def reserve_permits(self) -> bool:
        """Reserve permits for the passes that wait for one, if that is due. Returns whether it was. Tasks that cannot get a
        permit in time end."""
        if not self._permits.is_reservation_due(self._clock.now()):
            return False
        for pass_, outcome in self._permits.reserve():
            pass_.attempt.started = self._clock.now()
            self._outcomes.take(pass_, outcome)
            self._ready.append(pass_)
        return True

    def stop_begun(self) -> None:
        """Stop outside work that began after the run had been ended."""
        self._outside.stop_begun()
