"""A step: admission, pipeline, router (formal specification 2.2, 4.2 and 8; canonical step spec 5.2 and 5.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from noetl_core.dsl.fields.flow import ARC, COMPENSATION, JOIN, ROUTER, ROUTER_POLICY, ROUTER_SPEC, STEP, STEP_FAILURE
from noetl_core.dsl.model import Arc, Executor, FailureMode, Join, Loop, Rate, Router, Step, Task, TaskPolicy
from noetl_core.dsl.reading.diagnostics import MIGRATE, suggest
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Content, Reader
from noetl_core.dsl.sections.shared_limits import check_rates, concurrency
from noetl_core.dsl.steps.cursors import check_cursor, refuse
from noetl_core.dsl.steps.loops import iterators, loop
from noetl_core.dsl.steps.policy import OnUnmatched, admission, task_policy, written
from noetl_core.dsl.steps.specs import LOOP_KEYS, STEP_KEYS, handed_down
from noetl_core.dsl.steps.sugar import pipeline
from noetl_core.dsl.steps.tasks import RawTask, TaskScope, single_task
from noetl_core.dsl.templates import scalars_below
from noetl_core.expr import is_template
from noetl_core.values.frozen import mutable
from noetl_core.values.mappings import deep_merge

_TIMEOUT: Final = ("spec", "policy", "lifecycle", "timeout_s")


@mutable
class StepScope:
    """The parts of the surrounding playbook that reading a step needs."""

    executor: Executor
    spec: Mapping[str, Any] = field(default_factory=dict)
    """`executor.spec` as handed down."""
    policy: TaskPolicy | None = None
    rate: Rate | None = None
    on_unmatched: OnUnmatched | None = None
    step_timeout: Any = None
    workbook: Mapping[str, RawTask] = field(default_factory=dict)


def step(r: Reader, node: Node, name: str, scope: StepScope) -> Step:
    """Read one step; errors are reported and the wrong parts left out."""
    what = f'step "{name}"'
    content = r.read(node, STEP, what)
    spec = content.node("spec")
    own = handed_down(r, spec, STEP_KEYS, f"spec of {what}", extensions=scope.executor.extensions)
    _refuse_rules(r, content.node("spec", "policy"), what)
    failure_mode: FailureMode = content.get("spec", "policy", "failure", "mode") or STEP_FAILURE["mode"].default

    loop_node = content.node("loop")
    looped = None if loop_node is None else loop(r, loop_node, name, failure_mode)
    tasks = TaskScope(
        name,
        _layers(r, name, scope, own, loop_node),
        scope.policy,
        scope.rate,
        scope.on_unmatched,
        scope.workbook,
        scope.executor.extensions,
    )
    default_policy = content.node("spec", "policy", "task")
    if default_policy is not None:
        policy, rate = task_policy(r, default_policy, f"tasks of {what}", scope.on_unmatched, tasks.jumps)
        tasks.policy, tasks.rate = policy or scope.policy, rate or scope.rate
    body = _tool(r, content.node("tool"), tasks)
    check_jumps(r, tasks)
    _check_body(r, node, content, name)
    if looped is not None and loop_node is not None:
        check_cursor(r, loop_node, looped, body)
    if looped is not None and "tool" not in content:
        r.report("E114", (node, "loop"), f"{what} has a loop but no tool", "a loop repeats the step's tool")
    set_iter, set_ctx = written(r, node, what)
    if set_iter:
        r.report("E114", (node, "set"), f"{what} cannot write iter: it belongs to one iteration", "write it in a task")
    args_node = _args(r, node, content, what)
    undo = content.node("compensate") or content.node("spec", "policy", "compensation")
    if "compensate" in content and content.node("spec", "policy", "compensation") is not None:
        r.report("E114", (node, "compensate"), f"{what} has compensate and spec.policy.compensation", "keep compensate")
    undoing, undo_loop = _compensate(r, undo, name, tasks)
    args = r.values(args_node, f"args of {what}")
    each = _each(r, args_node, looped)
    pool = content.get("spec", "pool") or content.get("spec", "policy", "resources", "pool") or scope.executor.pool
    check_rates(r, node, (*body, *undoing), pool, what)
    return Step(
        name=name,
        tasks=body,
        router=_router(r, content.node("next"), name),
        loop=looped,
        desc=content.get("desc"),
        admission=admission(r, content.node("spec", "policy", "admit"), name),
        join=_join(r, content.node("spec", "join"), what),
        args={k: v for k, v in args.items() if k not in each},
        each_args={k: v for k, v in args.items() if k in each},
        set_ctx=set_ctx,
        pool=pool,
        timeout_s=scope.step_timeout if content.node(*_TIMEOUT) is None else content.get(*_TIMEOUT),
        deadline_s=content.get("spec", "policy", "lifecycle", "deadline_s"),
        failure_mode=failure_mode,
        compensate=undoing,
        compensate_loop=undo_loop,
        concurrency=concurrency(r, content.at("spec", "policy", "concurrency"), what),
        spec=own,
        path=node.path,
    )


def _check_body(r: Reader, node: Node, content: Content, name: str) -> None:
    if "tool" in content or "next" in content:
        return
    if name == "end":
        r.report(
            "W405",
            node,
            'step "end" has neither tool nor next',
            "leave the step out, as an execution may end at any step; or give it a tool",
            "note",
        )
    elif isinstance(node.value, dict) and all(k in STEP.keys or k.startswith("x-") for k in node.value):
        r.report("E116", node, f'step "{name}" has neither tool nor next', "give it one of them")


def _refuse_rules(r: Reader, policy: Node | None, what: str) -> None:
    if policy is not None and policy.get("rules") is not None:
        message = f"policy of {what} has rules: control actions belong to tasks"
        r.report("E126", (policy, "rules"), message, "write them in spec.policy of a task, or as default in spec.policy.task")


def _args(r: Reader, node: Node, content: Content, what: str) -> Node | None:
    """Read the arguments of a step or an arc, under either name."""
    if "input" in content and "args" in content:
        r.report("E114", (node, "input"), f"{what} has args and input", "keep args")
    return content.node("args") or content.node("input")


def _layers(r: Reader, name: str, scope: StepScope, own: Mapping[str, Any], loop_node: Node | None) -> dict[str, Any]:
    layers = deep_merge(scope.spec, own)
    while loop_node is not None:
        what = f'spec of the loop of step "{name}"'
        spec = loop_node.get("spec")
        layers = deep_merge(layers, handed_down(r, spec, LOOP_KEYS, what, extensions=scope.executor.extensions))
        loop_node = loop_node.get("loop")
    return layers


def _tool(r: Reader, node: Node | None, scope: TaskScope) -> tuple[Task, ...]:
    if node is None:
        return ()
    if isinstance(node.value, dict):
        return single_task(r, node, scope)
    if isinstance(node.value, list):
        if not node.value:
            r.report("E112", node, f'tool of step "{scope.step}" is an empty list', "leave it out, or add a task")
        return pipeline(r, node, scope)
    key = "tool" if "tool" in node.path else "compensate"
    r.report("E112", node, f'{key} of step "{scope.step}" must be a list of tasks or one tool, not {r.word(node)}')
    return ()


def _each(r: Reader, args: Node | None, looped: Loop | None) -> frozenset[str]:
    """Return the args that read `iter`, or an iterator of the loop by its name."""
    if args is None or looped is None or not isinstance(args.value, dict):
        return frozenset()
    names = {"iter", *iterators(looped)}

    def reads(node: Node) -> bool:
        return any(read.path[0] in names for scalar in scalars_below(node) for read in r.reads.get(scalar.value, ()))

    return frozenset(key for key, child in args.value.items() if reads(child))


def check_jumps(r: Reader, scope: TaskScope) -> None:
    """Check that every `to` names a task of this pipeline (canonical step spec 7.5)."""
    for node, target in scope.jumps:
        if target not in scope.names:
            hint = suggest(target, scope.names) or f"its tasks: {', '.join(scope.names)}"
            r.report("E202", node, f'jump target "{target}" is not a task of step "{scope.step}"', hint)


def _join(r: Reader, node: Node | None, what: str) -> Join | None:
    """Read `all`, `any`, or `{count: n}` (resolution 13)."""
    if node is None:
        return None
    if isinstance(node.value, dict):
        content = r.read(node, JOIN, what)
        if "count" not in content:
            r.missing(node, "count", f"join of {what} has no count", "join: all, any or {count: n}")
            return None
        return Join("count", content.get("count") or 1)
    if type(node.value) is int:
        r.report("E113", node, f"join of {what} cannot be a number", f"join: {{ count: {node.value} }}")
        return None
    mode = r.choice(node, ("all", "any"), f"join of {what}")
    return None if mode is None else Join(mode)


def _compensate(r: Reader, node: Node | None, name: str, body: TaskScope) -> tuple[tuple[Task, ...], Loop | None]:
    """Read the tasks that compensate the step, and their own loop: one tool, a list, or `{loop: ..., tool: ...}`."""
    if node is None:
        return (), None
    what, looped = f'compensation of step "{name}"', None
    if isinstance(node.value, dict) and ("tool" in node.value or "loop" in node.value):
        content = r.read(node, COMPENSATION, what)
        if "loop" in content:
            looped = loop(r, content.nodes["loop"], name, "fail_fast")
            if looped is not None and looped.cursor is not None:
                refuse(
                    r,
                    content.nodes["loop"],
                    f"cannot be in the {what}",
                    "a compensation undoes the work of the step: loop over its results",
                )
            elif looped is not None and looped.exec == "distributed":
                message = f"the loop of the {what} cannot be distributed: one worker undoes a step"
                r.report("E114", content.nodes["loop"], message, "leave exec out")
        if "tool" not in content:
            r.missing(node, "tool", f"{what} has a loop but no tool", "tool: [...]", code="E114")
            return (), None
        node = content.nodes["tool"]
    scope = TaskScope(name, body.spec, body.policy, body.rate, body.on_unmatched, body.workbook, body.extensions)
    tasks = _tool(r, node, scope)
    check_jumps(r, scope)
    return tasks, looped


# --- router -------------------------------------------------------------------------------------------------------------


def _router(r: Reader, node: Node | None, name: str) -> Router | None:
    """Read `step.next` (formal specification 8)."""
    if node is None:
        return None
    what = f'next of step "{name}"'
    if not isinstance(node.value, dict):
        if isinstance(node.value, list | str):
            form = "a list" if isinstance(node.value, list) else "a name"
            r.report("E120", node, f"{what} is {form}: a legacy dialect; arcs belong in next.arcs", MIGRATE)
        else:
            r.report("E112", node, f"{what} must be a mapping with arcs, not {r.word(node)}", "next: { arcs: [...] }")
        return None
    content = r.read(node, ROUTER, what)
    if "arcs" not in content and not {"step", "when"} & set(node.value):
        r.missing(node, "arcs", f"{what} has no arcs", "next: { arcs: [...] }")
    priority = content.get("spec", "policy", "priority")
    return Router(
        arcs=tuple(_arc(r, arc, i, name) for i, arc in enumerate(r.sequence(content.node("arcs"), f"arcs of {what}"))),
        mode=content.get("spec", "mode") or ROUTER_SPEC["mode"].default,
        priority=ROUTER_POLICY["priority"].default if priority is None else priority,
        dedupe=_dedupe(r, content.node("spec", "policy", "dedupe"), what),
    )


def _dedupe(r: Reader, node: Node | None, what: str) -> Any:
    """Read `dedupe`: true compares the token's args; a template gives the value to compare."""
    if node is None or isinstance(node.value, bool) or is_template(node.value):
        return ROUTER_POLICY["dedupe"].default if node is None else node.plain()
    r.report("E112", node, f"dedupe of {what} must be true or an expression, not {r.word(node)}", 'dedupe: "{{ args.id }}"')
    return False


def _arc(r: Reader, node: Node, index: int, name: str) -> Arc:
    what = f'arc {index} of step "{name}"'
    content = r.read(node, ARC, what)
    if "step" not in content:
        r.missing(node, "step", f"{what} names no step", "step: <name>")
    args = _args(r, node, content, what)
    set_iter, set_ctx = written(r, node, what)
    if set_iter:
        r.report("E114", (node, "set"), f"{what} cannot write iter: it belongs to one iteration", "write ctx, or args")
    return Arc(
        index=index,
        step=content.get("step") or "",
        when=content.get("when"),
        args=r.values(args, f"args of {what}"),
        set_ctx=set_ctx,
        path=node.path,
    )
