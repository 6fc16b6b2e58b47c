"""Names in templates that nothing binds, and workload keys that nothing reads (formal specification 3.2, resolutions 8 and
14).

A name is reported only where it can have no value. Not reported: names that a request may add (`workload` of a playbook that
declares none), and names read with `default(...)`, `is defined`, `or` or an `if`. Templates that pipelines share may read the
names that any of them binds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from jinja2 import nodes

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.inputs import READABLE, TRIGGER_KEYS, default_scalars
from noetl_core.dsl.lint.admission import ctx_written
from noetl_core.dsl.lint.children import Called, child_of
from noetl_core.dsl.lint.context import Lint, task_nodes
from noetl_core.dsl.lint.guards import path_of
from noetl_core.dsl.lint.results import it_has, misspelt_outcome
from noetl_core.dsl.lint.shapes import Env, Shapes
from noetl_core.dsl.lint.typed import misspelt, shape_of
from noetl_core.dsl.lint.unused import unused
from noetl_core.dsl.model import Step, Task
from noetl_core.dsl.reading.diagnostics import close, suggest
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.steps.loops import iterators
from noetl_core.dsl.templates import scalars_below
from noetl_core.expr import FUNCTIONS, METHODS, Compiled
from noetl_core.expr.rendering import NO_ENVIRONMENT
from noetl_core.expr.scope import JOB, JOB_FIELDS, TRIGGER

CONTROL: Final = words("workload ctx args steps execution_id")
WORKER: Final = words("iter keychain _prev _task _attempt _outcome")
KEYCHAIN: Final = words("workload execution_id keychain")
STEP_ATTRIBUTES: Final = words("result status loop")
ENVIRONMENT: Final = words("env environ secrets secret")
EVENT_ATTRIBUTES: Final = words("name status result error loop step run_id")
OUTPUT: Final = words("status data result error")
TRIGGER_FIELDS: Final = words("kind name id scheduled_at previous_at event")
ERROR_ATTRIBUTES: Final = words("kind message retryable code details")
_WORDS: Final = {"null": "none", "nil": "none", "undefined": "is defined"}
"""Words of other languages, with what to write here."""
ITER_ALWAYS: Final = words("index parent")


@dataclass(frozen=True)
class Scope:
    """The names that templates may read at one place."""

    roots: frozenset[str]
    where: str
    args: frozenset[str]
    iter: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()
    env: Env | None = field(default=None, compare=False)
    """The shapes of the names that it reads; None: those of all templates."""


@dataclass
class Names:
    """The names that the playbook binds."""

    lint: Lint
    shapes: Shapes
    workload: frozenset[str] = frozenset()
    declares_inputs: bool = False
    ctx: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    arc_args: dict[str, set[str]] = field(default_factory=dict)
    suggestions: int = 100
    """The remaining number of searches for similar names. Each search compares with all names."""

    def suggest(self, name: str, known: frozenset[str]) -> str:
        self.suggestions -= 1
        return suggest(name, known) if self.suggestions >= 0 else ""

    def close(self, name: str, known: frozenset[str]) -> str:
        self.suggestions -= 1
        return close(name, known) if self.suggestions >= 0 else ""


def names(lint: Lint, called: Called | None = None) -> None:
    """Report W515 for every name that nothing binds, and W516 for every workload key that nothing reads."""
    bound = bound_names(lint, called)
    for place, scope in places(bound):
        _check(bound, place, scope)
    for scalar in default_scalars(lint.root):
        _check_scalar(bound, scalar, Scope(READABLE, "workload", frozenset()))
    unused(lint, bound.workload, bound.suggest)


def bound_names(lint: Lint, called: Called | None = None) -> Names:
    """Return the names that a valid playbook binds, with the shapes of their values."""
    playbook, compiled = lint.playbook, lint.r.compiled
    shapes = Shapes(
        lint,
        lambda text, env: shape_of(compiled[text], env) if text in compiled else None,
        lambda task: None if called is None else child_of(task.inputs.get("path"), task.inputs.get("version"), called),
    )
    bound = Names(
        lint,
        shapes,
        frozenset(playbook.workload) | frozenset((playbook.inputs or {}).get("properties") or ()) | TRIGGER_KEYS,
        bool(playbook.workload),
        _heads(
            *(key for step in playbook.steps for key in ctx_written(step)),
            *(key for task in playbook.workbook.values() for key in _task_ctx(task)),
            *_policy_writes(lint.root.get("executor"), "ctx"),
        ),
        frozenset(step.name for step in playbook.steps),
    )
    for step in playbook.steps:
        for arc in step.router.arcs if step.router is not None else ():
            bound.arc_args.setdefault(arc.step, set()).update(arc.args)
    return bound


def places(bound: Names) -> Iterator[tuple[Node, Scope]]:
    """Yield every part of the playbook whose templates are evaluated, with its scope."""
    lint, inside = bound.lint, set[Scope]()
    for step, node in zip(lint.playbook.steps, lint.step_nodes(), strict=True):
        for place, scope in _places(bound, step, node):
            yield place, scope
            if scope.where == "a task":
                inside.add(scope)
    yield from _shared_places(bound, inside)
    if (entries := lint.root.get("keychain")) is not None:
        yield entries, Scope(KEYCHAIN, "the keychain", frozenset())


def _heads(*keys: str) -> frozenset[str]:
    """Return the keys, and the parts of them before a dot."""
    return frozenset(keys) | {key.partition(".")[0] for key in keys}


# --- places -------------------------------------------------------------------------------------------------------------


def _places(bound: Names, step: Step, node: Node) -> Iterator[tuple[Node, Scope]]:
    """Yield every part of a step whose templates are evaluated, with its scope."""
    arc_args = frozenset(bound.arc_args.get(step.name, ()))
    outer = frozenset(iterators(step.loop))
    args = arc_args | frozenset(step.args)
    written = frozenset(_iter_written(step.tasks)) | frozenset(_policy_writes(bound.lint.root.get("executor"), "iter"))
    shapes = bound.shapes
    each = Scope(CONTROL | {"iter"}, "args of a step", args, outer | ITER_ALWAYS, env=shapes.inside(step))
    entering = Scope(CONTROL | {"event"}, "admission", arc_args)
    spec = node.get("spec")
    policy = spec.get("policy") if spec is not None else None
    admit = policy.get("admit") if policy is not None else None
    if admit is not None:
        yield admit, entering
    if policy is not None and (limit := policy.get("concurrency")) is not None:
        yield limit, replace(entering, where="concurrency of a step", args=args)
    for key in ("args", "input"):
        if (part := node.get(key)) is not None:
            for name, child in part.value.items() if isinstance(part.value, dict) else ():
                yield child, each if name in step.each_args else replace(entering, where="args of a step")
    for key in ("next", "set_ctx", "set"):
        if (part := node.get(key)) is not None:
            where = "an arc" if key == "next" else "set_ctx of a step"
            yield part, Scope(CONTROL | {"event"}, where, args, env=shapes.around(step))
    inside = Scope(
        _roots(step.tasks),
        "a task",
        args | frozenset(step.each_args),
        outer | written | ITER_ALWAYS,
        frozenset(task.name for task in step.tasks),
        shapes.inside(step),
    )
    loop = node.get("loop")
    while loop is not None:
        if (source := loop.get("in")) is not None:
            yield source, Scope(CONTROL | {"iter", "event"}, "loop.in", args, outer | ITER_ALWAYS)
        if (source := loop.get("cursor")) is not None:
            yield source, Scope(CONTROL | {"iter", "keychain"}, "loop.cursor", args, ITER_ALWAYS)
        loop = loop.get("loop")
    if (tool := node.get("tool")) is not None:
        for task in task_nodes(tool):
            yield from _task_places(bound, task, inside, step)
    if policy is not None and (default := policy.get("task")) is not None:
        yield default, replace(inside, roots=inside.roots | {"outcome"}, where="task policy")
    undo = node.get("compensate") or (policy.get("compensation") if policy is not None else None)
    if undo is not None:
        yield from _undo_places(bound, step, undo, args)


def _undo_places(bound: Names, step: Step, node: Node, args: frozenset[str]) -> Iterator[tuple[Node, Scope]]:
    """Yield the parts of a compensation: tasks, and maybe a loop, of their own."""
    outer = frozenset(iterators(step.compensate_loop)) | frozenset(_iter_written(step.compensate)) | ITER_ALWAYS
    names = frozenset(task.name for task in step.compensate)
    loop = node.get("loop") if isinstance(node.value, dict) else None
    while loop is not None:
        if (source := loop.get("in")) is not None:
            yield source, Scope(CONTROL | {"iter"}, "loop.in", args, outer)
        loop = loop.get("loop")
    whole = node.get("tool") if isinstance(node.value, dict) else None
    for task in task_nodes(whole if whole is not None else node):
        inside = Scope(_roots(step.compensate), "a task", args, outer, names, bound.shapes.inside(step, step.compensate))
        yield from _task_places(bound, task, inside, step)


def _roots(tasks: Sequence[Task]) -> frozenset[str]:
    """Return the names that tasks of a pipeline may read, including `callback` if one of them is a callback by token."""
    return CONTROL | WORKER | ({"callback"} if any(t.answered_by_token for t in tasks) else frozenset())


def _shared_places(bound: Names, inside: set[Scope]) -> Iterator[tuple[Node, Scope]]:
    """Yield the result, and the workbook's tasks and the executor's defaults, which see the names that any of the pipelines
    `inside` binds."""
    of_all = Scope(
        (CONTROL | WORKER).union(*(scope.roots for scope in inside)),
        "a task",
        frozenset().union(*(scope.args for scope in inside)),
        ITER_ALWAYS.union(_iter_written(tuple(bound.lint.playbook.workbook.values())), *(scope.iter for scope in inside)),
        frozenset().union(*(scope.tasks for scope in inside)),
    )
    if (workbook := bound.lint.root.get("workbook")) is not None:
        for task in task_nodes(workbook):
            yield from _task_places(bound, task, of_all)
    executor = bound.lint.root.get("executor")
    spec = executor.get("spec") if executor is not None else None
    for key, part in spec.value.items() if spec is not None and isinstance(spec.value, dict) else ():
        if key == "result":
            yield part, Scope(CONTROL, "the execution's result", frozenset())
        elif key == "on_failure":
            yield part, Scope(READABLE, "on_failure", frozenset())
        elif key == "search":
            yield part, Scope(READABLE | {"ctx", "trigger"}, "search", frozenset())
        elif key != "policy":
            yield part, of_all
        else:
            for name in ("concurrency", "priority"):
                if (limit := part.get(name)) is not None:
                    yield limit, Scope(CONTROL, f"{name} of the executor", frozenset())
            if (default := part.get("task")) is not None:
                yield default, replace(of_all, roots=of_all.roots | {"outcome"}, where="task policy")


def _task_places(bound: Names, task: Node, inside: Scope, step: Step | None = None) -> Iterator[tuple[Node, Scope]]:
    judged = replace(inside, roots=inside.roots - {"callback"} | {"outcome"}, where="task policy")
    if not isinstance(task.value, dict):
        yield task, judged
        return
    judged = replace(judged, env=bound.shapes.judged(inside.env, task.path, step))
    for key, child in task.value.items():
        if key == "spec" and isinstance(child.value, dict):
            for name, part in child.value.items():
                yield part, judged if name == "policy" else inside
        elif key in ("set_ctx", "set_iter", "set"):
            yield child, judged
        elif key not in ("desc", "description") and not key.startswith("x-"):
            yield child, inside


def _iter_written(tasks: Sequence[Task]) -> Iterator[str]:
    for task in tasks:
        yield from task.set_iter
        for rule in task.policy.rules if task.policy is not None else ():
            yield from rule.then.set_iter


def _task_ctx(task: Task) -> Iterator[str]:
    yield from task.set_ctx
    for rule in task.policy.rules if task.policy is not None else ():
        yield from rule.then.set_ctx


def _policy_writes(node: Node | None, scope: str) -> Iterator[str]:
    """Return the keys that a default task policy of the executor writes."""
    for key in ("spec", "policy", "task"):
        node = node.get(key) if node is not None else None
    stack = [node] if node is not None else []
    while stack:
        part = stack.pop()
        if isinstance(part.value, dict):
            for key, child in part.value.items():
                if key == f"set_{scope}" and isinstance(child.value, dict):
                    yield from child.value
                elif key == "set" and isinstance(child.value, dict):
                    yield from (k.partition(".")[2] for k in child.value if k.startswith(f"{scope}."))
                stack.append(child)
        elif isinstance(part.value, list):
            stack.extend(part.value)


# --- unbound names ------------------------------------------------------------------------------------------------------


def _check(bound: Names, place: Node, scope: Scope) -> None:
    for scalar in scalars_below(place):
        _check_scalar(bound, scalar, scope)


def _check_scalar(bound: Names, scalar: Node, scope: Scope) -> None:
    lint, reported = bound.lint, False
    for read in lint.r.reads.get(scalar.value, ()):
        found = _judge(bound, scope, read.path)
        if found is not None and not _guarded(lint.r.compiled[scalar.value], read.path):
            reported = True
            lint.report_read("W515", scalar, read, *found)
    if not reported and scalar.value in lint.r.compiled:
        env = bound.shapes.roots if scope.env is None else scope.env
        for miss in misspelt(lint.r.compiled[scalar.value], env, bound.close):
            lint.report_read("W515", scalar, miss.read, miss.message, miss.hint, miss.name)


def _judge(bound: Names, scope: Scope, path: tuple[str, ...]) -> tuple[str, str] | None:
    """Return message and hint for a path that nothing binds; None when something may bind it."""
    root = path[0]
    wrong = misspelt_outcome(path) if root in scope.roots else None
    if wrong is not None:
        return wrong
    if root in scope.roots:
        return _below(bound, scope, path) if len(path) > 1 and path[1] not in METHODS else None
    if root in scope.tasks or root in FUNCTIONS or root in _binding(bound, scope):
        return None
    if root == JOB:
        known = path[1:2] and path[1] not in JOB_FIELDS and path[1] not in METHODS
        return (f"job has no {path[1]}", suggest(path[1], JOB_FIELDS) or it_has(JOB_FIELDS)) if known else None
    if root == TRIGGER:
        known = path[1:2] and path[1] not in TRIGGER_FIELDS and path[1] not in METHODS
        return (f"trigger has no {path[1]}", suggest(path[1], TRIGGER_FIELDS) or it_has(TRIGGER_FIELDS)) if known else None
    if root == "output" and "event" in scope.roots and len(path) > 1:
        return f"output has no {path[1]}", suggest(path[1], OUTPUT) or it_has(OUTPUT)
    if root in ENVIRONMENT:
        return f'nothing binds "{root}" in {scope.where}', NO_ENVIRONMENT
    if root in WORKER or root in ("outcome", "event"):
        return f"{root} means nothing in {scope.where}", _elsewhere(root)
    if root in _WORDS:
        return f'nothing binds "{root}" in {scope.where}', f"write {_WORDS[root]}"
    if root == "error" and path[1:2] and path[1] in ERROR_ATTRIBUTES and scope.roots & {"outcome", "event"}:
        owner = "outcome" if "outcome" in scope.roots else "event"
        return f'nothing binds "error" in {scope.where}', f"write {owner}.{'.'.join(path)}"
    near = bound.suggest(root, _binding(bound, scope) | scope.roots | scope.tasks)
    if not near and not bound.declares_inputs:
        return None
    return f'nothing binds "{root}" in {scope.where}', near or "write the namespace: workload, ctx, iter, args or steps"


def _elsewhere(root: str) -> str:
    return {
        "outcome": "read it in task policy and set_ctx of a task; in a task, _outcome is the outcome of the task before",
        "event": "read it in arcs, set_ctx of a step and admission",
    }.get(root, "it belongs to the run of a step: pass it on by ctx, or as the step's result")


def _binding(bound: Names, scope: Scope) -> frozenset[str]:
    """Return the mappings that may bind a bare name (resolution 14)."""
    return scope.args | bound.ctx | scope.iter | bound.workload | bound.steps


def _below(bound: Names, scope: Scope, path: tuple[str, ...]) -> tuple[str, str] | None:
    root, name = path[:2]
    known: frozenset[str] | None = None
    hint = ""
    if root == "workload" and bound.declares_inputs:
        known, hint = bound.workload, f"declare it, as null if every request gives it: workload: {{ {name}: null }}"
    elif root == "ctx":
        known, hint = bound.ctx, "nothing writes it; if requests pass it as ctx, read it with default(...)"
    elif root == "args":
        known, hint = scope.args, "no arc that leads here gives it, nor does args of the step"
    elif root == "iter":
        known, hint = scope.iter, "neither an iterator nor a set_iter of this step"
    elif root == "steps":
        known, hint = bound.steps, "there is no such step"
        if name in bound.steps and len(path) > 2 and path[2] not in STEP_ATTRIBUTES:
            meant = bound.shapes.fields_of_step(name)
            near = path[2] if path[2] in meant else close(path[2], meant)
            if near:
                return f"steps.{name} has no {path[2]}", f"write steps.{name}.result.{near}"
            if path[2] in ("stats", "results"):
                return f"steps.{name} has no {path[2]}", f"for a loop, write {name}.{path[2]} or steps.{name}.result.{path[2]}"
            return f"steps.{name} has no {path[2]}", suggest(path[2], STEP_ATTRIBUTES) or "it has result, status and loop"
    elif root == "event" and name not in EVENT_ATTRIBUTES:
        return f"event has no {name}", suggest(name, EVENT_ATTRIBUTES) or it_has(EVENT_ATTRIBUTES)
    if known is None or name in known:
        return None
    if f"{root}.{name}" in known:
        return f"nothing binds {root}.{name}", f"set_{root} names the key alone: {name}, not {root}.{name}"
    return f"nothing binds {root}.{name}", bound.suggest(name, known) or hint


def _guarded(compiled: Compiled, path: tuple[str, ...]) -> bool:
    """Return whether the template itself allows for the name to be missing, at every place where that matters."""
    stack: list[tuple[nodes.Node, bool]] = [(compiled.template, False)]
    while stack:
        node, soft = stack.pop()
        if isinstance(node, nodes.Name | nodes.Getattr | nodes.Getitem):
            found = path_of(node)
            if found is not None and found[: len(path)] == path:
                if not soft:
                    return False
                continue
        soft = soft or _allows_for_undefined(node)
        stack.extend((child, soft) for child in node.iter_child_nodes())
    return True


def _allows_for_undefined(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Filter):
        return node.name in ("default", "d")
    if isinstance(node, nodes.Test):
        return node.name in ("defined", "undefined", "none")
    return isinstance(node, nodes.Or | nodes.CondExpr | nodes.If)
