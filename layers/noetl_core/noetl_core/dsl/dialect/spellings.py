"""Inputs of single kinds that other engines write in another way."""

from __future__ import annotations

import re
from typing import Final

from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.reading.load import Node
from noetl_core.expr import is_template

SELECT: Final = "output_select"
_TEXTS: Final = ("code", "content", "text", "body", "inline")
_EXPRESSION: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_REF: Final = re.compile(r"(?:\.data)?\._ref\b")
_QUOTED: Final = re.compile(r"'[^'\n]*\{\{[^'\n]*'")


def rewrite_spellings(e: Edits, task: Node, what: str, root: Node) -> None:
    """Rewrite the inputs of one task that only its kind explains."""
    kind = task.value["kind"].value
    if not isinstance(kind, str):
        return
    if kind == "shell" and "cmds" in task.value:
        _commands(e, task, what)
    elif kind == "artifact" and "result_ref" in task.value and "key" not in task.value:
        _artifact(e, task)
    elif kind == "playbook" and "task" in task.value and "path" not in task.value:
        e.move(task, "task", task, "path")
    elif kind == "python" and "auth" in task.value:
        _credential(e, task, root)
    elif kind == "duckdb" and "gcs_credential" in task.value and not {"auth", "credential"} & task.value.keys():
        e.move(task, "gcs_credential", task, "auth")
    if kind in KINDS and KINDS[kind].script and "script" in task.value:
        _inline(e, task, KINDS[kind].script)


def select_below_output(e: Edits, holder: Node) -> None:
    """Move `output_select` of a step or a task below `output`; what says only how large results are kept has no effect."""
    if SELECT not in holder.value or holder.get("output") is not None:
        return
    select = holder.value[SELECT]
    if isinstance(select.value, dict) and "strategy" in select.value:
        e.r.no_effect(holder, (SELECT,), "a task")
        e.remove(holder, SELECT)
        return
    below = e.below(holder, "output", (holder, SELECT))
    if below is not None:
        e.move(holder, SELECT, below)


def _commands(e: Edits, task: Node, what: str) -> None:
    """Write lines of shell code as a script; an expression in them becomes a variable, so that no value is read as code."""
    node = task.value["cmds"]
    lines = [child.value for child in node.value] if isinstance(node.value, list) else [node.value]
    if not all(isinstance(line, str) for line in lines) or {"script", "command"} & task.value.keys():
        e.r.report("E112", (task, "cmds"), f"cmds of {what} must be lines of shell code", "script: | with the lines")
        e.remove(task, "cmds")
        return
    text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    if "{%" in text or "{#" in text or _QUOTED.search(text):
        hint = 'write script, with the value in env: { NAME: "{{ ... }}" } and "$NAME" in the script'
        e.r.report("E114", (task, "cmds"), f"cmds of {what} has a template where no variable can stand", hint)
        e.remove(task, "cmds")
        return
    names: dict[str, str] = {}

    def variable(found: re.Match[str]) -> str:
        return f"${{{names.setdefault(found[0], f'VALUE_{len(names) + 1}')}}}"

    script = _EXPRESSION.sub(variable, text)
    at = (task, "cmds")
    if names:
        key = "args" if "args" in task.value and "env" not in task.value else "env"
        env = e.below(task, key, at)
        for value, name in names.items() if env is not None else ():
            if env is not None:
                e.put(env, name, value, at)
    e.put(task, "script", script, at)
    e.remove(task, "cmds")


def _artifact(e: Edits, task: Node) -> None:
    """Write the reading of a reference as its value: templates read a reference like the value it stands for."""
    node = e.remove(task, "result_ref")
    for key in ("action", "operation", "uri", "store"):
        if key in task.value:
            e.remove(task, key)
    e.put(task, "kind", "noop", node)
    value = _REF.sub("", node.value) if isinstance(node.value, str) else node
    e.put(task, "result", {"data": value}, node)


def _credential(e: Edits, task: Node, root: Node) -> None:
    """Give a program the fields of its credential as the argument `auth`."""
    node = task.value["auth"]
    named = node.value
    key = "input" if "input" in task.value and "args" not in task.value else "args"
    if not isinstance(named, str) or not named.strip() or (task.get(key) is not None and "auth" in task.value[key].value):
        e.r.report("E112", (task, "auth"), "auth of a python task must name one credential", 'args: { db: "{{ keychain.db }}" }')
        e.remove(task, "auth")
        return
    entries = root.get("keychain")
    if entries is None or not isinstance(entries.value, list):
        entries = e.put(root, "keychain", [], (task, "auth"))
    else:
        entries = e.own(root, "keychain")
    declared = {str(n.value) for entry in entries.value if (n := entry.get("name")) is not None}
    name = named if not is_template(named) else "auth_" + re.sub(r"\W+", "_", named).strip("_")
    if name not in declared:
        entry = {"name": name, "kind": "credential_ref", **({"credential": named} if name != named else {})}
        e.insert(entries, len(entries.value), entry, (task, "auth"))
    args = e.below(task, key, (task, "auth"))
    if args is not None:
        read = f"keychain.{name}" if name.isidentifier() else f"keychain['{name}']"
        e.put(args, "auth", f"{{{{ {read} }}}}", (task, "auth"))
    e.remove(task, "auth")


def _inline(e: Edits, task: Node, filled: str) -> None:
    """Write a script whose text stands in the playbook as that text."""
    node = task.value["script"]
    if filled in task.value:
        return
    if isinstance(node.value, str):
        if "\n" in node.value.strip():
            e.move(task, "script", task, filled)
        return
    if not isinstance(node.value, dict):
        return
    source = node.get("source")
    holder = source if source is not None and isinstance(source.value, dict) else node
    said = holder.get("type") if holder is not node else source or node.get("type")
    if said is not None and said.value != "inline":
        return
    found = next(((at, key) for at in (node, holder) for key in _TEXTS if key in at.value), None)
    if found is not None and "uri" not in node.value:
        e.put(task, filled, found[0].value[found[1]], found[0].value[found[1]])
        e.remove(task, "script")
