"""Tries one task: renders its inputs over given names, calls its tool once, and judges the outcome. Nothing is recorded."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from noetl_core.adapters.local.home import home
from noetl_core.adapters.local.packages import LocalPackages
from noetl_core.adapters.local.results import FileResultStore
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.dsl.kinds import ENGINE_KINDS, KINDS
from noetl_core.dsl.model import Playbook, Task
from noetl_core.dsl.numbers import TIMEOUT, value_of
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.pipelines.policy import Directive, judge
from noetl_core.expr import Scope, is_reference, referenced, render
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.registry import ToolRegistry, UnknownKind
from noetl_core.values.frozen import frozen

OF_THE_OUTCOME: Final = frozenset({"outcome", "_task"})
"""Names that the trial itself defines."""
TIMEOUT_S: Final = 300.0
"""The longest that a task without a timeout may take."""


class NoTrial(Exception):
    """The task cannot be tried; the message says why."""


@frozen
class Trial:
    """The inputs that the tool got, its outcome, and the directive of the task's policy (None: the tool was not called)."""

    inputs: Mapping[str, Any]
    undefined: tuple[str, ...]
    outcome: Outcome | None = None
    directive: Directive | None = None


def paths_read(task: Task) -> list[tuple[str, ...]]:
    """Return the names that a trial of the task reads, each with the literal part of its path; none is the beginning of another.
    Raises `NoTrial`."""
    if task.kind in ENGINE_KINDS:
        raise NoTrial(f"the engine itself runs tasks of kind {task.kind}: noetl render shows what their templates evaluate to")
    templates: list[Any] = [_rendered_inputs(task), dict(task.spec), task.timeout_s, dict(task.set_ctx), dict(task.set_iter)]
    for rule in () if task.policy is None else task.policy.rules:
        then = rule.then
        templates += [rule.when, dict(then.set_ctx), dict(then.set_iter), then.set_prev, then.error, then.delay, then.attempts]
    paths = [path for path in referenced(templates) if path[0] not in OF_THE_OUTCOME]
    return sorted(path for path in paths if not any(path[:n] in paths for n in range(1, len(path))))


def _rendered_inputs(task: Task) -> dict[str, Any]:
    """Return the task's inputs without program text, which is never rendered."""
    raw = KINDS[task.kind].raw if task.kind in KINDS else ()
    return {key: value for key, value in task.inputs.items() if key not in raw}


def try_task(
    playbook: Playbook,
    task: Task,
    names: Mapping[str, Any],
    *,
    step: str,
    path: tuple[int, ...] = (),
    strict: bool,
    resolve: Callable[[Any], Any],
    call: bool,
    log: Callable[..., None],
) -> Trial:
    """Render the task's inputs over `names`, call its tool with this machine's credentials, and judge the outcome.

    `resolve` returns the value of a reference. Without `call`, the tool is not called.
    The call has an idempotency key of its own, so that no service takes it for the recorded one. Raises `TemplateError`,
    `NoTrial`.
    """
    blanks: dict[tuple[str, str], None] = {}
    scope = Scope({**names, "_task": task.name}, resolve=resolve, strict=strict, blanks=blanks)
    inputs = {**task.inputs, **_whole(render(_rendered_inputs(task), scope), resolve)}
    undefined = tuple(f"{name or 'something'} is undefined in {template}" for name, template in blanks)
    if not call:
        return Trial(inputs, undefined)
    attempt = int(names.get("_attempt") or 1)
    with tempfile.TemporaryDirectory(prefix="noetl-try-") as folder:
        tool_call = ToolCall(
            kind=task.kind,
            inputs=inputs,
            spec=render(task.spec, scope, undefined_ok=True),
            execution_id="0",
            step=step,
            task=task.name,
            task_run_id=f"try-{uuid.uuid4().hex}",
            attempt=attempt,
            path=path,
            timeout_s=value_of(task.timeout_s, TIMEOUT, f"timeout_s of task {task.name}", scope) or TIMEOUT_S,
            results=FileResultStore(folder),
            secrets=LocalSecrets(home() / "credentials.json").get,
            requirements=playbook.executor.requirements,
            packages=LocalPackages(home()),
            log=log,
            names={name: names.get(name, {}) for name in ("args", "workload", "ctx")},
        )
        try:
            outcome = invoke(ToolRegistry().get(task.kind), tool_call)
        except UnknownKind as unknown:
            raise NoTrial(str(unknown)) from None
    directive = judge(task, outcome, attempt, tool_call.task_run_id, scope.over({"outcome": outcome.as_dict()}))
    return Trial(inputs, undefined, outcome, directive)


def _whole(value: Any, resolve: Callable[[Any], Any]) -> Any:
    """Return `value` with its references replaced."""
    if is_reference(value):
        return _whole(resolve(value), resolve)
    if isinstance(value, dict):
        return {key: _whole(part, resolve) for key, part in value.items()}
    return [_whole(part, resolve) for part in value] if isinstance(value, list) else value
