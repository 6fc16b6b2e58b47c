"""One task: keys beside `spec` that belong below it, or the other way round, and keys with another meaning here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from noetl_core.dsl.dialect.assertions import Check, expecting, rewrite_assert
from noetl_core.dsl.dialect.conditions import Subject
from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.dialect.key_values import rewrite_key_values
from noetl_core.dsl.dialect.programs import rewrite_program
from noetl_core.dsl.dialect.retries import rewrite_retry
from noetl_core.dsl.dialect.roots import TIMES, without_results
from noetl_core.dsl.dialect.scalars import seconds
from noetl_core.dsl.dialect.spellings import rewrite_spellings
from noetl_core.dsl.dialect.writes import Readers, rewrite_set
from noetl_core.dsl.fields.kind import KindSpec
from noetl_core.dsl.fields.policies import SUGAR
from noetl_core.dsl.fields.tools import TASK
from noetl_core.dsl.kinds import COMMON_SPEC, KINDS
from noetl_core.dsl.reading.load import Node
from noetl_core.expr import is_template
from noetl_core.values.frozen import mutable

OPTION_SPELLINGS: Final = {
    "verify_ssl": "verify",
    "ssl_verify": "verify",
    "verify_tls": "verify",
    "allow_redirects": "follow_redirects",
}
INPUT_SPELLINGS: Final = {"credential": "auth", "credentials": "auth"}
_HTTP_RETRY: Final = frozenset({"attempts", "delay", "statuses"})
_AS: Final = re.compile(r"\s*([A-Za-z_][\w.]*)(?:\s+as\s+([A-Za-z_]\w*))?\s*\Z")
_FROM: Final = re.compile(r"\s*from\s+([A-Za-z_][\w.]*)\s+import\s+([A-Za-z_]\w*)(?:\s+as\s+([A-Za-z_]\w*))?\s*\Z")


@mutable
class TasksOf:
    """The context that the tasks of one step share."""

    step: str | None
    readers: Readers
    bound: frozenset[str]
    looped: bool = False
    policy: Node | None = None
    root: Node | None = None
    steps: Mapping[str, bool] = field(default_factory=dict)
    """The names of all steps, and whether they have a loop."""
    kept: frozenset[str] = frozenset()
    """The keys of the workload, and what is written to `ctx`."""
    book: dict[str, list[Check]] = field(default_factory=dict)
    """Entry of the workbook -> the values that must exist before a task runs it."""


def rewrite_pipeline(e: Edits, holder: Node, key: str | int, tasks: TasksOf) -> None:
    """Rewrite the tasks at a place: one tool, a list, or the branches of `choose`, `while` and `until`."""
    node = e.own(holder, key)
    if isinstance(node.value, list):
        at = 0
        while at < len(node.value):
            expected = _rewrite_item(e, node, at, tasks)
            if expected is not None:
                e.insert(node, at, expecting(*expected), node.value[at])
                at += 1
            at += 1
    elif isinstance(node.value, dict) and "kind" in node.value:
        name = f"{tasks.step}_task" if tasks.step is not None else ""
        before = rewrite_task(e, node, _name(node) or name, tasks)
        if before:
            if "name" not in node.value:
                e.put(node, "name", name, node, first=True)
            e.put(holder, key, [expecting(f"{tasks.step}_expects", before), node], node)


def _rewrite_item(e: Edits, listed: Node, at: int, tasks: TasksOf) -> tuple[str, list[Check]] | None:
    """Rewrite one entry of a list. Returns the expectations before it, with the name of the task that has them."""
    item = e.own(listed, at)
    if not isinstance(item.value, dict):
        return None
    if "kind" in item.value:
        name = _name(item) or f"task_{at}"
        before = rewrite_task(e, item, name, tasks)
        if before and "name" not in item.value:
            e.put(item, "name", name, item, first=True)
        return (f"{name}_expects", before) if before else None
    sugar = next((word for word in SUGAR if word in item.value), None)
    if sugar is None:
        keys = [key for key in item.value if not key.startswith("x-")]
        if len(keys) == 1 and isinstance(item.value[keys[0]].value, dict) and "kind" in item.value[keys[0]].value:
            before = rewrite_task(e, e.own(item, keys[0]), keys[0], tasks)
            return (f"{keys[0]}_expects", before) if before else None
        return None
    if sugar == "choose":
        choices = e.own(item, "choose")
        for n in range(len(choices.value)) if isinstance(choices.value, list) else ():
            choice = e.own(choices, n)
            for key in ("then", "else"):
                if choice.get(key) is not None:
                    rewrite_pipeline(e, choice, key, tasks)
    elif "do" in item.value:
        rewrite_pipeline(e, item, "do", tasks)
    return None


def _name(task: Node) -> str | None:
    name = task.get("name")
    return name.value if name is not None and isinstance(name.value, str) else None


def last_tasks(step: Node) -> Iterator[Node]:
    """Yield the task whose result is the step's, if it is a plain one."""
    tool = step.get("tool")
    last = tool.value[-1] if tool is not None and isinstance(tool.value, list) and tool.value else tool
    if last is None or not isinstance(last.value, dict):
        return
    if "kind" in last.value:
        yield last
        return
    inner = [child for key, child in last.value.items() if not key.startswith("x-")]
    if len(inner) == 1 and isinstance(inner[0].value, dict) and "kind" in inner[0].value:
        yield inner[0]


def subject_of(task: Node, name: str, tasks: TasksOf) -> Subject:
    kind = str(task.value["kind"].value)
    return Subject(kind, {name, *([tasks.step] if tasks.step else ())}, tasks.bound, tasks.policy)


def rewrite_task(e: Edits, task: Node, name: str, tasks: TasksOf) -> list[Check]:
    """Rewrite one tool object in place. Returns the expectations of its `assert` before it runs."""
    if task.value["kind"].value == "nats":
        rewrite_key_values(e, task, f'task "{name}"')
    if tasks.root is not None:
        rewrite_spellings(e, task, {name, *([tasks.step] if tasks.step else ())}, f'task "{name}"', tasks.root)
    kind = KINDS.get(task.value["kind"].value) if isinstance(task.value["kind"].value, str) else None
    if kind is None:
        return []
    what = f'task "{name}"'
    e.without_empty(task, ({"set", "set_ctx", "set_iter", "spec", "assert"} - kind.accepted))
    keys = task.value.keys()
    before: list[Check] = []
    without_results(e, task, what)
    if "spec" in keys and isinstance(task.value["spec"].value, dict):
        _spec(e, task, kind)
    for key in (*TIMES, *OPTION_SPELLINGS, *(kind.spec & keys)):
        if key in task.value and key not in kind.accepted and key not in TASK_ONLY:
            _to_spec(e, task, key)
    for key, own in INPUT_SPELLINGS.items():
        if key in task.value and own in kind.inputs and own not in task.value:
            e.move(task, key, task, own)
    if kind.script and "script" in task.value:
        _script(e, task)
    libs = task.get("libs")
    if libs is not None and isinstance(libs.value, str) and not is_template(libs.value) and "libs" in kind.accepted:
        libs = e.put(task, "libs", [libs], libs)
    if libs is not None and isinstance(libs.value, list) and "libs" in kind.accepted:
        _libs(e, task, what)
    path = task.get("path")
    if path is not None and task.value["kind"].value == "playbook":
        without_slash(e, task, "path")
    if "retry" in task.value and "retry" not in kind.accepted:
        rewrite_retry(e, task, subject_of(task, name, tasks), what)
    if "assert" in task.value and "assert" not in kind.accepted:
        before = rewrite_assert(e, task, task, subject_of(task, name, tasks), what)
    if task.value["kind"].value == "workbook":
        task_node = task.get("task")
        before = [*tasks.book.get(str(task_node.value) if task_node is not None else name, ()), *before]
    if task.value["kind"].value == "python":
        rewrite_program(e, task, name, tasks.step, tasks.steps, tasks.bound, tasks.kept)
    _write_errors(e, task)
    _writes(e, task, tasks)
    return list(_own_args(task, before)) if tasks.step is not None else before


_DEFINED: Final = re.compile(r"(\w+)((?:\.\w+|\[\d+\])*) is defined\Z")
_WHOLE: Final = re.compile(r"\s*\{\{(.*)\}\}\s*\Z", re.DOTALL)


def _own_args(task: Node, checks: list[Check]) -> Iterator[Check]:
    """Yield the expectations before a task. Its arguments are not bound there yet, so their expressions replace them."""
    args = next((held for key in ("args", "input") if (held := task.get(key)) is not None), None)
    own = args.value if args is not None and isinstance(args.value, dict) else {}
    for condition, message in checks:
        found = _DEFINED.match(condition)
        if found is None or found[1] not in own:
            yield condition, message
            continue
        value = own[found[1]].value
        whole = _WHOLE.match(value) if isinstance(value, str) else None
        if whole is not None and "{{" not in whole[1]:
            yield f"({whole[1].strip()}){found[2]} is defined", message


TASK_ONLY: Final = frozenset({"retry"})
"""Options that mean something else beside `spec`."""


def _spec(e: Edits, task: Node, kind: KindSpec) -> None:
    """Move inputs that stand below `spec` out of it, and call its options by their names."""
    spec = e.own(task, "spec")
    options = COMMON_SPEC | kind.spec | {"policy"}
    for key in list(spec.value):
        if key in options:
            continue
        if key == "timeout_seconds" and not {"timeout", "timeout_s"} & spec.value.keys():
            e.move(spec, key, spec, "timeout")
        elif (own := OPTION_SPELLINGS.get(key)) in kind.spec and own not in spec.value:
            e.move(spec, key, spec, own)
        elif (key in kind.accepted or key in INPUT_SPELLINGS or key in _BESIDE) and key not in task.value:
            e.move(spec, key, task)
    own_retry = spec.get("retry")
    if own_retry is not None and "retry" not in task.value:
        mapping = own_retry.value if isinstance(own_retry.value, dict) else {}
        if "retry" not in kind.spec or mapping.keys() - _HTTP_RETRY:
            e.move(spec, "retry", task)
    if not spec.value:
        e.remove(task, "spec")


_BESIDE: Final = frozenset(TASK.keys - {"spec", "kind"}) | {"assert"}


def _to_spec(e: Edits, task: Node, key: str) -> None:
    """Move an option that stands beside `spec` below it."""
    own = "timeout" if key in TIMES else OPTION_SPELLINGS.get(key, key)
    spec = task.get("spec")
    if own not in COMMON_SPEC and own not in KINDS[task.value["kind"].value].spec:
        return
    held = spec.value if spec is not None and isinstance(spec.value, dict) else {}
    if own in held or (own == "timeout" and "timeout_s" in held):
        at = (task, key)
        e.r.report("E114", at, f"the task has {key} and spec.{own if own in held else 'timeout_s'}", "keep the one below spec")
        e.remove(task, key)
        return
    below = e.below(task, "spec", (task, key))
    if below is not None:
        e.move(task, key, below, own)
        if own == "timeout":
            plain_seconds(e, below, own)


def plain_seconds(e: Edits, holder: Node, key: str) -> None:
    """Write a time such as `30s`, or a quoted number, as seconds."""
    node = holder.value[key]
    if isinstance(node.value, str) and not is_template(node.value):
        value = seconds(node.value)
        if value != node.value:
            e.put(holder, key, value, node)


def without_slash(e: Edits, holder: Node, key: str) -> None:
    """Remove the slashes at the beginning of a path."""
    node = holder.value[key]
    if isinstance(node.value, str) and node.value.startswith("/") and node.value.strip("/"):
        e.put(holder, key, node.value.lstrip("/"), node)


def _script(e: Edits, task: Node) -> None:
    """Move the keys below a script's `source` up beside it, under their canonical names."""
    node = task.value["script"]
    if not isinstance(node.value, dict):
        return
    node = e.own(task, "script")
    source = node.get("source")
    if source is not None and isinstance(source.value, dict):
        for key in list(source.value):
            if key in ("method", "region") or (key == "type" and "type" in node.value):
                e.remove(source, key)
            elif key == "type" or key not in node.value:
                e.move(source, key, node)
        if not source.value:
            e.remove(node, "source")
    for key, own in (
        ("type", "source"),
        ("path", "uri"),
        ("file", "uri"),
        ("url", "uri"),
        ("credential", "auth"),
        ("key", "uri"),
    ):
        if key in node.value and own not in node.value:
            e.move(node, key, node, own)
    source = node.get("source")
    if source is not None and source.value in ("https", "local", "filesystem"):
        e.put(node, "source", "http" if source.value == "https" else "file", source)


def _libs(e: Edits, task: Node, what: str) -> None:
    """Write a list of modules as a mapping of the names that the code uses to them."""
    node = task.value["libs"]
    out: dict[str, object] = {}
    for item in node.value:
        if isinstance(item.value, dict):
            fields = {k: v.value for k, v in item.value.items()}
            module = fields.get("name") or fields.get("module") or fields.get("import")
            if isinstance(module, str) and not set(fields) - {"name", "module", "import", "as", "alias", "from"}:
                alias = fields.get("as") or fields.get("alias")
                source = fields.get("from")
                name = str(alias or module.split(".")[0])
                out[name] = {"from": source, "import": module} if source else module if alias else module.split(".")[0]
            else:
                out.update(item.value)  # `- np: numpy`
            continue
        import_as = _AS.match(item.value) if isinstance(item.value, str) else None
        part = _FROM.match(item.value) if isinstance(item.value, str) else None
        if part is not None:
            out[part[3] or part[2]] = {"from": part[1], "import": part[2]}
        elif import_as is not None:
            out[import_as[2] or import_as[1].split(".")[0]] = import_as[1] if import_as[2] else import_as[1].split(".")[0]
        else:
            hint = "libs: [numpy, pandas as pd]; executor.spec.python.requirements installs packages"
            e.r.report("E112", item, f"a library of {what} must be a module", hint)
    e.put(task, "libs", out, node)


_OUTPUT: Final = re.compile(r"\s*\{\{\s*output\s*\}\}\s*\Z")


def _write_errors(e: Edits, task: Node) -> None:
    """Write the whole `output` also after an error that the policy lets pass: `set` beside the policy is written only after a
    success."""
    written = task.get("set")
    policy = spec.get("policy") if (spec := task.get("spec")) is not None else None
    if written is None or not isinstance(written.value, dict) or policy is None or policy.get("rules") is None:
        return
    whole = {k: v.value for k, v in written.value.items() if isinstance(v.value, str) and _OUTPUT.match(v.value)}
    rules = policy.value["rules"]
    if not whole or not isinstance(rules.value, list):
        return
    rules = e.own(e.own(e.own(task, "spec"), "policy"), "rules")
    for n in range(len(rules.value)):
        body: Node | None = e.own(rules, n)
        for key in ("else", "then"):
            if body is not None and body.get(key) is not None and isinstance(body.value[key].value, dict):
                body = e.own(body, key)
        if body is None or body.get("do") is None or body.value["do"].value != "continue":
            continue
        below = e.below(body, "set", body)
        for name, value in whole.items() if below is not None else ():
            if below is not None and name not in below.value:
                e.put(below, name, value, body)


def _writes(e: Edits, task: Node, tasks: TasksOf) -> None:
    """Give the keys of `set` their scope: of the task, and of its rules."""
    rewrite_set(e, task, tasks.readers, tasks.step, looped=tasks.looped)
    spec = task.get("spec")
    policy = spec.get("policy") if spec is not None else None
    rules = policy.get("rules") if policy is not None else None
    for rule in rules.value if rules is not None and isinstance(rules.value, list) else ():
        for key in ("then", "else"):
            body = rule.get(key)
            if body is not None and isinstance(body.value, dict):
                rewrite_set(e, body, tasks.readers, tasks.step, looped=tasks.looped)
                inner = body.get("then")
                if inner is not None and isinstance(inner.value, dict):
                    rewrite_set(e, inner, tasks.readers, tasks.step, looped=tasks.looped)
