"""Finds the names that the templates of a task saw, from the log: the arguments of its run, its iteration, and the results of the
tasks before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from noetl_core.api.refused import BadRequest, nearest
from noetl_core.control.core import Control
from noetl_core.dsl.model import Loop, Step
from noetl_core.engine.loops import iteration_scope, outermost_scope
from noetl_core.engine.pipelines.pipeline import Pipeline, args_of_pass, fold
from noetl_core.engine.records import RunEvent, StreamId, run_events
from noetl_core.engine.routing.passes import RoutingPass, StepsView
from noetl_core.engine.state import Run, State, trigger_seen
from noetl_core.events.event import Event, TaskEvent
from noetl_core.events.redrives import CarriedOver
from noetl_core.expr import Scope, mask, referenced
from noetl_core.log.carry_over import carried_over
from noetl_core.log.history import commits_of
from noetl_core.log.run_history import RunHistory
from noetl_core.ports import NotFound, Unavailable
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND
from noetl_core.views.executions import executions
from noetl_core.views.history.pages import BUSY_S
from noetl_core.views.reading.cursor import EventPlace
from noetl_core.views.reading.loop_streams import LoopStreams, loop_streams

Path = tuple[int, ...]
NOT_CTX: Final = {"iter", "args", "workload", "steps", "execution_id", "trigger", "job", "outcome"}
"""Names that are not looked up in ctx."""


@frozen
class TaskSelector:
    """Selects a task, an iteration and a step. Keys that the event of `at` contains may be omitted."""

    step: str | None = None
    task: str | None = None
    iteration: Path | None = None


@dataclass(slots=True)
class TaskNames:
    """The names that one task saw.

    `state` is the state in which its run was scheduled; `ctx` and `iter` are those of its pass, `began_ctx` and `began_iter`
    those
    with which the pass began.
    """

    state: State
    step: Step
    args: Mapping[str, Any]
    ctx: dict[str, Any]
    iter: dict[str, Any]
    began_ctx: dict[str, Any]
    began_iter: dict[str, Any]
    names: dict[str, Any] = field(default_factory=dict)
    """The names of the pipeline, and `outcome` if the task has ended."""

    def scope(self, routing: RoutingPass) -> Scope:
        """Return the scope of its templates, without secrets. Raises `NeedValues`."""
        below = {
            "workload": routing.workload,
            "args": self.args,
            "steps": StepsView(self.state.steps),
            "execution_id": self.state.execution_id,
            "trigger": trigger_seen(self.state.trigger),
        }
        began = Scope(
            {"ctx": self.began_ctx, "iter": self.began_iter},
            below,
            resolve=routing.resolve,
            prefetch=routing.prefetch,
            open=routing.open,
        )
        args = {"args": args_of_pass(self.step, self.args, began)} if self.step.each_args else {}
        return began.over(self.names, {"ctx": self.ctx, "iter": self.iter}, args)


def task_names(control: Control, execution_id: str, selector: TaskSelector, template: Any, at: str | None) -> TaskNames:
    """Return the names that `template` may read. Raises `BadRequest`, `NotFound`, `BadCursor`, `Unavailable`."""
    state, place = executions.state_just_after(control, execution_id, at)
    there = None if place is None else _event_at(control, execution_id, place)
    run = state.runs.get(place.run) if place is not None and place.run is not None else None
    selector = _completed(selector, run, there)
    step = _step_of(control, state, selector)
    lead = None if run is None else run.parent or run.id
    loop = loop_streams(control, state, step.name, lead)
    path = selector.iteration or ()
    number = 0 if loop is None or not path else loop.stream_of(path[0])
    stream = None if loop is None else loop.stream(number)
    if loop is None or (stream is None and loop.plan is None):
        raise NotFound(f"step {step.name} had not run then" if at else f"step {step.name} has not run")
    if stream is None:
        raise _not_begun(step, path)
    return _Reading(control, loop, number, stream, step, path, selector.task, template, _Bound(place, there)).names()


def _completed(selector: TaskSelector, run: Run | None, there: RunEvent | None) -> TaskSelector:
    """Return the selector, completed from the event of `at`. Raises `BadRequest`."""
    step, iteration = selector.step, selector.iteration
    same = run is not None and step in (None, run.step)
    if same and run is not None and there is not None:
        data: Any = there.data
        step = run.step
        iteration = tuple(data["path"]) if iteration is None and "path" in data else iteration
    if step is None:
        raise BadRequest("step is required with task or iteration", "body.step", "or set at to an event of a run of the step")
    return TaskSelector(step, selector.task, iteration)


def _step_of(control: Control, state: State, selector: TaskSelector) -> Step:
    """Return the step if it has the task, and loops as deep as the iteration. Raises `NotFound`, `BadRequest`."""
    playbook = control.playbook(state.digest)
    name = str(selector.step)
    step = playbook.by_name.get(name)
    if step is None:
        raise NotFound(f"playbook {state.path} has no step {name!r}{_hint(name, playbook.by_name)}")
    tasks = [task.name for task in step.tasks]
    if selector.task is not None and selector.task not in tasks:
        raise NotFound(f"step {name} has no task {selector.task!r}{_hint(selector.task, tasks)}")
    depth = len(list(_loops(step)))
    if selector.iteration is None and depth:
        raise BadRequest(
            f"step {name} has a loop: iteration is required",
            "body.iteration",
            "write its index, `617`; in nested loops the index in each loop, `3.5`",
        )
    if selector.iteration is not None and len(selector.iteration) != depth:
        found = f"step {name} has no loop" if not depth else f"an iteration of step {name} has {depth} index{'es' * (depth > 1)}"
        raise BadRequest(
            found,
            "body.iteration",
            "write its index, `617`; in nested loops the index in each loop, `3.5`" if depth else "leave it out",
        )
    return step


def _hint(name: str, known: Any) -> str:
    hint = nearest(name, known)
    return f" ({hint})" if hint else ""


def _loops(step: Step) -> Iterator[Loop]:
    """Yield the loops of a step, the outermost first."""
    loop = step.loop
    while loop is not None:
        yield loop
        loop = loop.inner


def _event_at(control: Control, execution_id: str, place: EventPlace) -> Any:
    commits = control.recent.read(StreamId(execution_id, place.run), after=place.seq - 1, limit=1)
    return commits[0].events[place.place - place.derived]


def _not_begun(step: Step, path: Path) -> NotFound:
    what = f"has no iteration {'.'.join(map(str, path))} then, or that iteration" if path else ""
    return NotFound(f"the run of step {step.name} {what} had not begun".replace("  ", " "))


@frozen
class _Bound:
    """The end of the part of event streams that is read: an event of the same stream, or the time of an event of another one."""

    place: EventPlace | None
    event: Any

    def behind(self, stream: StreamId, seq: int, number: int, event: RunEvent) -> bool:
        """Return whether an event is after it."""
        if self.place is None:
            return False
        if self.place.run == stream.run_id:
            return (seq, number) > (self.place.seq, self.place.place - self.place.derived)
        return bool(event.ts > self.event.ts)

    def at(self, stream: StreamId, task: str) -> bool:
        """Return whether it is the end of an attempt of `task` in this stream."""
        if self.place is None or self.place.derived or self.place.run != stream.run_id:
            return False
        return bool(self.event.name == "TaskProcessed" and self.event.data["task"] == task)


@dataclass(slots=True)
class _Reading:
    """The stream of one run, read as far as the names of a task need it."""

    control: Control
    loop: LoopStreams
    number: int
    stream: StreamId
    step: Step
    path: Path
    task: str | None
    template: Any
    bound: _Bound
    began: bool = False
    ended: bool = False
    passed: list[TaskEvent] = field(default_factory=list)
    """Ends of attempts of the pass."""
    earlier: list[tuple[Path, Mapping[str, Any]]] = field(default_factory=list)
    """Writes to ctx of iterations that had ended before it, in the order in which they ended."""

    def names(self) -> TaskNames:
        state, run = self._scheduled()
        history = self._carried_over(run)
        if self.path and self.path[-1] in history.finished.get(self.path[:-1], {}):
            what = f"iteration {'.'.join(map(str, self.path))} of step {self.step.name}"
            raise NotFound(f"{what} ran before the redrive, which kept it: at must be an event before the redrive")
        self.passed = [_masked(event) for event in history.tasks.get(self.path, ())]
        done = history.finished.items()
        self.earlier = [((*outer, n), entry.get("set_ctx") or {}) for outer, some in done for n, entry in some.items()]
        self._read()
        if not self.began:
            raise _not_begun(self.step, self.path)
        playbook = self.control.playbook(state.digest)
        routing = RoutingPass(playbook, state, self.control.clock.now(), state.seq + 1, {})
        scope = self._iter(routing.workload, history)
        ctx = {**state.ctx}
        for path, writes in self.earlier:
            if self._seen(path):
                ctx.update(mask(writes))
        names = TaskNames(state, self.step, run.args, ctx, scope, ctx, scope)
        self._pass(names)
        return names

    def _scheduled(self) -> tuple[State, Run]:
        """Return the state in which the run was scheduled, and the run in it."""
        first = self.control.recent.read(self.stream, limit=1)
        if not first:
            raise _not_begun(self.step, self.path)
        data: Any = first[0].events[0].data
        state = self.control.load(self.stream.execution_id, data["as_of"])
        return state, state.runs[self.loop.run]

    def _carried_over(self, run: Run) -> RunHistory:
        spec: CarriedOver | None = run.carried_over
        if spec is not None and self.stream.run_id != run.id:
            kept = spec.get("loop")
            spec = None if kept is None else kept["chunks"].get(str(self.number))
        if spec is None or "runs" not in spec:
            return RunHistory()
        return carried_over(self.control.store, self.stream.execution_id, spec)

    def _read(self) -> None:
        """Read the commits of the pass. If ctx that earlier iterations wrote may be read, read all commits before it too."""
        whole = not self.path or self._reads_ctx()
        begin = -1 if whole else max(self.loop.seek(self.number, self.path[0]) - 2, -1)
        until = self.control.clock.now() + BUSY_S * SECOND
        self.began = not self.path
        for commit in commits_of(self.control.recent, self.stream, begin):
            for number, event in enumerate(run_events(commit)):
                if self.ended or self.bound.behind(self.stream, commit.seq, number, event):
                    return
                self._observe(event)
            if self.control.clock.now() > until:
                raise Unavailable(f"the stream of step {self.step.name} up to that iteration is too long for one request")

    def _observe(self, event: RunEvent) -> None:
        if event.name == "LoopIterationStarted":
            self.began = self.began or tuple(event.data["path"]) == self.path
        elif event.name == "TaskProcessed" and tuple(event.data.get("path", ())) == self.path:
            self.passed.append(event)
        elif event.name == "LoopIterationCompleted":
            path = tuple(event.data["path"])
            self.ended = bool(path) and path == self.path
            self.earlier.append((path, event.data.get("set_ctx") or {}))

    def _reads_ctx(self) -> bool:
        """Return whether the values read may depend on ctx writes of earlier iterations."""
        first = next(_loops(self.step), None)
        if first is None or first.mode != "sequential":
            return False
        return any(path[0] not in NOT_CTX for path in (*referenced(self.template), *referenced(dict(self.step.each_args))))

    def _seen(self, path: Path) -> bool:
        """Return whether the iteration sees the writes of another one.

        In sequential loops, it sees those of iterations before it, or before the iteration that contains it.
        """
        depth = len(path) - 1
        if depth >= len(self.path) or path[:-1] != self.path[:depth] or path[-1] >= self.path[depth]:
            return False
        return list(_loops(self.step))[depth].mode == "sequential"

    def _iter(self, workload: Mapping[str, Any], history: RunHistory) -> dict[str, Any]:
        scope = outermost_scope(workload)
        for depth, loop in enumerate(_loops(self.step), 1):
            path = self.path[:depth]
            found = self.loop.item(path, history.collections.get(path[:-1]))
            if "item" not in found:
                raise NotFound(
                    f"the item of iteration {'.'.join(map(str, path))} of step {self.step.name} is not stored any more"
                )
            scope = iteration_scope(loop.iterator, found["item"], path[-1], scope)
        return scope

    def _pass(self, names: TaskNames) -> None:
        """Continue the pass up to the selected attempt, or to the last one of a task that ended before."""
        tasks = self.step.tasks
        pipe = Pipeline(str(self.stream.run_id), self.path, iter=names.iter)
        last = max((n for n, event in enumerate(self.passed) if event.data["task"] == self.task), default=None)
        names_at_attempt = None
        for number, event in enumerate(self.passed):
            if number == last:
                names_at_attempt = {**pipe.locals(tasks[pipe.pc]), "outcome": event.data["outcome"]}, names.ctx, pipe.iter
            names.ctx = {**names.ctx, **(event.data.get("set_ctx") or {})}
            fold(pipe, tasks, event)
        going_on = pipe.status == "running"
        if self.task is None or (going_on and tasks[pipe.pc].name == self.task and not self.bound.at(self.stream, self.task)):
            names.names, names.iter = pipe.locals(tasks[min(pipe.pc, len(tasks) - 1)]), pipe.iter
            return
        if names_at_attempt is None:
            where = f"iteration {'.'.join(map(str, self.path))} of " if self.path else ""
            raise NotFound(
                f"{where}step {self.step.name} has not come to task {self.task}" + (" then" if self.bound.place else "")
            )
        names.names, names.ctx, names.iter = names_at_attempt


def _masked(event: TaskEvent) -> TaskEvent:
    """Return an event with masks where the worker had secrets."""
    return Event(event.name, event.ts, mask(event.data))
