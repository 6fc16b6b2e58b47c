"""The state machine of a pipeline: one pass over the tasks of a step, as a value (pipeline execution; formal specification
6.4).

Its state *is* the fold of `TaskProcessed` events. A worker that takes over folds the committed events and continues;
committed tasks are never run again. Deciding (`process`) and folding (`fold`) are separate: the first creates the event, the
second applies it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from noetl_core.dsl.model import UNSET, Step, Task
from noetl_core.engine import ids
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.pipelines.policy import Directive, judge
from noetl_core.engine.records import Event
from noetl_core.events.event import TaskEvent
from noetl_core.events.runs import TaskProcessed
from noetl_core.events.shapes import Failure, TaskOutcome
from noetl_core.expr import Scope, render
from noetl_core.values.frozen import mutable
from noetl_core.values.instants import SECOND


@mutable
class Pipeline:
    """State of one pass. `path` is the indexes of the iteration, () outside loops; `pc` is the index of the next task.

    `attempt` is the attempt number of the next task; `not_before` (microseconds) is when a retry may run. `ctx` are the
    writes of this pass.
    """

    run: str
    path: tuple[int, ...] = ()
    pc: int = 0
    attempt: int = 1
    not_before: int = 0
    visits: dict[str, int] = field(default_factory=dict)
    visited: int = 0
    prev: Any = None
    last: TaskOutcome | None = None
    results: dict[str, Any] = field(default_factory=dict)
    iter: dict[str, Any] = field(default_factory=dict)
    ctx: dict[str, Any] = field(default_factory=dict)
    status: Literal["running", "done", "failed"] = "running"
    error: Failure | None = None
    broke_loop: bool = False
    _task_run: str = ""

    def visit(self, task: Task) -> int:
        """Return the ordinal of the visit that is about to run, or is retried; it begins with 1."""
        return self.visits.get(task.name, 0) + 1

    def task_run(self, task: Task) -> str:
        """Return the idempotency key of that visit; `task` is the one at `pc`."""
        if not self._task_run:
            self._task_run = ids.task_run_id(self.run, self.path, task.name, self.visit(task))
        return self._task_run

    def locals(self, task: Task) -> dict[str, Any]:
        """Return the names of the pipeline and the results of its tasks by name (resolution 8)."""
        return {**self.results, "_prev": self.prev, "_task": task.name, "_attempt": self.attempt, "_outcome": self.last}

    @property
    def result(self) -> Any:
        """The result of the pipeline: that of the last task that ended ok."""
        return self.prev


def args_of_pass(step: Step, args: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """Return the args of a pass: those of the step that read the iterator, below those of the run. Raises `TemplateError`."""
    return {**render(step.each_args, scope, undefined_ok=True), **args}


def process(p: Pipeline, task: Task, outcome: Outcome, scope: Scope, now: int, started: int) -> tuple[TaskEvent, Directive]:
    """Apply the task's policy to an outcome and return the event to record. `scope` is the scope of the pass while the task
    ran."""
    envelope = outcome.as_dict()
    directive = judge(task, outcome, p.attempt, p.task_run(task), scope.over({"outcome": envelope}))
    data: TaskProcessed = {
        "task": task.name,
        "run": p.task_run(task),
        "visit": p.visit(task),
        "attempt": p.attempt,
        "started": started,
        "outcome": envelope,
        "directive": directive.as_dict(ruled=task.policy is not None),
    }
    if task.label is not None:
        data["authored"] = {"label": task.label, "line": task.line}
    if p.path:
        data["path"] = list(p.path)
    if directive.set_iter:
        data["set_iter"] = dict(directive.set_iter)
    if directive.set_ctx:
        data["set_ctx"] = dict(directive.set_ctx)
    if directive.prev is not UNSET:
        data["prev"] = directive.prev
    if directive.error is not None and directive.error != envelope.get("error"):
        data["error"] = directive.error
    return Event("TaskProcessed", now, data), directive


def fold(p: Pipeline, tasks: Sequence[Task], event: TaskEvent) -> None:
    """Apply a `TaskProcessed` event to its pass."""
    d = event.data
    name, outcome, directive = d["task"], d["outcome"], d["directive"]
    do = directive["do"]
    if set_iter := d.get("set_iter"):
        p.iter = {**p.iter, **set_iter}  # values that templates took from it before stay unchanged
    p.ctx.update(d.get("set_ctx") or {})
    if do != "retry":  # a task that is retried has not ended: the next attempt sees the same names (resolution 8)
        p.last = outcome
        if outcome["status"] == "ok":
            p.prev = p.results[name] = outcome.get("result")
    if "prev" in d:
        p.prev = d["prev"]
    if do == "retry":
        p.attempt += 1
        p.not_before = event.ts + int(directive.get("delay", 0) * SECOND)
        return
    p.visits[name] = d["visit"]
    p.visited += 1
    p.attempt, p.not_before, p._task_run = 1, 0, ""
    if do == "continue":
        p.pc += 1
    elif do == "jump":
        p.pc = next(i for i, t in enumerate(tasks) if t.name == directive["to"])
    elif do == "break":
        p.pc = len(tasks)
        p.broke_loop = directive.get("scope") == "loop"
    else:
        failure: Failure = d.get("error") or outcome.get("error") or {"kind": "unknown", "message": "the task failed"}
        p.status, p.error = "failed", {**failure, "task": name}
        return
    if p.pc >= len(tasks):
        p.status = "done"
