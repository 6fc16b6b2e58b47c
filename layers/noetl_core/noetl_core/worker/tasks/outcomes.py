"""The one place where a worker judges an outcome, stores its large values, and records it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from noetl_core.dsl.model import Task
from noetl_core.engine.outcome import LONGEST, Outcome
from noetl_core.engine.pipelines.pipeline import fold, process
from noetl_core.engine.records import Event
from noetl_core.engine.warnings import blanks_of
from noetl_core.events.event import TaskEvent
from noetl_core.events.runs import TaskProcessed, TaskRetried
from noetl_core.ports import NotFound
from noetl_core.worker.activation import Activation
from noetl_core.worker.attempt import Attempt
from noetl_core.worker.pipeline_passes import PipelinePasses
from noetl_core.worker.run_tree import PipelinePass
from noetl_core.worker.secrets.secret_results import with_secret_result
from noetl_core.worker.values.offload import NotJson, nearest_json
from noetl_core.worker.values.task_log import TaskLog


class Outcomes:
    """Takes the outcomes of an activation's tasks, whether a tool was called or not."""

    def __init__(self, activation: Activation, passes: PipelinePasses) -> None:
        self._activation, self._passes = activation, passes
        self._values, self._recorder = activation.values, activation.recorder

    def take(self, pass_: PipelinePass, outcome: Outcome) -> None:
        """Judge, record and fold the outcome of the pass's task. The next attempt of the pass begins."""
        pipe, task, attempt = pass_.pipe, pass_.task, pass_.attempt
        scope = self._passes.scope(pass_).over(pipe.locals(task))
        if "attempt" in outcome.meta:  # a tool was called
            outcome = with_secret_result(outcome, task)
        outcome = self._storable(outcome, pipe.task_run(task), pipe.attempt)
        now = self._activation.clock.now()
        begun = now if attempt.announced else attempt.started
        if "attempt" not in outcome.meta:  # no tool was called: an answered wait, or bad inputs
            outcome = replace(outcome, meta={**self._activation.meta(pipe.attempt, begun, now), **outcome.meta})
        try:
            event, directive = process(pipe, task, outcome, scope, now, begun)
            event = self._stored(event, announced=attempt.announced)
        except (NotFound, NotJson) as error:
            kind: Literal["not_found", "schema"] = "not_found" if isinstance(error, NotFound) else "schema"
            failed = Outcome.failed(kind, f"policy of {task.called}: {error}", retryable=False)
            event, directive = process(pipe, Task(task.name, task.kind), failed, scope, now, begun)
        if attempt.blanks and directive.do != "retry":
            event = Event(event.name, event.ts, {**event.data, "undefined": blanks_of(attempt.blanks)})
        pass_.attempt = Attempt()
        pass_.ctx.write(event.data.get("set_ctx") or {})
        fold(pipe, self._activation.step.tasks, event)
        self._recorder.put(event)
        if directive.do == "retry":
            self._recorder.record(TaskRetried, **_retried(event.data, directive.delay))

    def _storable(self, outcome: Outcome, task_run: str, attempt: int) -> Outcome:
        """Return the outcome in its recorded form: JSON data, with references for large values (formal specification 9.1)."""
        values = self._values
        name = f"results/{task_run}" + ("" if attempt == 1 else f"-{attempt}")
        log = outcome.meta.get("log")
        if isinstance(log, TaskLog):
            more = f"{self._activation.execution_id}/logs/{task_run}-{attempt}.json"
            outcome = replace(outcome, meta={**outcome.meta, "log": log.record(self._activation.values.results, more)})
        try:
            result = values.store_if_large(outcome.result, name, outcome.text)
        except NotJson as wrong:
            failed = Outcome.failed("schema", f"the task's result is not JSON: {wrong}", retryable=False)
            return replace(failed, meta=nearest_json(outcome.meta))
        changed: dict[str, Any] = {} if result is outcome.result else {"result": result}
        if outcome.helpers:
            changed["helpers"] = {k: values.store_as_json(v, f"{name}-{k}") for k, v in outcome.helpers.items()}
        if outcome.error is not None:
            error = outcome.error
            message = error.message[: LONGEST["message"]].encode("utf-8", "replace").decode()
            changed["error"] = replace(error, message=message, details=values.store_as_json(error.details, f"{name}-details"))
        return replace(outcome, **changed) if changed else outcome

    def _stored(self, event: TaskEvent, *, announced: bool) -> TaskEvent:
        """Return the event with references for large written values. Raises `NotJson`."""
        values, data = self._values, event.data.copy()
        if announced:
            data.pop("started", None)
        name = f"values/{data['run']}-{data['attempt']}"
        if "set_iter" in data:
            data["set_iter"] = values.store_each_if_large(data["set_iter"], f"{name}-set_iter")
        if "set_ctx" in data:
            data["set_ctx"] = values.store_each_if_large(data["set_ctx"], f"{name}-set_ctx")
        if "prev" in data:
            data["prev"] = values.store_if_large(data["prev"], f"{name}-prev")
        if "error" in data and "details" in data["error"]:
            data["error"] = {**data["error"], "details": values.store_if_large(data["error"]["details"], f"{name}-details")}
        return Event(event.name, event.ts, data)


def _retried(d: TaskProcessed, delay: float) -> TaskRetried:
    retried: TaskRetried = {"task": d["task"], "run": d["run"], "attempt": d["attempt"], "delay": delay}
    if "path" in d:
        retried["path"] = d["path"]
    if error := d["outcome"].get("error"):
        retried["error"] = error
    return retried
