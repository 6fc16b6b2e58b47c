"""The runner drives one activation of a run. One driver thread owns the state of all its passes; tools run on that thread or
in a small thread pool (docs/decisions.md, "Every tool that may block runs on a thread that can be left behind")."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal

from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.model import Playbook, Step, Task
from noetl_core.engine import ids
from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.engine.pipeline import SECOND, Pipeline, fold, process
from noetl_core.expr import Scope, TemplateError, contains_secret, render
from noetl_core.ports import NotFound
from noetl_core.worker.inputs import Unloaded
from noetl_core.worker.journal import Journal
from noetl_core.worker.loop_runner import LoopRunner
from noetl_core.worker.nodes import CtxLayer, LoopNode, PipelinePass
from noetl_core.worker.run_history import RunHistory
from noetl_core.worker.running_attempts import RunningAttempt, RunningAttempts
from noetl_core.worker.sealing import Seals, restore
from noetl_core.worker.tokens import CallbackTokens
from noetl_core.worker.tool_caller import MARGIN_S, NotJson, ToolCaller
from noetl_core.worker.view import RunView
from noetl_core.worker.waiting import INLINE_WAIT_S, WAITING_KINDS, BadWait, TooLong, outcome_of, wait_for

SPARE_S = 30.0
"""A task without a timeout of its own is not started when less than this is left of the invocation."""
TICK_S = 0.5

Boundary = Literal["StepDone", "StepFailed", "StepSuspended", "LoopChunkDone"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How an activation ended: the name and the data of its boundary event."""

    name: Boundary
    data: Mapping[str, Any]


@dataclass
class Runner:
    """One activation of one run: a step run, or the run of one chunk of its loop."""

    playbook: Playbook
    step: Step
    view: RunView
    history: RunHistory
    journal: Journal
    tool_caller: ToolCaller
    step_run: str
    keychain: Mapping[str, Any]
    tokens: CallbackTokens
    seals: Seals | None = None
    chunk: Mapping[str, Any] | None = None
    """For a chunk run: the plan of the loop, and the index of the chunk as `chunk`."""
    deadline: int | None = None
    ready: deque[PipelinePass] = field(default_factory=deque)
    sleeping: list[tuple[int, int, PipelinePass]] = field(default_factory=list)
    """Passes with a short wait in this process, by when they wake."""
    waiting: list[PipelinePass] = field(default_factory=list)
    """Passes with a longer wait: the run suspends when nothing else is left to do."""
    attempts: RunningAttempts = field(default_factory=RunningAttempts)
    halt: Literal["", "pause", "deadline"] = ""
    ended: Ended | None = None
    started_any: bool = False
    _opened: Mapping[tuple[int, ...], Mapping[str, Any]] | None = None
    """The decrypted secrets of the newest suspension, once they are needed."""
    _order: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.loops = LoopRunner(self)
        self.tool_caller.trace_id = self.view.context.get("trace_id")
        self._base = {
            "workload": self.view.workload,
            "args": self.view.args,
            "steps": self.view.steps,
            "execution_id": self.view.execution_id,
            "keychain": self.keychain,
        }
        self._raw = {
            t.name: {k: t.inputs[k] for k in KINDS[t.kind].raw if k in t.inputs} for t in self.step.tasks if t.kind in KINDS
        }
        """Inputs that are program text: never rendered."""

    # --- driving --------------------------------------------------------------------------------------------------------

    def run(self) -> Ended:
        """Run until the run ends or suspends. Raises `Fenced`, `Cancelled`, and port errors, after which the queue delivers
        the command again."""
        try:
            self._begin()
            while self.ended is None:
                self._watch()
                if self.sleeping:
                    self._wake_due()
                if self.ready and not self.halt:
                    self._advance(self.ready.popleft())
                elif self.attempts:
                    self._collect()
                elif not self._sleep():
                    return self._suspended()
            return self.ended
        finally:
            if self.attempts:
                self.tool_caller.stop()  # what still runs runs for nobody
            self.attempts.close()

    def end(self, name: Boundary, data: Mapping[str, Any]) -> None:
        """Set the boundary event with which the run ends or suspends."""
        self.ended = Ended(name, data)

    def _watch(self) -> None:
        """Between tasks: commit what is due, and read the gate."""
        now = self.tool_caller.clock.now()
        if self.journal.due(now):
            self.journal.flush()
            self.tool_caller.read_gate()
        self.tool_caller.check()
        if self.tool_caller.gate == "pause":
            self.halt = self.halt or "pause"
        if self.attempts.overdue_at is not None and now >= self.attempts.overdue_at:
            self._give_up(now)

    def _collect(self) -> None:
        """Process one finished task, or return after a short wait."""
        now, until = self.tool_caller.clock.now(), self.attempts.overdue_at
        if self.sleeping and not self.halt:
            until = self.sleeping[0][0] if until is None else min(until, self.sleeping[0][0])
        pause = TICK_S if until is None else min(TICK_S, max(0.0, (until - now) / SECOND))
        if (ended := self.attempts.next_ended(pause)) is not None:
            self._end_attempt(*ended)

    def _end_attempt(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        started = self.tool_caller.ended(attempt.started_task)
        self._processed(attempt.pass_, attempt.task, outcome, started)
        self.ready.append(attempt.pass_)

    def _give_up(self, now: int) -> None:
        """End the attempts that run on after their timeout: their tasks time out and their pipelines continue."""
        for attempt in self.attempts.give_up(now):
            message = f"{attempt.call.kind}: did not end within {attempt.call.timeout_s:g} s, and was left behind"
            self._end_attempt(
                attempt, self.tool_caller.measured(Outcome.failed("timeout", message), attempt.call, attempt.started_task)
            )

    def _wake_due(self) -> None:
        now = self.tool_caller.clock.now()
        while self.sleeping and self.sleeping[0][0] <= now:
            self.ready.append(heapq.heappop(self.sleeping)[2])

    def _sleep(self) -> bool:
        """Sleep until the next short wait is over, when there is nothing else to do. Returns False when there is no short
        wait."""
        if self.halt or not self.sleeping:
            return False
        self.journal.flush()
        self.tool_caller.clock.sleep(max(0, self.sleeping[0][0] - self.tool_caller.clock.now()) / SECOND)
        self.ready.append(heapq.heappop(self.sleeping)[2])
        return True

    def _suspended(self) -> Ended:
        """Return the suspension: all waits of the run, and the reason if a pause or the deadline halts it."""
        waits = [pass_.wait for pass_ in self.waiting if pass_.wait is not None]
        waits += [pass_.wait or self._retry_wait(pass_, at) for at, _, pass_ in self.sleeping]
        if self.halt:
            kind = self.halt
            wait_id = ids.wait_id(self.step_run, self.journal.seq, kind)
            waits.append({"wait_id": wait_id, "kind": kind, "at": self.tool_caller.clock.now()})
        if not waits:
            raise AssertionError(f"run {self.step_run} has nothing to do and nothing to wait for")
        sealed = self._sealed([*self.waiting, *(pass_ for _, _, pass_ in self.sleeping), *self.ready])
        return Ended("StepSuspended", {"waits": waits, **({"sealed": sealed} if sealed is not None else {})})

    def _sealed(self, passes: list[PipelinePass]) -> str | None:
        """Return the secrets that unfinished passes hold, encrypted for the worker that resumes the run."""
        return self.seals.seal(passes) if self.seals is not None and self.tool_caller.tainted else None

    # --- passes over the pipeline ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        ctx = CtxLayer(self.view.ctx)
        handed = self.view.workload.get("iter")
        outer = {"parent": handed} if isinstance(handed, Mapping) else {}
        if self.step.loop is None:
            self.push(Pipeline(self.step_run, ()), ctx, None, outer)
        else:
            self.loops.begin(self.step.loop, ctx, outer)

    def push(self, pipe: Pipeline, ctx: CtxLayer, parent: LoopNode | None, scope: dict[str, Any]) -> None:
        """Start a new pass over the pipeline. Tasks that the log records as done are folded into it and not run again."""
        pass_ = PipelinePass(pipe, ctx, parent, scope)
        pipe.iter = pass_.iter
        events = self.history.tasks.pop(pipe.path, ())
        sealed_at = self.history.sealed_at.get(pipe.path, 0) if self.history.sealed is not None else -1
        for n, event in enumerate(events):
            if n == sealed_at:
                self._unseal(pass_)
            ctx.write(event.data.get("set_ctx") or {})
            fold(pipe, self.step.tasks, event)
        if sealed_at == len(events):
            self._unseal(pass_)
        self.ready.append(pass_)

    def _unseal(self, pass_: PipelinePass) -> None:
        """Restore the secrets that a pass held when it was suspended. Where they cannot be decrypted they stay undefined."""
        if self.seals is None or self.history.sealed is None:
            return
        if self._opened is None:
            self._opened = self.seals.open(self.history.sealed)
            self.tool_caller.tainted = True
        restore(pass_, self._opened.get(pass_.path, {}))

    def scope(self, ctx: CtxLayer, scope_iter: dict[str, Any]) -> Scope:
        """Return what templates see, without the names of the pipeline itself."""
        return Scope({"ctx": ctx.view, "iter": scope_iter}, self._base, resolve=self.tool_caller.resolve)

    def _scope(self, pass_: PipelinePass) -> Scope:
        """Return what the templates of a pass see. Arguments of the step that read the iterator are evaluated once per pass.
        Raises `TemplateError`."""
        scope = self.scope(pass_.ctx, pass_.iter)
        if not self.step.each_args:
            return scope
        if pass_.args is None:
            pass_.args = self.view.args  # all there is for whoever records the failure
            pass_.args = {**render(self.step.each_args, scope, undefined_ok=True), **self.view.args}
        return scope.over({"args": pass_.args})

    def _advance(self, pass_: PipelinePass) -> None:
        """Run a pass until it ends, waits, or a tool runs on a thread of its own."""
        while pass_.pipe.status == "running":
            if self.halt:
                self.ready.append(pass_)
                return
            task = self.step.tasks[pass_.pipe.pc]
            if pass_.pipe.visited >= self.playbook.executor.limits.max_task_visits:
                self._limit(pass_, task)
                break
            if pass_.pipe.not_before and pass_.pipe.not_before > self.tool_caller.clock.now():
                self._wait(pass_, self._retry_wait(pass_, pass_.pipe.not_before))
                return
            if not self._run_task(pass_, task):
                return
            if pass_.pipe.status == "running":  # else the end belongs into the same commit as the last task
                self._watch()
        self._finish(pass_)

    def _limit(self, pass_: PipelinePass, task: Task) -> None:
        limit = self.playbook.executor.limits.max_task_visits
        pass_.pipe.status = "failed"
        remedy = "if that is meant, raise executor.spec.policy.limits.max_task_visits"
        message = f"the pipeline visited its tasks {limit} times; {remedy}"
        pass_.pipe.error = {"kind": "limit", "message": message, "retryable": False, "task": task.name}

    def _run_task(self, pass_: PipelinePass, task: Task) -> bool:
        """Run the next task of a pass. Returns False when the pass cannot go on now."""
        started = self.tool_caller.clock.now()
        raw = self._raw.get(task.name)
        try:
            scope = self._scope(pass_)
            callback = self.tokens.layer(pass_.pipe)
            if callback is not None:
                scope, self.tool_caller.tainted = scope.over(callback), True
            scope = scope.over(pass_.pipe.locals(task))
            inputs = render({k: v for k, v in task.inputs.items() if k not in raw} if raw else task.inputs, scope)
            spec = render(task.spec, scope, undefined_ok=True) if task.spec else task.spec
            timeout = self.tool_caller.timeout_of(task, scope) if task.timeout_s is not None or "timeout" in task.spec else None
            inputs, spec = self.tool_caller.loaded(task, inputs), self.tool_caller.loaded(task, spec) if spec else spec
        except TemplateError as error:
            return self._failed(pass_, task, started, Outcome.failed(error.kind, f"inputs of task {task.name}: {error}"))
        except NotFound as error:
            return self._failed(pass_, task, started, Outcome.failed("not_found", f"inputs of task {task.name}: {error}"))
        except Unloaded as error:
            return self._failed(pass_, task, started, error.outcome)
        if task.kind in WAITING_KINDS:
            return self._waiting_task(pass_, task, inputs, started)
        if self._too_late(timeout, started):
            self.halt = "deadline"
            self.ready.append(pass_)
            return False
        self.started_any = True
        given = {**inputs, **raw} if raw else inputs
        call = self.tool_caller.prepare(
            task, given, spec, pass_.pipe, self.step.name, self.view.execution_id, timeout, self.deadline
        )
        started_task = self.tool_caller.begun(call, list(pass_.path), started)
        if self.tool_caller.tools.inline(task.kind):
            outcome = self.tool_caller.invoke(call, started_task)
            self._processed(pass_, task, outcome, self.tool_caller.ended(started_task))
            return True
        self.attempts.begin(pass_, task, call, started_task, started, self.tool_caller.invoke)
        return False

    def _failed(self, pass_: PipelinePass, task: Task, started: int, outcome: Outcome) -> bool:
        """Record the outcome of a task that could not be called."""
        self._processed(pass_, task, outcome, started)
        return True

    def _too_late(self, timeout: float | None, now: int) -> bool:
        """Return whether the task might not end before the invocation does. The first task of an invocation is always tried."""
        if self.deadline is None or not self.started_any:
            return False
        need = SPARE_S if timeout is None else timeout + MARGIN_S
        return now + need * SECOND > self.deadline

    # --- waiting --------------------------------------------------------------------------------------------------------

    def _wait(self, pass_: PipelinePass, wait: dict[str, Any]) -> None:
        """Let a pass wait: in this process when the wait is short, otherwise as a wait of the suspension."""
        pass_.wait = wait
        at = wait["at"] if wait["kind"] == "timer" else None
        if at is not None and self._soon(at):
            heapq.heappush(self.sleeping, (at, next(self._order), pass_))
        else:
            self.waiting.append(pass_)

    def _soon(self, at: int) -> bool:
        if at - self.tool_caller.clock.now() > INLINE_WAIT_S * SECOND:
            return False
        return self.deadline is None or at < self.deadline - SPARE_S * SECOND

    def _retry_wait(self, pass_: PipelinePass, at: int) -> dict[str, Any]:
        task = self.step.tasks[pass_.pipe.pc]
        wait_id = ids.wait_id(pass_.pipe.task_run(task), pass_.pipe.attempt, "retry")
        return self._placed(pass_, task, {"wait_id": wait_id, "kind": "timer", "at": at})

    @staticmethod
    def _placed(pass_: PipelinePass, task: Task, wait: dict[str, Any]) -> dict[str, Any]:
        iteration = {"iteration": list(pass_.path)} if pass_.path else {}  # `path` is a child playbook's
        return {**wait, "task": task.name, **iteration}

    def _waiting_task(self, pass_: PipelinePass, task: Task, inputs: Mapping[str, Any], started: int) -> bool:
        """Run a task of kind `wait`, `callback` or `playbook`: use its answer if it is in the mail, otherwise wait for it."""
        pipe = pass_.pipe
        try:
            if contains_secret(inputs):
                raise BadWait(f"a task of kind {task.kind} is recorded, so its inputs cannot hold secrets")
            handed = {k: v for k, v in pass_.iter.items() if not contains_secret(v)}
            lives_until = started + int(self.playbook.executor.lifetime_s * SECOND)
            if self.journal.expires_at:
                lives_until = min(lives_until, self.journal.expires_at * SECOND)
            wait = wait_for(
                task.kind,
                inputs,
                pipe.task_run(task),
                pipe.attempt,
                self.history,
                started,
                self.view.execution_id,
                handed,
                lives_until,
            )
        except BadWait as error:
            kind: ErrorKind = "limit" if isinstance(error, TooLong) else "schema"
            return self._failed(pass_, task, started, Outcome.failed(kind, str(error), retryable=False))
        mail = self.history.mail.get(wait["wait_id"])
        if mail is None and wait["kind"] == "timer" and wait["at"] <= started:
            mail = {"kind": "timer"}
        if mail is not None:
            self._processed(pass_, task, outcome_of(wait, mail, self.tool_caller.resolve), started)
            return True
        if wait["kind"] == "timer" and "result" in wait:
            wait["result"] = self.tool_caller.small(wait["result"], f"values/{pipe.task_run(task)}-result")
        for section in ("args", "iter", "ctx"):
            if section in wait:
                name = f"values/{pipe.task_run(task)}-{section}"
                wait[section] = {k: self.tool_caller.small(v, f"{name}-{n}") for n, (k, v) in enumerate(wait[section].items())}
        wait = self._placed(pass_, task, wait)
        self.history.waits[wait["wait_id"]] = wait
        self._wait(pass_, wait)
        return False

    # --- outcomes -------------------------------------------------------------------------------------------------------

    def _processed(self, pass_: PipelinePass, task: Task, outcome: Outcome, started: int | None) -> None:
        """Apply the task's policy to an outcome, record the event and fold it."""
        pipe = pass_.pipe
        pass_.wait = None
        scope = self._scope(pass_).over(pipe.locals(task))
        outcome = self.tool_caller.kept(outcome, pipe.task_run(task), pipe.attempt)
        now = self.tool_caller.clock.now()
        begun = now if started is None else started
        if "attempt" not in outcome.meta:  # nothing was called: a wait that was answered, inputs in error
            outcome = replace(outcome, meta={**self.tool_caller.meta(pipe.attempt, begun, now), **outcome.meta})
        try:
            event, directive = process(pipe, task, outcome, scope, now, begun)
            event = self.tool_caller.stored(event, announced=started is None)
        except (NotFound, NotJson) as error:
            kind: Literal["not_found", "schema"] = "not_found" if isinstance(error, NotFound) else "schema"
            failed = Outcome.failed(kind, f"policy of {task.called}: {error}", retryable=False)
            event, directive = process(pipe, Task(task.name, task.kind), failed, scope, now, begun)
        pass_.ctx.write(event.data.get("set_ctx") or {})
        fold(pipe, self.step.tasks, event)
        self.tool_caller.put(event)
        if directive.do == "retry":
            retried = {k: event.data[k] for k in ("task", "run", "path", "attempt") if k in event.data}
            error_of = event.data["outcome"].get("error")
            self.tool_caller.record(
                "TaskRetried", {**retried, "delay": directive.delay, **({"error": error_of} if error_of else {})}
            )

    def written(self, ctx: CtxLayer) -> dict[str, Any]:
        """Return the run's ctx writes for its boundary event; large values, which reducers may build, are stored behind
        references."""
        name = f"values/{self.step_run}-ctx"
        return {k: self.tool_caller.small(v, f"{name}-{n}") for n, (k, v) in enumerate(ctx.writes.items())}

    def _finish(self, pass_: PipelinePass) -> None:
        """End a pass, and with it its iteration or the run."""
        pipe = pass_.pipe
        error = None if pipe.status == "done" else dict(pipe.error or {})
        if pass_.parent is not None:
            self.loops.finish(pass_.parent, pass_.path, pass_.ctx, result=pipe.result, error=error, broke=pipe.broke_loop)
            return
        writes = {"set_ctx": self.written(pass_.ctx)} if pass_.ctx.writes else {}
        if error is None:
            self.end("StepDone", {"result": pipe.result, **writes})
        else:
            self.end("StepFailed", {"error": error, **writes})
