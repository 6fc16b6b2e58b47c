"""The inputs of the next task of a pass: templates rendered, references loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl_core.dsl.kinds import KINDS, WAITING_KINDS
from noetl_core.dsl.model import Rate, Task
from noetl_core.dsl.numbers import BURST, PER_SECOND, TIMEOUT, value_of
from noetl_core.engine.limits.keys import limit_key
from noetl_core.engine.limits.rates import Pace
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Scope, TemplateError, contains_lost, render
from noetl_core.expr.reading import GONE
from noetl_core.ports import NotFound
from noetl_core.worker.activation import Activation
from noetl_core.worker.attempt import Inputs
from noetl_core.worker.pipeline_passes import PipelinePasses
from noetl_core.worker.run_tree import PipelinePass
from noetl_core.worker.secrets.callback_tokens import CallbackTokens
from noetl_core.worker.values.inputs import CannotBegin, load_inputs


class TaskInputs:
    """Renders the tasks of an activation."""

    def __init__(
        self, activation: Activation, passes: PipelinePasses, tokens: CallbackTokens, takes_texts: Callable[[str], bool]
    ) -> None:
        self._activation, self._passes, self._tokens = activation, passes, tokens
        self._takes_texts = takes_texts
        """Returns whether tools of a kind take `JsonText` in place of large values."""
        self._limit = activation.playbook.executor.limits.max_input_bytes
        self._raw = {
            t.name: {k: t.inputs[k] for k in KINDS[t.kind].raw if k in t.inputs} for t in activation.step.tasks if t.kind in KINDS
        }
        """Inputs that are program text, which is never rendered."""

    def of(self, pass_: PipelinePass) -> Inputs:
        """Return the inputs of the pass's task, rendered and loaded once for each attempt. Raises `CannotBegin`."""
        attempt = pass_.attempt
        if attempt.inputs is None:
            attempt.inputs = self._rendered(pass_)
        return attempt.inputs

    def _rendered(self, pass_: PipelinePass) -> Inputs:
        task = pass_.task
        raw = self._raw.get(task.name)
        try:
            scope = self._passes.scope(pass_)
            callback = self._tokens.layer(pass_.pipe)
            if callback is not None:
                scope, self._activation.values.tainted = scope.over(callback), True
            scope = scope.over(pass_.pipe.locals(task))
            inputs = render({k: v for k, v in task.inputs.items() if k not in raw} if raw else task.inputs, scope)
            spec = render(task.spec, scope, undefined_ok=True) if task.spec else task.spec
            if self._activation.values.tainted and contains_lost([inputs, spec]):
                raise TemplateError(GONE)
            timeout = _timeout_of(task, scope) if task.timeout_s is not None or "timeout" in task.spec else None
            texts = task.kind not in WAITING_KINDS and self._takes_texts(task.kind)
            inputs, spec = self._loaded(task, inputs, texts=texts), self._loaded(task, spec) if spec else spec
        except TemplateError as error:
            raise CannotBegin(Outcome.failed(error.kind, f"inputs of task {task.name}: {error}")) from None
        except NotFound as error:
            raise CannotBegin(Outcome.failed("not_found", f"inputs of task {task.name}: {error}")) from None
        names = {"args": scope["args"], "workload": self._activation.view.workload, "ctx": pass_.ctx.view}
        return Inputs({**inputs, **raw} if raw else inputs, spec, timeout, names)

    def rate(self, pass_: PipelinePass, rate: Rate) -> tuple[str, Pace]:
        """Return the key and the pace of the rate that the pass's task shares. Raises `CannotBegin`."""
        task = pass_.task
        what = f"rate of task {task.name}"
        try:
            scope = self._passes.scope(pass_).over(pass_.pipe.locals(task))
            key = limit_key(render(rate.key, scope, whole=True), f"rate.key of task {task.name}")
            per_second = value_of(rate.per_second, PER_SECOND, f"per_second in {what}", scope)
            burst = value_of(rate.burst, BURST, f"burst in {what}", scope)
        except TemplateError as error:
            raise CannotBegin(Outcome.failed(error.kind, f"{what}: {error}", retryable=False)) from None
        assert per_second is not None
        return key, Pace(per_second, int(burst or 1))

    def _loaded(self, task: Task, inputs: Mapping[str, Any], *, texts: bool = False) -> dict[str, Any]:
        return load_inputs(task.kind, task.name, inputs, self._activation.values.resolve, self._limit, texts=texts)


def _timeout_of(task: Task, scope: Scope) -> float | None:
    """Return the task's timeout in seconds, after checking the timeouts of its parts. Raises `TemplateError`."""
    parts = task.spec.get("timeout")
    for part, value in parts.items() if isinstance(parts, Mapping) else ():
        value_of(value, TIMEOUT, f"timeout.{part} of task {task.name}", scope)
    return value_of(task.timeout_s, TIMEOUT, f"timeout_s of task {task.name}", scope)
