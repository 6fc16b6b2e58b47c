"""Driving one activation of a run: one driver thread owns every machine, tools run on it or in a small pool (DESIGN 4.5)."""

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
from noetl_core.worker.calls import MARGIN_S, Calls, NotJson
from noetl_core.worker.flights import Flight, Flights
from noetl_core.worker.inputs import Unloaded
from noetl_core.worker.journal import Journal
from noetl_core.worker.loop_runner import LoopRunner
from noetl_core.worker.nodes import CtxLayer, Leaf, LoopNode
from noetl_core.worker.past import Past
from noetl_core.worker.sealing import Seals, restore
from noetl_core.worker.tokens import CallbackTokens
from noetl_core.worker.view import RunView
from noetl_core.worker.waiting import INLINE_WAIT_S, WAITING_KINDS, BadWait, TooLong, outcome_of, wait_for

SPARE_S = 30.0
"""A task without a timeout of its own is not started with less than this left of the invocation."""
TICK_S = 0.5

Boundary = Literal["StepDone", "StepFailed", "StepSuspended", "LoopChunkDone"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How an activation ended: the boundary event's name and data."""

    name: Boundary
    data: Mapping[str, Any]


@dataclass
class Runner:
    """One activation of one run (a step run, or a chunk of its loop)."""

    playbook: Playbook
    step: Step
    view: RunView
    past: Past
    journal: Journal
    calls: Calls
    step_run: str
    keychain: Mapping[str, Any]
    tokens: CallbackTokens
    seals: Seals | None = None
    chunk: Mapping[str, Any] | None = None
    """For a chunk run: the lead's plan, and `chunk`, its index."""
    deadline: int | None = None
    ready: deque[Leaf] = field(default_factory=deque)
    sleeping: list[tuple[int, int, Leaf]] = field(default_factory=list)
    """Passes that sleep here for a little, by when they wake."""
    waiting: list[Leaf] = field(default_factory=list)
    """Passes that wait longer: the run is suspended once nothing else is left to do."""
    flights: Flights = field(default_factory=Flights)
    halt: Literal["", "pause", "deadline"] = ""
    ended: Ended | None = None
    started_any: bool = False
    _opened: Mapping[tuple[int, ...], Mapping[str, Any]] | None = None
    """What the newest suspension sealed, once it has been opened."""
    _order: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.loops = LoopRunner(self)
        self.calls.trace_id = self.view.context.get("trace_id")
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
        """Until the run ends or suspends. Raises `Fenced`, `Cancelled`, and port errors for redelivery."""
        try:
            self._begin()
            while self.ended is None:
                self._watch()
                if self.sleeping:
                    self._wake_due()
                if self.ready and not self.halt:
                    self._advance(self.ready.popleft())
                elif self.flights:
                    self._collect()
                elif not self._sleep():
                    return self._suspended()
            return self.ended
        finally:
            if self.flights:
                self.calls.stop()  # what still runs runs for nobody
            self.flights.close()

    def end(self, name: Boundary, data: Mapping[str, Any]) -> None:
        """The run has come to its end, or to a suspension."""
        self.ended = Ended(name, data)

    def _watch(self) -> None:
        """Between tasks: commit what is due, and hear what the gate says."""
        now = self.calls.clock.now()
        if self.journal.due(now):
            self.journal.flush()
            self.calls.read_gate()
        self.calls.check()
        if self.calls.gate == "pause":
            self.halt = self.halt or "pause"
        if self.flights.overdue_at is not None and now >= self.flights.overdue_at:
            self._give_up(now)

    def _collect(self) -> None:
        """Take one finished task, or stop waiting after a moment to look around."""
        now, until = self.calls.clock.now(), self.flights.overdue_at
        if self.sleeping and not self.halt:
            until = self.sleeping[0][0] if until is None else min(until, self.sleeping[0][0])
        pause = TICK_S if until is None else min(TICK_S, max(0.0, (until - now) / SECOND))
        if (landed := self.flights.landed(pause)) is not None:
            self._end_flight(*landed)

    def _end_flight(self, flight: Flight, outcome: Outcome) -> None:
        started = self.calls.ended(flight.running)
        self._processed(flight.leaf, flight.task, outcome, started)
        self.ready.append(flight.leaf)

    def _give_up(self, now: int) -> None:
        """Tools that go on after their timeout: their tasks have timed out, and the pipeline goes on."""
        for flight in self.flights.give_up(now):
            message = f"{flight.call.kind}: did not end within {flight.call.timeout_s:g} s, and was left behind"
            self._end_flight(flight, self.calls.measured(Outcome.failed("timeout", message), flight.call, flight.running))

    def _wake_due(self) -> None:
        now = self.calls.clock.now()
        while self.sleeping and self.sleeping[0][0] <= now:
            self.ready.append(heapq.heappop(self.sleeping)[2])

    def _sleep(self) -> bool:
        """Nothing else to do: sleep until the next short wait is over; False when there is none."""
        if self.halt or not self.sleeping:
            return False
        self.journal.flush()
        self.calls.clock.sleep(max(0, self.sleeping[0][0] - self.calls.clock.now()) / SECOND)
        self.ready.append(heapq.heappop(self.sleeping)[2])
        return True

    def _suspended(self) -> Ended:
        """Suspend on everything that is waited for; and on the halt, if that is why."""
        waits = [leaf.wait for leaf in self.waiting if leaf.wait is not None]
        waits += [leaf.wait or self._retry_wait(leaf, at) for at, _, leaf in self.sleeping]
        if self.halt:
            kind = self.halt
            wait_id = ids.wait_id(self.step_run, self.journal.seq, kind)
            waits.append({"wait_id": wait_id, "kind": kind, "at": self.calls.clock.now()})
        if not waits:
            raise AssertionError(f"run {self.step_run} has nothing to do and nothing to wait for")
        sealed = self._sealed([*self.waiting, *(leaf for _, _, leaf in self.sleeping), *self.ready])
        return Ended("StepSuspended", {"waits": waits, **({"sealed": sealed} if sealed is not None else {})})

    def _sealed(self, leaves: list[Leaf]) -> str | None:
        """The secrets that unfinished passes hold, for whoever resumes them."""
        return self.seals.seal(leaves) if self.seals is not None and self.calls.tainted else None

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
        """A new pass over the pipeline; what the log says it has done is folded, not done again."""
        leaf = Leaf(pipe, ctx, parent, scope)
        pipe.iter = leaf.iter
        events = self.past.tasks.pop(pipe.path, ())
        sealed_at = self.past.sealed_at.get(pipe.path, 0) if self.past.sealed is not None else -1
        for n, event in enumerate(events):
            if n == sealed_at:
                self._unseal(leaf)
            ctx.write(event.data.get("set_ctx") or {})
            fold(pipe, self.step.tasks, event)
        if sealed_at == len(events):
            self._unseal(leaf)
        self.ready.append(leaf)

    def _unseal(self, leaf: Leaf) -> None:
        """Give a pass back the secrets it held when it was suspended; where nobody can open them they stay undefined."""
        if self.seals is None or self.past.sealed is None:
            return
        if self._opened is None:
            self._opened = self.seals.open(self.past.sealed)
            self.calls.tainted = True
        restore(leaf, self._opened.get(leaf.path, {}))

    def scope(self, ctx: CtxLayer, scope_iter: dict[str, Any]) -> Scope:
        """What templates see, without the pipeline's own names."""
        return Scope({"ctx": ctx.view, "iter": scope_iter}, self._base, resolve=self.calls.resolve)

    def _scope(self, leaf: Leaf) -> Scope:
        """What a pass's templates see; args of the step that read the iterator are evaluated once. Raises `TemplateError`."""
        scope = self.scope(leaf.ctx, leaf.iter)
        if not self.step.each_args:
            return scope
        if leaf.args is None:
            leaf.args = self.view.args  # all there is for whoever records the failure
            leaf.args = {**render(self.step.each_args, scope, undefined_ok=True), **self.view.args}
        return scope.over({"args": leaf.args})

    def _advance(self, leaf: Leaf) -> None:
        """Run a pass until it ends, waits, or a tool of its own thread has it."""
        while leaf.pipe.status == "running":
            if self.halt:
                self.ready.append(leaf)
                return
            task = self.step.tasks[leaf.pipe.pc]
            if leaf.pipe.visited >= self.playbook.executor.limits.max_task_visits:
                self._limit(leaf, task)
                break
            if leaf.pipe.not_before and leaf.pipe.not_before > self.calls.clock.now():
                self._wait(leaf, self._retry_wait(leaf, leaf.pipe.not_before))
                return
            if not self._run_task(leaf, task):
                return
            if leaf.pipe.status == "running":  # else the end belongs into the same commit as the last task
                self._watch()
        self._finish(leaf)

    def _limit(self, leaf: Leaf, task: Task) -> None:
        limit = self.playbook.executor.limits.max_task_visits
        leaf.pipe.status = "failed"
        remedy = "if that is meant, raise executor.spec.policy.limits.max_task_visits"
        message = f"the pipeline visited its tasks {limit} times; {remedy}"
        leaf.pipe.error = {"kind": "limit", "message": message, "retryable": False, "task": task.name}

    def _run_task(self, leaf: Leaf, task: Task) -> bool:
        """Run the pass's next task; False when it is out of our hands for now."""
        started = self.calls.clock.now()
        raw = self._raw.get(task.name)
        try:
            scope = self._scope(leaf)
            callback = self.tokens.layer(leaf.pipe)
            if callback is not None:
                scope, self.calls.tainted = scope.over(callback), True
            scope = scope.over(leaf.pipe.locals(task))
            inputs = render({k: v for k, v in task.inputs.items() if k not in raw} if raw else task.inputs, scope)
            spec = render(task.spec, scope, undefined_ok=True) if task.spec else task.spec
            timeout = self.calls.timeout_of(task, scope) if task.timeout_s is not None or "timeout" in task.spec else None
            inputs, spec = self.calls.loaded(task, inputs), self.calls.loaded(task, spec) if spec else spec
        except TemplateError as error:
            return self._failed(leaf, task, started, Outcome.failed(error.kind, f"inputs of task {task.name}: {error}"))
        except NotFound as error:
            return self._failed(leaf, task, started, Outcome.failed("not_found", f"inputs of task {task.name}: {error}"))
        except Unloaded as error:
            return self._failed(leaf, task, started, error.outcome)
        if task.kind in WAITING_KINDS:
            return self._waiting_task(leaf, task, inputs, started)
        if self._too_late(timeout, started):
            self.halt = "deadline"
            self.ready.append(leaf)
            return False
        self.started_any = True
        given = {**inputs, **raw} if raw else inputs
        call = self.calls.prepare(task, given, spec, leaf.pipe, self.step.name, self.view.execution_id, timeout, self.deadline)
        running = self.calls.begun(call, list(leaf.path), started)
        if self.calls.tools.inline(task.kind):
            outcome = self.calls.invoke(call, running)
            self._processed(leaf, task, outcome, self.calls.ended(running))
            return True
        self.flights.begin(leaf, task, call, running, started, self.calls.invoke)
        return False

    def _failed(self, leaf: Leaf, task: Task, started: int, outcome: Outcome) -> bool:
        """A task that could not even be called: an outcome like any other."""
        self._processed(leaf, task, outcome, started)
        return True

    def _too_late(self, timeout: float | None, now: int) -> bool:
        """Whether the task might not end before the invocation does; a fresh invocation tries it anyway."""
        if self.deadline is None or not self.started_any:
            return False
        need = SPARE_S if timeout is None else timeout + MARGIN_S
        return now + need * SECOND > self.deadline

    # --- waiting --------------------------------------------------------------------------------------------------------

    def _wait(self, leaf: Leaf, wait: dict[str, Any]) -> None:
        """Put a pass to sleep: in place when it is for a little, else as a wait of the suspension."""
        leaf.wait = wait
        at = wait["at"] if wait["kind"] == "timer" else None
        if at is not None and self._soon(at):
            heapq.heappush(self.sleeping, (at, next(self._order), leaf))
        else:
            self.waiting.append(leaf)

    def _soon(self, at: int) -> bool:
        if at - self.calls.clock.now() > INLINE_WAIT_S * SECOND:
            return False
        return self.deadline is None or at < self.deadline - SPARE_S * SECOND

    def _retry_wait(self, leaf: Leaf, at: int) -> dict[str, Any]:
        task = self.step.tasks[leaf.pipe.pc]
        wait_id = ids.wait_id(leaf.pipe.task_run(task), leaf.pipe.attempt, "retry")
        return self._placed(leaf, task, {"wait_id": wait_id, "kind": "timer", "at": at})

    @staticmethod
    def _placed(leaf: Leaf, task: Task, wait: dict[str, Any]) -> dict[str, Any]:
        iteration = {"iteration": list(leaf.path)} if leaf.path else {}  # `path` is a child playbook's
        return {**wait, "task": task.name, **iteration}

    def _waiting_task(self, leaf: Leaf, task: Task, inputs: Mapping[str, Any], started: int) -> bool:
        """`wait`, `callback`, `playbook`: what answers them is in the mail, or they wait for it."""
        pipe = leaf.pipe
        try:
            if contains_secret(inputs):
                raise BadWait(f"a task of kind {task.kind} is recorded, so its inputs cannot hold secrets")
            handed = {k: v for k, v in leaf.iter.items() if not contains_secret(v)}
            lives_until = started + int(self.playbook.executor.lifetime_s * SECOND)
            if self.journal.expires_at:
                lives_until = min(lives_until, self.journal.expires_at * SECOND)
            wait = wait_for(
                task.kind,
                inputs,
                pipe.task_run(task),
                pipe.attempt,
                self.past,
                started,
                self.view.execution_id,
                handed,
                lives_until,
            )
        except BadWait as error:
            kind: ErrorKind = "limit" if isinstance(error, TooLong) else "schema"
            return self._failed(leaf, task, started, Outcome.failed(kind, str(error), retryable=False))
        mail = self.past.mail.get(wait["wait_id"])
        if mail is None and wait["kind"] == "timer" and wait["at"] <= started:
            mail = {"kind": "timer"}
        if mail is not None:
            self._processed(leaf, task, outcome_of(wait, mail, self.calls.resolve), started)
            return True
        if wait["kind"] == "timer" and "result" in wait:
            wait["result"] = self.calls.small(wait["result"], f"values/{pipe.task_run(task)}-result")
        for section in ("args", "iter", "ctx"):
            if section in wait:
                name = f"values/{pipe.task_run(task)}-{section}"
                wait[section] = {k: self.calls.small(v, f"{name}-{n}") for n, (k, v) in enumerate(wait[section].items())}
        wait = self._placed(leaf, task, wait)
        self.past.waits[wait["wait_id"]] = wait
        self._wait(leaf, wait)
        return False

    # --- outcomes -------------------------------------------------------------------------------------------------------

    def _processed(self, leaf: Leaf, task: Task, outcome: Outcome, started: int | None) -> None:
        """Judge an outcome, record it, fold it."""
        pipe = leaf.pipe
        leaf.wait = None
        scope = self._scope(leaf).over(pipe.locals(task))
        outcome = self.calls.kept(outcome, pipe.task_run(task), pipe.attempt)
        now = self.calls.clock.now()
        begun = now if started is None else started
        if "attempt" not in outcome.meta:  # nothing was called: a wait that was answered, inputs in error
            outcome = replace(outcome, meta={**self.calls.meta(pipe.attempt, begun, now), **outcome.meta})
        try:
            event, directive = process(pipe, task, outcome, scope, now, begun)
            event = self.calls.stored(event, announced=started is None)
        except (NotFound, NotJson) as error:
            kind: Literal["not_found", "schema"] = "not_found" if isinstance(error, NotFound) else "schema"
            failed = Outcome.failed(kind, f"policy of {task.called}: {error}", retryable=False)
            event, directive = process(pipe, Task(task.name, task.kind), failed, scope, now, begun)
        leaf.ctx.write(event.data.get("set_ctx") or {})
        fold(pipe, self.step.tasks, event)
        self.calls.put(event)
        if directive.do == "retry":
            retried = {k: event.data[k] for k in ("task", "run", "path", "attempt") if k in event.data}
            error_of = event.data["outcome"].get("error")
            self.calls.record("TaskRetried", {**retried, "delay": directive.delay, **({"error": error_of} if error_of else {})})

    def written(self, ctx: CtxLayer) -> dict[str, Any]:
        """The run's ctx writes for its boundary, large values (what reducers made) behind references."""
        name = f"values/{self.step_run}-ctx"
        return {k: self.calls.small(v, f"{name}-{n}") for n, (k, v) in enumerate(ctx.writes.items())}

    def _finish(self, leaf: Leaf) -> None:
        """A pass has ended: so has its iteration, or the run."""
        pipe = leaf.pipe
        error = None if pipe.status == "done" else dict(pipe.error or {})
        if leaf.parent is not None:
            self.loops.finish(leaf.parent, leaf.path, leaf.ctx, result=pipe.result, error=error, broke=pipe.broke_loop)
            return
        writes = {"set_ctx": self.written(leaf.ctx)} if leaf.ctx.writes else {}
        if error is None:
            self.end("StepDone", {"result": pipe.result, **writes})
        else:
            self.end("StepFailed", {"error": error, **writes})
