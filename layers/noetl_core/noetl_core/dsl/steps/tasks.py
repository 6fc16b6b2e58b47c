"""Tasks in all their forms -> `Task` (formal specification 2.4, canonical step spec 7, resolutions 1, 16 and 20)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from noetl_core.dsl.fields.kind import KindSpec, words
from noetl_core.dsl.fields.tools import BESIDE, LIBRARY, OUTPUT, TASK
from noetl_core.dsl.kinds import KINDS, WAITING_KINDS
from noetl_core.dsl.model import Path, Rate, Task, TaskPolicy
from noetl_core.dsl.numbers import BadNumber, Range, duration
from noetl_core.dsl.reading.diagnostics import suggest, suggest_word
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.sections.called_playbooks import check_called
from noetl_core.dsl.steps.nested import check_nested
from noetl_core.dsl.steps.policy import OfTask, OnUnmatched, task_policy, written
from noetl_core.dsl.steps.programs import check_program
from noetl_core.dsl.steps.scripts import read_script
from noetl_core.dsl.steps.secret_results import check_kind
from noetl_core.dsl.steps.specs import own_spec
from noetl_core.dsl.steps.transfers import check_mode, check_transfer, is_foreign
from noetl_core.expr import is_template
from noetl_core.values.frozen import frozen, mutable
from noetl_core.values.mappings import deep_merge

RESERVED: Final = words(
    "workload keychain ctx iter args steps execution_id outcome event output _prev _task _attempt _outcome loop"
)
"""Namespaces of templates, which a task name would hide (formal specification 3.2)."""

TASK_KEYS: Final = TASK.keys


def _task_fields(kind: KindSpec) -> frozenset[str]:
    return kind.accepted | (TASK_KEYS if "args" in kind.accepted else TASK_KEYS - {"input"})


TASK_FIELDS: Final = {name: _task_fields(kind) for name, kind in KINDS.items()}
"""The keys of a task by kind."""
TASK_FIELDS["workbook"] |= frozenset().union(*(k.accepted for k in KINDS.values()))

LEGACY_TASK: Final = {
    "eval": "outcomes are handled by spec.policy.rules",
    "policy": "policy belongs under spec: spec: { policy: { rules: [...] } }",
    "sink": "storage is a task of its own",
    "pipe": "a list of tasks is a pipeline",
    "case": "outcomes are handled by spec.policy.rules",
    "when": "to skip a task, use choose, or a rule of an earlier task with do: jump",
}


@mutable
class TaskScope:
    """The context that the tasks of one step share."""

    step: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    """executor < step < loop, as handed down."""
    policy: TaskPolicy | None = None
    """For tasks without one of their own (`executor.spec.policy.task`, `step.spec.policy.task`)."""
    rate: Rate | None = None
    """The same."""
    on_unmatched: OnUnmatched | None = None
    workbook: Mapping[str, RawTask] = field(default_factory=dict)
    extensions: bool = False
    jumps: list[tuple[Node, str]] = field(default_factory=list)
    names: dict[str, Node] = field(default_factory=dict)


@frozen
class RawTask:
    """A task as written, before layering."""

    name: str
    kind: str
    inputs: Mapping[str, Any]
    spec: Mapping[str, Any]
    policy: TaskPolicy | None
    set_iter: Mapping[str, Any]
    set_ctx: Mapping[str, Any]
    node: Node
    task_ref: str | None = None
    """`kind: workbook`: the entry it runs."""
    rate: Rate | None = None


def single_task(r: Reader, node: Node, scope: TaskScope) -> tuple[Task, ...]:
    """Read `tool: {kind: ...}`; the task is called `<step>_task` unless it has a name (canonical step spec 7.3)."""
    if "kind" not in node.value:
        labels = [k for k, v in node.value.items() if isinstance(v.value, dict) and "kind" in v.value]
        hint = f"make it a list: - name: {labels[0]}" if labels else "kind says which tool runs"
        r.missing(node, "kind", f'tool of step "{scope.step}" has no kind', hint, checked=False)
        return ()
    task = named_task(r, node, f"{scope.step}_task", scope)
    return () if task is None else (task,)


def list_task(r: Reader, node: Node, default: str, scope: TaskScope) -> Task | None:
    """Read one entry of a task list: named, `- label: {...}`, or unnamed (then it is called `default`)."""
    if not isinstance(node.value, dict):
        r.report(
            "E112", node, f'{default} of step "{scope.step}" must be a mapping, not {r.word(node)}', "- name: ..., kind: ..."
        )
        return None
    if "kind" in node.value or "name" in node.value:
        return named_task(r, node, default, scope)
    keys = [k for k in node.value if not k.startswith("x-")]
    if len(keys) == 1 and isinstance(node.value[keys[0]].value, dict):
        body = node.value[keys[0]]
        r.report("W406", (node, keys[0]), f'task "{keys[0]}" uses its name as a key', f"- name: {keys[0]}", "note")
        if "kind" not in body.value:
            r.report("E111", (node, keys[0]), f'task "{keys[0]}" has no kind', "kind says which tool runs")
            return None
        return finish(r, raw_task(r, body, keys[0], scope, labelled=True, at=(node, keys[0])), scope)
    r.missing(node, "kind", f'{default} of step "{scope.step}" has no kind', "kind says which tool runs", checked=False)
    return None


def named_task(r: Reader, node: Node, default: str, scope: TaskScope) -> Task | None:
    own = node.get("name")
    if own is not None and not (
        node.get("kind") is not None and node.value["kind"].value == "workbook" and default.endswith("_task")
    ):
        name = r.name(own, "a task") or default
    else:
        name = own.value if own is not None and isinstance(own.value, str) else default
    if "kind" not in node.value:
        r.missing(node, "kind", f'task "{name}" has no kind', "kind says which tool runs", checked=False)
        return None
    return finish(r, raw_task(r, node, name, scope, at=own or node), scope)


_KEYS_ELSEWHERE: Final[dict[str, dict[str, str]]] = {
    "container": {
        "image": "the task definition has the image: task_definition names it",
        "args": "command has the program and its arguments",
        "namespace": "cluster says where the task runs",
        "resources": "cpu and memory",
    },
    "mcp": {"server": "url: the address of the server"},
}
"""Kind -> keys of other engines -> their equivalents here."""
_OF_STEPS: Final = {"iterator": "the step has the loop: loop: { in: ..., iterator: ... }"}
"""Keys of tasks in other engines that steps have here."""
_KINDS_ELSEWHERE: Final = {
    "agent": "kind: playbook calls another playbook, kind: llm asks a model",
    "ducklake": "kind: duckdb, whose tables are those of one execution; kind: postgres for tables that last",
    "script": "kind: python, with script: { uri: ... }",
    "subscription": "executor.spec.triggers start an execution for each message; a loop with cursor: { kind: sqs } reads a queue",
}
"""Kinds of other engines -> their equivalents here."""


def raw_task(
    r: Reader, node: Node, name: str, scope: TaskScope, *, labelled: bool = False, at: Node | tuple[Node, str] | None = None
) -> RawTask | None:
    """Read a tool object. Returns None when its kind is unusable."""
    what = f'task "{name}"'
    if name in RESERVED:
        r.report("E115", at or node, f'"{name}" cannot name a task: templates mean something else by it', "choose another name")
    kind = r.text(node.value["kind"], f"kind of {what}")
    if kind is None:
        return None
    known = KINDS.get(kind)
    if known is None and not scope.extensions:
        hint = _KINDS_ELSEWHERE.get(kind) or suggest(kind, KINDS)
        hint = hint or "executor.spec.extensions: true allows kinds that are installed beside the engine"
        r.report("E118", node.value["kind"], f'"{kind}" is not a tool kind', hint)
        return None
    inputs, task_ref = _inputs(r, node, kind, what, labelled, scope.extensions)
    spec = node.get("spec")
    own = own_spec(r, spec, kind, f"spec of {what}", extensions=scope.extensions)
    policy_node = spec.get("policy") if spec is not None else None
    policy, rate = OfTask() if policy_node is None else task_policy(r, policy_node, what, scope.on_unmatched, scope.jumps)
    set_iter, set_ctx = written(r, node, what)
    entry = task_ref or (name if kind == "workbook" else None)
    return RawTask(name, kind, inputs, own, policy, set_iter, set_ctx, node, entry, rate)


_SPLICED: Final = re.compile(r"\{\{-?\s*(?:workload|ctx|iter|args|steps|keychain|job|outcome|_prev|_task)\b[^}]{0,60}")
"""Text that can only be meant as a template; other braces belong to the shell, or to a program that it calls."""


def _inputs(r: Reader, node: Node, kind: str, what: str, labelled: bool, extensions: bool) -> tuple[dict[str, Any], str | None]:
    known = KINDS.get(kind)
    if known is None:
        entries = {k: v for k, v in node.value.items() if not k.startswith("x-")}
    else:
        entries = r.keys(node, TASK_FIELDS[kind], what, LEGACY_TASK, _OF_STEPS | _KEYS_ELSEWHERE.get(kind, {}))
    inputs: dict[str, Any] = {}
    idle = () if known is None else (*known.idle, *({OUTPUT.name} - known.accepted))
    r.no_effect(node, idle, what)
    for key, child in entries.items():
        if key == "input":
            if "args" in entries:
                r.report("E114", (node, key), f"{what} has args and input", "keep args")
            inputs["args"] = child.plain()
        elif key == "script" and known is not None and known.script:
            found = read_script(r, child, kind, what)
            if found is not None:
                inputs[found[0]] = found[1]
        elif key not in idle and (key not in TASK_KEYS or (key in BESIDE if known is None else key in known.accepted)):
            inputs[key] = child.plain()
    if known is not None:
        _check_inputs(r, node, kind, entries, what, extensions=extensions)
    if kind != "workbook":
        return inputs, None
    ref = inputs.pop("task", None)
    if labelled and ref is None and node.get("name") is not None:
        ref = node.value["name"].value
    if ref is not None and not isinstance(ref, str):
        r.report("E112", node, f"{what} must name its workbook task in text")
        ref = None
    return inputs, ref


def _check_inputs(r: Reader, node: Node, kind: str, entries: Mapping[str, Node], what: str, *, extensions: bool) -> None:
    known = KINDS[kind]
    for group in known.required:
        if not any(k in entries for k in group):
            canonical = sorted(k for k in group if k in known.inputs)
            r.missing(node, canonical[0], f"{what} ({kind}) has no {' or '.join(canonical)}", f"add {canonical[0]}")
    for group in known.exclusive:
        twice = [k for k in entries if k in group]
        if len(twice) > 1:
            r.report("E114", (node, twice[1]), f"{what} has {' and '.join(twice)}", "keep one")
    for key, other in known.needs.items():
        if key in entries and other not in entries:
            r.missing(node, other, f"{what} has {key} without {other}", f"add {other}, or leave {key} out")
    for key in known.maps:
        child = entries.get("input") if key == "args" and "args" not in entries else entries.get(key)
        if child is not None and not isinstance(child.value, dict) and not is_template(child.value) and child.value is not None:
            r.report("E112", child, f"{key} of {what} must be a mapping, not {r.word(child)}")
    for key, block in known.blocks.items():
        if key in entries and not (extensions and kind == "transfer" and key == "source" and is_foreign(entries[key])):
            r.read(entries[key], block, f"{key} of {what}")
    for key, allowed in known.choices.items():
        child = entries.get(key)
        if child is not None and not is_template(child.value) and child.value not in list(allowed):
            r.choice(child, sorted(w for w in allowed if w.upper() == w) or sorted(allowed), f"{key} of {what}")
    for key, allowed_range in known.durations.items():
        child = entries.get(key)
        if child is not None and not is_template(child.value):
            _check_duration(r, child, allowed_range, f"{key} of {what}")
    if kind == "playbook" and r.programs:  # playbooks registered before this check existed run as they did
        check_called(r, entries, what)
    if r.programs:
        check_nested(r, kind, entries, what)
    if kind == "transfer":
        check_transfer(r, node, entries, what, extensions=extensions)
    if "copy" in entries and isinstance(entries["copy"].value, dict):
        check_mode(r, entries["copy"], None, f"copy of {what}")
    if known.actions:
        _check_action(r, node, known, entries, f"{what} ({kind})")
    if kind == "python":
        _check_libs(r, entries.get("libs"), what)
    for key in known.raw:
        child = entries.get(key)
        if child is not None and (text := r.text(child, f"{key} of {what}")) and kind == "shell":
            _check_script(r, child, text, what)
    if kind == "python" and r.programs:
        check_program(r, entries.get("code"), entries.get("entry"), what)


def _check_action(r: Reader, node: Node, known: KindSpec, entries: Mapping[str, Node], what: str) -> None:
    """Check that the inputs of a task belong to its action, where that is written down."""
    action_node = next((entries[k] for k in entries if known.aliases.get(k, k) == "action"), None)
    word = known.default_of("action") if action_node is None else action_node.value
    action = known.actions.get(word) if isinstance(word, str) else None
    if action is None:  # a template, or not an action: reported elsewhere
        return
    spellings = {known.aliases.get(k, k): k for k in entries}
    for group in action.needs:
        if not group & spellings.keys() and not any(group <= other for other in known.required):
            inputs = sorted(group)
            r.missing(node, inputs[0], f"{what} has no {' or '.join(inputs)}, which action {word} needs", f"add {inputs[0]}")
    for name in sorted(known.of_actions & spellings.keys() - action.inputs):
        hint = f"{word} takes {', '.join(sorted(action.inputs))}"
        r.report("E114", (node, spellings[name]), f"{what} has {spellings[name]}, which {word} does not take", hint)


def _check_duration(r: Reader, node: Node, allowed: Range, what: str) -> None:
    try:
        duration(node.value, allowed, what)
    except BadNumber as error:
        r.report("E124", node, str(error))


def _check_script(r: Reader, node: Node, text: str, what: str) -> None:
    """Report an expression of the language in a script: it would reach the shell unchanged, and its value must not be spliced
    in."""
    found = _SPLICED.search(text)
    if found:
        hint = f'give it as a variable: env: {{ VALUE: "{found[0]} }}}}" }}, and write "$VALUE" in the script'
        r.report("E112", node, f"script of {what} is not a template, and has {found[0]}", hint)


def _check_libs(r: Reader, libs: Node | None, what: str) -> None:
    """Check that each lib is a module, or names a module with `from` and a part of it with `import`."""
    if libs is None or not isinstance(libs.value, dict):
        return
    for name, target in libs.value.items():
        if not name.isidentifier():
            hint = "write a Python name, with the module as its value: np: numpy"
            r.report("E115", (libs, name), f'"{name[:60]}" cannot name a library of {what}', hint)
        if not isinstance(target.value, dict):
            r.text(target, f'library "{name}" of {what}')
            continue
        content = r.read(target, LIBRARY, f'library "{name}" of {what}')
        for key in LIBRARY.by_name:
            if key not in content:
                r.missing(target, key, f'library "{name}" of {what} has no {key}', "write both: {from: module, import: name}")


def finish(r: Reader, raw: RawTask | None, scope: TaskScope, label: str | None = None) -> Task | None:
    """Merge the layers of the spec, resolve `kind: workbook`, and register the name."""
    if raw is None:
        return None
    if raw.name in scope.names:
        first = scope.names[raw.name].line
        r.report("E123", raw.node, f'step "{scope.step}" has two tasks named "{raw.name}" (first at line {first})', "rename one")
    scope.names.setdefault(raw.name, raw.node)
    entry = raw.task_ref if raw.kind == "workbook" else None
    if raw.kind == "workbook":
        resolved = _from_workbook(r, raw, scope)
        if resolved is None:
            return None
        raw = resolved
    if raw.rate is not None and raw.kind in WAITING_KINDS:
        hint = "limit the tasks that call something; the concurrency of a playbook limits how many of its executions run"
        r.report("E114", raw.node, f'task "{raw.name}" has a rate, and kind {raw.kind} calls nothing', hint)
    task = layered(raw, scope, raw.node.path, label)
    if entry is not None:
        task = replace(task, entry=entry)
    check_kind(r, task, raw.node)
    return _each_statement(r, task)


def _each_statement(r: Reader, task: Task) -> Task:
    """Let a task of SQL keep the result of each of several statements, if a template reads it."""
    known = KINDS.get(task.kind)
    if known is None or "each_statement" not in known.spec or "each_statement" in task.spec or not r.reads_statements:
        return task
    return replace(task, spec={**task.spec, "each_statement": True})


def layered(raw: RawTask, scope: TaskScope, path: Path, label: str | None = None) -> Task:
    spec = deep_merge(scope.spec, raw.spec)
    timeout = spec.pop("timeout_s", None)
    return Task(
        raw.name,
        raw.kind,
        raw.inputs,
        spec,
        raw.policy if raw.policy is not None else scope.policy,
        raw.set_iter,
        raw.set_ctx,
        timeout,
        None if raw.kind in WAITING_KINDS else raw.rate or scope.rate,
        label,
        path,
        raw.node.line,
    )


def _from_workbook(r: Reader, raw: RawTask, scope: TaskScope) -> RawTask | None:
    entry = scope.workbook.get(raw.task_ref or "")
    if entry is None and raw.task_ref in r.unresolved:
        return raw  # it is in another playbook, which is not available
    if entry is None:
        at = raw.node.get("task") or raw.node.get("name") or raw.node
        hint = suggest(raw.task_ref or "", scope.workbook) or (
            f"it has: {', '.join(sorted(scope.workbook))}" if scope.workbook else "the playbook has no workbook"
        )
        r.report("E204", at, f'the workbook has no task "{raw.task_ref}"', hint)
        return None
    _check_overrides(r, raw, entry.kind)
    return RawTask(
        raw.name,
        entry.kind,
        deep_merge(entry.inputs, raw.inputs),
        deep_merge(entry.spec, raw.spec),
        raw.policy if raw.policy is not None else entry.policy,
        {**entry.set_iter, **raw.set_iter},
        {**entry.set_ctx, **raw.set_ctx},
        raw.node,
        rate=raw.rate or entry.rate,
    )


def _check_overrides(r: Reader, raw: RawTask, kind: str) -> None:
    """Check that the keys of a `kind: workbook` task are inputs of the kind that it resolves to."""
    known = KINDS.get(kind)
    if known is None:
        return
    what = f'task "{raw.name}" ({kind} "{raw.task_ref}" of the workbook)'
    for key, value in raw.inputs.items():
        at = (raw.node, "input" if key == "args" and raw.node.get("args") is None else key)
        if key == "libs" and kind == "python":
            _check_libs(r, raw.node.get(key), what)
        if key not in known.accepted:
            r.report("E110", at, f'unknown key "{key}" in {what}', suggest_word(key, known.accepted))
        elif key in known.blocks:
            r.read(raw.node.get(key), known.blocks[key], f"{key} of {what}")
        elif key in known.maps and not (isinstance(value, dict) or value is None or is_template(value)):
            r.report("E112", at, f"{key} of {what} must be a mapping")
