"""Task policy: it turns the outcome of a task into the directive for its pipeline (formal specification 6; resolutions 6, 7
and 29)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from hashlib import blake2b
from typing import Any, cast

from noetl_core.dsl.model import UNSET, Do, Task, Then
from noetl_core.dsl.numbers import ATTEMPTS, DELAY, JITTER, value_of
from noetl_core.engine.outcome import LONGEST, Outcome
from noetl_core.events.shapes import DirectiveTaken, Failure
from noetl_core.expr import Scope, Secret, TemplateError, render, truthy
from noetl_core.values.frozen import frozen

MAX_DELAY_S = DELAY.high


@frozen
class Directive:
    """The next move of a pipeline, and the writes that belong to it. `matched` is the index of the rule, `else`, or None if no
    rule matched."""

    do: Do
    to: str | None = None
    delay: float = 0.0
    scope: str = "iteration"
    matched: int | str | None = None
    set_iter: Mapping[str, Any] = field(default_factory=dict)
    set_ctx: Mapping[str, Any] = field(default_factory=dict)
    prev: Any = UNSET
    error: Failure | None = None

    def as_dict(self, *, ruled: bool) -> DirectiveTaken:
        """Return the form that `TaskProcessed` stores; `matched` (null when no rule matched) is present only where there is a
        policy (resolution 6)."""
        out: DirectiveTaken = {"do": self.do}
        if self.to is not None:
            out["to"] = self.to
        if self.do == "retry":
            out["delay"] = self.delay
        if self.scope == "loop":
            out["scope"] = "loop"
        if ruled:
            out["matched"] = self.matched
        return out


def judge(task: Task, outcome: Outcome, attempt: int, task_run: str, scope: Scope) -> Directive:
    """Return the directive for `outcome`. `scope` contains `outcome` and the names of the pipeline. If a template fails, the task
    fails."""
    own = outcome.error.as_dict() if outcome.error is not None else None
    try:
        if outcome.status == "ok" and (task.set_iter or task.set_ctx):
            return _with_task_writes(task, outcome, attempt, task_run, scope)
        return _ruled(task, outcome, attempt, task_run, scope, own)
    except TemplateError as error:
        message = f"policy of {task.called}: {error}"
        return Directive("fail", error={"kind": error.kind, "message": message, "retryable": False})


def _ruled(task: Task, outcome: Outcome, attempt: int, task_run: str, scope: Scope, own: Failure | None) -> Directive:
    failed = outcome.status == "error"
    if task.policy is None:
        return Directive("fail", error=own) if failed else Directive("continue")
    for index, rule in enumerate(task.policy.rules):
        if rule.when is None or truthy(rule.when, scope):
            matched: int | str = "else" if rule.when is None else index
            return _directive(rule.then, matched, task, attempt, task_run, scope, own)
    if failed and (task.policy.on_unmatched or ("fail" if scope.strict else "continue")) == "fail":
        return Directive("fail", error=own)
    return Directive("continue")


def _directive(
    then: Then, matched: int | str, task: Task, attempt: int, task_run: str, scope: Scope, own: Failure | None
) -> Directive:
    set_iter = render(then.set_iter, scope, undefined_ok=True) if then.set_iter else {}
    set_ctx = render(then.set_ctx, scope, undefined_ok=True) if then.set_ctx else {}
    prev = UNSET if then.set_prev is UNSET else render(then.set_prev, scope, undefined_ok=True)
    do, delay = then.do, 0.0
    error: Failure | None = None
    if do == "retry":
        attempts = value_of(then.attempts, ATTEMPTS, "attempts", scope)
        if attempts is not None and attempt >= attempts:
            error = own or {"kind": "limit", "message": f"task {task.name} was tried {attempt} times", "retryable": False}
            return Directive("fail", matched=matched, set_iter=set_iter, set_ctx=set_ctx, error=error)
        delay = delay_of(then, attempt, task_run, scope)
    elif do == "fail":
        error = own or {"kind": "unknown", "message": f"failed by the policy of task {task.name}", "retryable": False}
        if then.error is not None:
            error = cast("Failure", {**error, **_error_fields(render(then.error, scope, undefined_ok=True, whole=True))})
    return Directive(do, then.to, delay, then.scope, matched, set_iter, set_ctx, prev, error)


def _error_fields(error: Any) -> dict[str, Any]:
    """Return the fields of the error with which a rule fails. A template that renders to nothing keeps the task's own error."""
    fields = error if isinstance(error, Mapping) else {"message": error}
    failure = {name: value for name, value in fields.items() if value is not None and value != ""}
    for name, length in LONGEST.items():
        if name in failure and not isinstance(failure[name], Secret):
            failure[name] = _shortened(str(failure[name]), length)
    return failure


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _with_task_writes(task: Task, outcome: Outcome, attempt: int, task_run: str, scope: Scope) -> Directive:
    """Apply `set_iter` and `set_ctx` of the task itself: when it ends ok, before its policy, which sees the written values."""
    set_iter = render(task.set_iter, scope, undefined_ok=True)
    set_ctx = render(task.set_ctx, scope, undefined_ok=True)
    written = scope.over(
        {"iter": {**(scope.get("iter") or {}), **set_iter}, "ctx": {**(scope.get("ctx") or {}), **set_ctx}},
    )
    d = _ruled(task, outcome, attempt, task_run, written, None)
    return replace(d, set_iter={**set_iter, **d.set_iter}, set_ctx={**set_ctx, **d.set_ctx})


def delay_of(then: Then, attempt: int, task_run: str, scope: Scope) -> float:
    """Return the seconds before attempt `attempt + 1` (resolution 7), from 0 to one year. Jitter is derived from the task run and
    the attempt, so a replay gives the same delay. Raises `TemplateError` for a delay that is not a number."""
    delay = value_of(then.delay, DELAY, "delay", scope)
    if delay is None:
        delay = 1.0 if then.backoff != "none" else 0.0
    if then.backoff == "linear":
        delay *= attempt
    elif then.backoff == "exponential":
        delay *= _power(then.backoff_multiplier, attempt - 1)
    most = value_of(then.max_delay, DELAY, "max_delay", scope)
    if most is not None:
        delay = min(delay, most)
    share = value_of(then.jitter, JITTER, "jitter", scope)
    if share:
        draw = int.from_bytes(blake2b(f"{task_run}:{attempt}".encode(), digest_size=4).digest(), "big") / 2**32
        delay *= 1 - share * draw
    return min(delay, MAX_DELAY_S)


def _power(base: float, exponent: int) -> float:
    """Return `base ** exponent`, limited to the longest delay."""
    try:
        return float(base**exponent)
    except OverflowError:
        return MAX_DELAY_S
