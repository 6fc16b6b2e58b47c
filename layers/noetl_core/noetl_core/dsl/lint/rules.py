"""The rules of tasks' policies: errors that none of them matches (W402), and rules that no outcome matches (W525).

An error counts as unmatched only if an example of it is found: one that the task can have, with which every condition is
certainly false. Other names in its condition than the outcome count as undefined then, except those that a schema requires.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jinja2 import nodes

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.lint.context import Lint
from noetl_core.dsl.lint.guards import UNDEFINED, UNKNOWN, Facts, path_of
from noetl_core.dsl.lint.pipelines import ERROR, OK
from noetl_core.dsl.model import Task, TaskPolicy

_SETTLED: Final = ("workload", "ctx", "iter", "args", "steps")
"""Namespaces whose names may be undefined in some execution."""
_NO_ANSWER: Final[Facts] = {
    ("outcome", "http"): UNDEFINED,
    ("outcome", "result"): UNDEFINED,
    ("outcome", "error", "code"): UNKNOWN,
}


def _error(kind: str, *, retryable: bool = False) -> Facts:
    about: Facts = {("outcome", "error", "kind"): kind, ("outcome", "error", "retryable"): retryable}
    return {**ERROR, **about, **_NO_ANSWER}


def _answered(status: int, kind: str, *, retryable: bool = False) -> Facts:
    return {
        **_error(kind, retryable=retryable),
        ("outcome", "error", "code"): status,
        ("outcome", "http"): UNKNOWN,
        ("outcome", "http", "status"): status,
    }


_ANY: Final[Mapping[str, Facts]] = {"timeout": _error("timeout", retryable=True), "schema": _error("schema")}
"""Errors that a task of any kind may have, by their names in messages."""
_HTTP: Final[Mapping[str, Facts]] = {
    "the status 401": _answered(401, "auth"),
    "the status 404": _answered(404, "not_found"),
    "the status 429": _answered(429, "rate_limit", retryable=True),
    "the status 500": _answered(500, "server_error", retryable=True),
    "the status 409": _answered(409, "client_error"),
}
_TYPICAL: Final[Mapping[str, Mapping[str, Facts]]] = {
    "http": {**_HTTP, **_ANY},
    "python": {"python": _error("python"), **_ANY},
    "postgres": {"db_connection": _error("db_connection", retryable=True), **_ANY},
}


ERROR_KINDS: Final = words(
    "connection timeout rate_limit auth not_found client_error server_error schema parse template db_connection db_constraint"
    " db_deadlock db_timeout storage limit cancelled ctx_conflict python unsupported unknown admission lost"
)
"""The kinds of errors (`engine.outcome`)."""
_FREE: Final = words("playbook callback workbook")
"""Kinds of tasks whose errors may have kinds that other systems chose."""


STATUSES: Final = (("outcome", "http", "status"), ("outcome", "result", "status"))
"""Paths that are numbers."""
_HINT: Final = "outcome.status is ok or error; outcome.error exists only after an error, and its kinds are listed in results.md"


def policies(lint: Lint) -> None:
    """Report W402 and W525 for every policy, once, however many tasks inherit it."""
    seen: set[tuple[str | int, ...]] = set()
    for task in _tasks(lint):
        policy = task.policy
        if policy is None or task.label is not None or not policy.rules or "rules" not in policy.rules[0].path[-2:]:
            continue
        place = policy.rules[0].path[:-2]
        if place in seen:
            continue
        seen.add(place)
        own = place[: len(task.path)] == task.path
        _unmatched(lint, task, policy, _owner(lint, task, place, own=own), own=own)
        _dead(lint, task, policy)
        _numbers(lint, task, policy)


def _tasks(lint: Lint) -> Iterator[Task]:
    for step in lint.playbook.steps:
        yield from step.tasks
        yield from step.compensate
    yield from lint.playbook.workbook.values()


def _owner(lint: Lint, task: Task, place: tuple[str | int, ...], *, own: bool) -> str:
    if not own and place[0] == "executor":
        return "tasks of executor"
    if not own and place[0] == "workflow" and "tool" not in place:
        return f'tasks of step "{lint.step_name(place[:2]).value}"'
    return f'task "{task.name}"'


def _unmatched(lint: Lint, task: Task, policy: TaskPolicy, owner: str, *, own: bool) -> None:
    if (policy.on_unmatched or ("fail" if lint.guards.strict else "continue")) == "fail":
        return
    undefined: dict[tuple[str, ...], Any] = {
        (name,): UNDEFINED for name in _SETTLED if name != "workload" or lint.playbook.inputs is None
    }
    for name, facts in (_TYPICAL.get(task.kind, _ANY) if own else _ANY).items():
        if all(rule.when is not None and lint.guards.holds(rule.when, {**undefined, **facts}) is False for rule in policy.rules):
            message = f"policy of {owner} continues after an error that no rule matches, for example {name}"
            place = lint.at(policy.rules[0].path[:-2])
            lint.report("W402", (place, "rules"), message, "add an else rule, or on_unmatched: fail")
            return


def _numbers(lint: Lint, task: Task, policy: TaskPolicy) -> None:
    """W525 for the status of a response that is compared with text."""
    for rule in policy.rules:
        compiled = lint.r.compiled.get(rule.when) if isinstance(rule.when, str) else None
        for compared in compiled.template.find_all(nodes.Compare) if compiled is not None and task.kind == "http" else ():
            one = compared.ops[0].expr
            if path_of(compared.expr) in STATUSES and isinstance(one, nodes.Const) and isinstance(one.value, str):
                message = (
                    f"this condition compares a number with text: {'.'.join(path_of(compared.expr) or ())} with '{one.value}'"
                )
                lint.report("W525", lint.at(rule.path, "when"), message, f"write {one.value} without quotes")


def _dead(lint: Lint, task: Task, policy: TaskPolicy) -> None:
    closed = task.kind in KINDS and task.kind not in _FREE and policy.rules[0].path[:1] != ("executor",)
    errors = [{**ERROR, ("outcome", "error", "kind"): kind} for kind in sorted(ERROR_KINDS)] if closed else [ERROR]
    for rule in policy.rules:
        if rule.when is None or lint.guards.holds(rule.when) is False:
            continue
        if any(lint.guards.holds(rule.when, facts) is not False for facts in (OK, ERROR)) and (
            not closed or any(lint.guards.holds(rule.when, facts) is not False for facts in (OK, *errors))
        ):
            continue
        message = "this rule never matches: no outcome satisfies its condition"
        lint.report("W525", lint.at(rule.path, "when"), message, _HINT)
