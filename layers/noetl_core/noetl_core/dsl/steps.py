"""A step: admission, pipeline, router (formal specification 2.2, 4.2 and 8; canonical step spec 5.2 and 5.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from noetl_core.dsl.diagnostics import MIGRATE, suggest
from noetl_core.dsl.kinds import words
from noetl_core.dsl.load import Node
from noetl_core.dsl.loops import FAILURE_MODES, iterators, loop
from noetl_core.dsl.model import Arc, Executor, FailureMode, Join, Loop, Router, Step, Task, TaskPolicy
from noetl_core.dsl.numbers import JOIN_COUNT, PRIORITY, TIMEOUT
from noetl_core.dsl.policy import OnUnmatched, admission, condition, task_policy, written
from noetl_core.dsl.reader import Reader, is_template
from noetl_core.dsl.specs import LOOP_KEYS, STEP_KEYS, handed_down, merge
from noetl_core.dsl.sugar import pipeline
from noetl_core.dsl.tasks import RawTask, TaskScope, single_task
from noetl_core.dsl.templates import scalars_below

STEP_FIELDS: Final = words("step desc spec loop tool next args input set_ctx set compensate")
LEGACY_STEP: Final = {
    "when": "admission stands in spec.policy.admit.rules",
    "case": "outcomes are handled by task policy, routes by next.arcs",
    "vars": "write set_ctx or set_iter in a task policy",
    "pipe": "a list under tool is a pipeline",
    "sink": "storage is a task of its own",
    "eval": "outcomes are handled by spec.policy.rules of a task",
    "call": "a tool stands under tool",
    "type": "kind of the tool says what runs",
    "retry": "retry is a directive of task policy",
    "collect": "write set_ctx with a reducer",
    "as": "a result is steps.<name>.result",
    "save": "storage is a task of its own",
}
POLICY_KEYS: Final = words("admit lifecycle failure emit task tracing quotas compensation resources")
NO_EFFECT: Final = ("emit", "tracing", "quotas")
ARC_KEYS: Final = words("step when args input set_ctx set spec desc")
LEGACY_ARC: Final = {"then": "a guard and its target stand in one arc", "else": "an arc without when comes last"}
NEXT_POLICY_KEYS: Final = words("priority dedupe partitioning ordering")


@dataclass(slots=True)
class StepScope:
    """What reading a step needs of the playbook around it."""

    executor: Executor
    spec: Mapping[str, Any] = field(default_factory=dict)
    """`executor.spec` as handed down."""
    policy: TaskPolicy | None = None
    on_unmatched: OnUnmatched = "continue"
    step_timeout: Any = None
    workbook: Mapping[str, RawTask] = field(default_factory=dict)


def step(r: Reader, node: Node, name: str, scope: StepScope) -> Step:
    """Read one step; errors are reported and the wrong parts left out."""
    what = f'step "{name}"'
    entries = r.keys(node, STEP_FIELDS, what, LEGACY_STEP)
    spec = entries.get("spec")
    own = handed_down(r, spec, STEP_KEYS, f"spec of {what}", extensions=scope.executor.extensions)
    policy = _policy(r, spec, what)
    lifecycle = policy.get("lifecycle")
    timing = {} if lifecycle is None else r.keys(lifecycle, ("timeout_s", "deadline_s"), f"lifecycle of {what}")
    failure = policy.get("failure")
    modes = {} if failure is None else r.keys(failure, ("mode",), f"failure of {what}")
    failure_mode: FailureMode = r.choice(modes.get("mode"), FAILURE_MODES, f"failure mode of {what}") or "fail_fast"

    loop_node = entries.get("loop")
    looped = None if loop_node is None else loop(r, loop_node, name, failure_mode)
    tasks = TaskScope(
        name,
        _layers(r, name, scope, own, loop_node),
        scope.policy,
        scope.on_unmatched,
        scope.workbook,
        scope.executor.extensions,
    )
    if "task" in policy:
        tasks.policy = task_policy(r, policy["task"], f"tasks of {what}", scope.on_unmatched, tasks.jumps) or scope.policy
    body = _tool(r, entries.get("tool"), tasks)
    check_jumps(r, tasks)
    _check_body(r, node, entries, name)
    if looped is not None and "tool" not in entries:
        r.report("E114", (node, "loop"), f"{what} has a loop but no tool", "a loop repeats the step's tool")
    set_iter, set_ctx = written(r, node, what)
    if set_iter:
        r.report("E114", (node, "set"), f"{what} cannot write iter: it belongs to one iteration", "write it in a task")
    if "input" in entries and "args" in entries:
        r.report("E114", (node, "input"), f"{what} has args and input", "keep args")
    timeout = r.number(timing.get("timeout_s"), f"timeout_s of {what}", TIMEOUT)
    undo = entries.get("compensate") or policy.get("compensation")
    if "compensate" in entries and "compensation" in policy:
        r.report("E114", (node, "compensate"), f"{what} has compensate and spec.policy.compensation", "keep compensate")
    undoing, undo_loop = _compensate(r, undo, name, tasks)
    args_node = entries.get("args") or entries.get("input")
    args = r.values(args_node, f"args of {what}")
    each = _each(r, args_node, looped)
    return Step(
        name=name,
        tasks=body,
        router=_router(r, entries.get("next"), name),
        loop=looped,
        desc=r.prose(entries.get("desc"), f"desc of {what}"),
        admission=admission(r, policy.get("admit"), name),
        join=_join(r, spec.get("join") if spec is not None else None, what),
        args={k: v for k, v in args.items() if k not in each},
        each_args={k: v for k, v in args.items() if k in each},
        set_ctx=set_ctx,
        pool=_pool(r, spec, policy, what) or scope.executor.pool,
        timeout_s=timeout if "timeout_s" in timing else scope.step_timeout,
        deadline_s=r.number(timing.get("deadline_s"), f"deadline_s of {what}", TIMEOUT),
        failure_mode=failure_mode,
        compensate=undoing,
        compensate_loop=undo_loop,
        spec=own,
        path=node.path,
    )


def _check_body(r: Reader, node: Node, entries: Mapping[str, Node], name: str) -> None:
    if "tool" in entries or "next" in entries:
        return
    if name == "end":
        r.report("W405", node, 'step "end" has neither tool nor next', "arcs may simply stop; or give it a tool", "note")
    elif isinstance(node.value, dict) and all(k in STEP_FIELDS or k.startswith("x-") for k in node.value):
        r.report("E116", node, f'step "{name}" has neither tool nor next', "give it one of them")


def _policy(r: Reader, spec: Node | None, what: str) -> dict[str, Node]:
    node = spec.get("policy") if spec is not None else None
    if node is None:
        return {}
    if isinstance(node.value, dict) and "rules" in node.value:
        message = f"policy of {what} has rules: control actions belong to tasks"
        r.report("E126", (node, "rules"), message, "write them in spec.policy of a task, or as default in spec.policy.task")
    entries = r.keys(node, POLICY_KEYS | {"rules"}, f"policy of {what}")
    r.no_effect(node, NO_EFFECT, f"policy of {what}")
    return entries


def _layers(r: Reader, name: str, scope: StepScope, own: Mapping[str, Any], loop_node: Node | None) -> dict[str, Any]:
    layers = merge(scope.spec, own)
    while loop_node is not None:
        what = f'spec of the loop of step "{name}"'
        spec = loop_node.get("spec")
        layers = merge(layers, handed_down(r, spec, LOOP_KEYS, what, extensions=scope.executor.extensions))
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
    r.report("E112", node, f'tool of step "{scope.step}" must be a list of tasks or one tool, not {r.word(node)}')
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


def _pool(r: Reader, spec: Node | None, policy: Mapping[str, Node], what: str) -> str | None:
    resources = policy.get("resources")
    chosen = r.keys(resources, ("pool", "memory_mb"), f"resources of {what}") if resources is not None else {}
    if resources is not None:
        r.no_effect(resources, ("memory_mb",), f"resources of {what}")
    return r.name((spec.get("pool") if spec is not None else None) or chosen.get("pool"), "a pool")


def _join(r: Reader, node: Node | None, what: str) -> Join | None:
    """Read `all`, `any`, or `{count: n}` (resolution 13)."""
    if node is None:
        return None
    if isinstance(node.value, dict):
        entries = r.keys(node, ("count",), f"join of {what}")
        if "count" not in entries:
            r.missing(node, "count", f"join of {what} has no count", "join: all, any or {count: n}")
            return None
        count = r.number(entries["count"], f"count of join of {what}", JOIN_COUNT)
        return Join("count", count or 1)
    mode = r.choice(node, ("all", "any"), f"join of {what}")
    return None if mode is None else Join(mode)


def _compensate(r: Reader, node: Node | None, name: str, body: TaskScope) -> tuple[tuple[Task, ...], Loop | None]:
    """Read the tasks that compensate the step, and their own loop: one tool, a list, or `{loop: ..., tool: ...}`."""
    if node is None:
        return (), None
    what, looped = f'compensation of step "{name}"', None
    if isinstance(node.value, dict) and ("tool" in node.value or "loop" in node.value):
        entries = r.keys(node, ("loop", "tool"), what)
        if "loop" in entries:
            looped = loop(r, entries["loop"], name, "fail_fast")
            if looped is not None and looped.exec == "distributed":
                message = f"the loop of the {what} cannot be distributed: one worker undoes a step"
                r.report("E114", entries["loop"], message, "leave exec out")
        if "tool" not in entries:
            r.missing(node, "tool", f"{what} has a loop but no tool", "tool: [...]", code="E114")
            return (), None
        node = entries["tool"]
    scope = TaskScope(name, body.spec, body.policy, body.on_unmatched, body.workbook, body.extensions)
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
            r.report("E120", node, f"{what} is {form}: a legacy dialect; arcs stand in next.arcs", MIGRATE)
        else:
            r.report("E112", node, f"{what} must be a mapping with arcs, not {r.word(node)}", "next: { arcs: [...] }")
        return None
    entries = r.keys(node, ("spec", "arcs"), what, {"step": "arcs stand in next.arcs", "when": "guards stand in next.arcs"})
    if "arcs" not in entries and not {"step", "when"} & set(node.value):
        r.missing(node, "arcs", f"{what} has no arcs", "next: { arcs: [...] }")
    spec = entries.get("spec")
    options = {} if spec is None else r.keys(spec, ("mode", "policy"), f"spec of {what}")
    policy = options.get("policy")
    hints = {} if policy is None else r.keys(policy, NEXT_POLICY_KEYS, f"policy of {what}")
    if policy is not None:
        r.no_effect(policy, ("partitioning", "ordering"), f"policy of {what}")
    return Router(
        arcs=tuple(_arc(r, arc, i, name) for i, arc in enumerate(r.sequence(entries.get("arcs"), f"arcs of {what}"))),
        mode=r.choice(options.get("mode"), ("exclusive", "inclusive"), f"mode of {what}") or "exclusive",
        priority=r.number(hints.get("priority"), f"priority of {what}", PRIORITY),
        dedupe=_dedupe(r, hints.get("dedupe"), what),
    )


def _dedupe(r: Reader, node: Node | None, what: str) -> bool | str | None:
    """Read `dedupe`: true compares the token's args; a template gives the value to compare."""
    if node is None or isinstance(node.value, bool) or is_template(node.value):
        return None if node is None else node.plain()
    r.report("E112", node, f"dedupe of {what} must be true or an expression, not {r.word(node)}", 'dedupe: "{{ args.id }}"')
    return None


def _arc(r: Reader, node: Node, index: int, name: str) -> Arc:
    what = f'arc {index} of step "{name}"'
    entries = r.keys(node, ARC_KEYS, what, LEGACY_ARC)
    target = r.text(entries.get("step"), f"step of {what}")
    if "step" not in entries:
        r.missing(node, "step", f"{what} names no step", "step: <name>")
    if "input" in entries and "args" in entries:
        r.report("E114", (node, "input"), f"{what} has args and input", "keep args")
    if "spec" in entries:
        r.report("W403", (node, "spec"), f"spec of {what} is accepted but has no effect", "", "note")
    r.prose(entries.get("desc"), f"desc of {what}")
    set_iter, set_ctx = written(r, node, what)
    if set_iter:
        r.report("E114", (node, "set"), f"{what} cannot write iter: it belongs to one iteration", "write ctx, or args")
    when = entries.get("when")
    return Arc(
        index=index,
        step=target or "",
        when=None if when is None else condition(r, when, what),
        args=r.values(entries.get("args") or entries.get("input"), f"args of {what}"),
        set_ctx=set_ctx,
        path=node.path,
    )
