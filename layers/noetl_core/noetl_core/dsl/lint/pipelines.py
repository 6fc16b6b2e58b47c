"""The tasks of a step: their possible order, their timeouts, and the writes of parallel iterations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from noetl_core.dsl.kinds import KINDS, PLUGINS, WAITING_KINDS
from noetl_core.dsl.lint.context import Lint, called
from noetl_core.dsl.lint.graph import components, is_cycle, reachable
from noetl_core.dsl.lint.guards import UNDEFINED, Facts, Guards
from noetl_core.dsl.model import Loop, Playbook, Step, Task, Then
from noetl_core.expr import referenced

OK: Final[Facts] = {("outcome", "status"): "ok", ("outcome", "error"): UNDEFINED}
ERROR: Final[Facts] = {("outcome", "status"): "error"}


_FOR_FAILURE: Final = re.compile(
    r"(^|_)(err|error|errors|fail|failed|failure|fallback|rescue|recover|rollback|dead_letter|dlq)(_|$)"
)
"""Words in names of tasks that are meant for failures."""

_SAME_FOR_ALL: Final = frozenset({"workload", "args", "steps", "execution_id", "keychain", "trigger"})
"""Names that are the same in every iteration of a loop."""


LONGEST_INVOCATION_S: Final = 900
"""The longest that AWS lets an invocation of Lambda run."""
_WITHIN_ONE: Final = KINDS.keys() - WAITING_KINDS - PLUGINS.keys() - {"transfer"}
"""Kinds whose work cannot continue after an invocation."""


def pipelines(lint: Lint) -> None:
    _timeouts(lint)
    for step in lint.playbook.steps:
        for tasks in (step.tasks, step.compensate):
            if len(tasks) > 1:
                _flow(lint, step, tasks)
            _endless(lint, step, tasks)
        if step.loop is not None:
            _races(lint, step, step.loop)


def _timeouts(lint: Lint) -> None:
    """W535: a literal timeout above `LONGEST_INVOCATION_S`.

    One that tasks inherit is reported at the first of them; that of a workbook's entry, only at the entry.
    """
    inherited = False
    for task in lint.playbook.all_tasks:
        limit, own = task.timeout_s, lint.at(task.path).get("spec")
        if task.kind not in _WITHIN_ONE or not isinstance(limit, int | float) or limit <= LONGEST_INVOCATION_S:
            continue
        where = None if own is None else own.get("timeout") or own.get("timeout_s")
        entry = lint.playbook.workbook.get(task.entry or "")
        if where is None and (inherited or (entry is not None and entry.timeout_s == limit)):
            continue
        inherited = inherited or where is None
        ends = f"an invocation of a stack's worker ends after {LONGEST_INVOCATION_S} s"
        message = f"{called(task)} may run for {limit:,g} s, but {ends}"
        hint = "poll the service that does the work, use kind: container, or divide the work among iterations"
        lint.report("W535", where or lint.at(task.path, "name"), message, hint)


def outcomes(guards: Guards, task: Task, facts: Facts) -> Iterator[Then]:
    """Return the `then` of every rule that may be taken under `facts`; continue where none may match (resolution 6)."""
    if task.policy is None:
        yield Then() if facts is OK else Then(do="fail")
        return
    for rule in task.policy.rules:
        matches = True if rule.when is None else guards.holds(rule.when, facts)
        if matches is not False:
            yield rule.then
        if matches is True:
            return
    unmatched = task.policy.on_unmatched or ("fail" if guards.strict else "continue")
    yield Then(do="fail") if facts is ERROR and unmatched == "fail" else Then()


def _flow(lint: Lint, step: Step, tasks: Sequence[Task]) -> None:
    """W512: an error branch that is also reached in sequence. W513: a task that nothing leads to."""
    place = {task.name: i for i, task in enumerate(tasks)}
    on_ok = [_next(lint.guards, tasks, place, i, OK) for i in range(len(tasks))]
    on_error = [_next(lint.guards, tasks, place, i, ERROR) for i in range(len(tasks))]
    reached = {0}
    stack = [0]
    while stack:
        i = stack.pop()
        for target in on_ok[i] | on_error[i]:
            if target not in reached:
                reached.add(target)
                stack.append(target)
    for i, task in enumerate(tasks):
        if i not in reached and task.label is None:
            message = f"{called(task)} never runs: every task before it jumps or ends the pipeline, and no task jumps to it"
            lint.report("W513", lint.at(task.path, "name"), message, "jump to it, or remove it")
    for i in range(1, len(tasks)):
        if i - 1 in reached and i in on_ok[i - 1] and _is_error_branch(lint.guards, tasks, i, reached):
            before = called(tasks[i - 1])
            message = f"{called(tasks[i])} is for failures, and {before} falls through into it when it succeeds"
            hint = f'end {before} with do: break, or jump over "{tasks[i].name}"'
            lint.report("W512", lint.at(tasks[i].path, "name"), message, hint)


def _endless(lint: Lint, step: Step, tasks: Sequence[Task]) -> None:
    """W519: tasks that jump back among themselves with no outcome of a rule that leaves them. Tasks that wait may be meant
    so."""
    place = {task.name: i for i, task in enumerate(tasks)}
    if not any(then.do == "jump" and place[then.to or ""] <= i for i, task in enumerate(tasks) for then in _thens(task)):
        return
    end = len(tasks)
    after = [_goes_on(lint.guards, task, place, i) for i, task in enumerate(tasks)]
    graph: list[list[int]] = [*(sorted(targets) for targets in after), []]
    entered = reachable(graph, [0])
    for component in components(graph):
        inside = set(component)
        if end in inside or not is_cycle(graph, component) or not inside <= entered:
            continue
        if any(not after[i] <= inside or tasks[i].kind in WAITING_KINDS for i in inside):
            continue
        last = max(i for i in inside if any(t <= i for t in after[i]))
        where, message = (
            _place_of_jump(lint, tasks[last]),
            f'the tasks of step "{step.name}" never end: {called(tasks[last])} jumps back',
        )
        lint.report(
            "W519", where, message + ", whatever happens", "give the jump a condition, or write do: break in a rule before it"
        )


def _thens(task: Task) -> Iterator[Then]:
    return (rule.then for rule in task.policy.rules) if task.policy is not None else iter(())


def _goes_on(guards: Guards, task: Task, place: Mapping[str, int], i: int) -> set[int]:
    """Return the tasks to which a task may lead according to its policy. An error without a rule does not count: it is not meant
    to end
    the cycle."""
    out = set()
    for facts in (OK, ERROR) if task.policy is not None else (OK,):
        for then in outcomes(guards, task, facts):
            if then.do == "jump" and then.to is not None:
                out.add(place[then.to])
            elif then.do == "retry":
                out.add(len(place))  # its attempts come to an end, and fail the pipeline
            else:
                out.add(i + 1 if then.do == "continue" else len(place))
    return out


def _place_of_jump(lint: Lint, task: Task) -> Any:
    """Return the first rule of the task that jumps; the task itself when it was compiled from sugar."""
    for rule in task.policy.rules if task.policy is not None and task.label is None else ():
        if rule.then.do == "jump":
            entry = lint.at(rule.path)
            for node in (entry.get("then"), lint.at(rule.path, "else"), lint.at(rule.path, "else", "then")):
                if node is not None and node.get("to") is not None:
                    return node, "to"
    return lint.at(task.path)


def _next(guards: Guards, tasks: Sequence[Task], place: Mapping[str, int], i: int, facts: Facts) -> set[int]:
    out = set()
    for then in outcomes(guards, tasks[i], facts):
        if then.do == "continue" and i + 1 < len(tasks):
            out.add(i + 1)
        elif then.do == "jump" and then.to is not None:
            out.add(place[then.to])
    return out


def _is_error_branch(guards: Guards, tasks: Sequence[Task], i: int, reached: set[int]) -> bool:
    """Return whether the task handles errors: only errors jump to it, and its name or its work suggests it."""
    task = tasks[i]
    if task.label is not None:
        return False
    for source in reached:
        if any(then.do == "jump" and then.to == task.name for then in outcomes(guards, tasks[source], OK)):
            return False
    jumped = any(
        then.do == "jump" and then.to == task.name for source in reached for then in outcomes(guards, tasks[source], ERROR)
    )
    return jumped and (_FOR_FAILURE.search(task.name.lower()) is not None or _reads_error(task) or _always_fails(guards, task))


def _reads_error(task: Task) -> bool:
    return any(path[:2] == ("_outcome", "error") for path in referenced(dict(task.inputs)))


def _always_fails(guards: Guards, task: Task) -> bool:
    return {then.do for facts in (OK, ERROR) for then in outcomes(guards, task, facts)} == {"fail"}


# --- ctx in parallel loops ----------------------------------------------------------------------------------------------


def _races(lint: Lint, step: Step, loop: Loop) -> None:
    """W514: a ctx key that several iterations of a parallel loop write without a reducer (resolution 10)."""
    open_loops = []
    inner: Loop | None = loop
    while inner is not None:
        if inner.mode == "parallel":
            open_loops.append(inner)
        inner = inner.inner
    written: dict[str, list[Any]] = {}
    first: dict[str, Task] = {}
    for task in step.tasks:
        for key, value in _ctx_writes(task):
            written.setdefault(key, []).append(value)
            first.setdefault(key, task)
    for key, values in written.items():
        if all(key in found.reducers for found in open_loops) or not _differ(lint.playbook, values):
            continue
        task = first[key]
        message = f'iterations of the parallel loop of step "{step.name}" write ctx.{key}, and no reducer says how they combine'
        hint = f"loop.spec.policy.reducers: {{ {key}: append }} (or last, sum, merge, ...); for values of one iteration: set_iter"
        lint.report("W514", _place_of_write(lint, task, key), message, hint)


def _ctx_writes(task: Task) -> Iterator[tuple[str, Any]]:
    yield from task.set_ctx.items()
    for rule in task.policy.rules if task.policy is not None else ():
        yield from rule.then.set_ctx.items()


def _differ(playbook: Playbook, values: Sequence[Any]) -> bool:
    """Return whether iterations may write different values."""
    if any(value != values[0] for value in values):
        return True
    same = _SAME_FOR_ALL | set(playbook.workload)
    return any(path[0] not in same for path in referenced(values[0]))


def _place_of_write(lint: Lint, task: Task, key: str) -> Any:
    """Return where the key is written: on the task, otherwise in the first of its rules that writes it."""
    places = [lint.at(task.path)]
    for rule in task.policy.rules if task.policy is not None else ():
        entry = lint.at(rule.path)
        places += [entry.get("then") or entry, lint.at(rule.path, "else"), lint.at(rule.path, "else", "then")]
    for node in places:
        for section, name in (("set_ctx", key), ("set", f"ctx.{key}")):
            child = node.get(section)
            if child is not None and child.get(name) is not None:
                return child, name
    return places[0]
