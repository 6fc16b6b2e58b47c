"""Inputs of single kinds that other engines write in another way."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.dialect.parameters import rewrite_parameters
from noetl_core.dsl.dialect.shell_lines import EXPRESSION, NoVariable, with_variables
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.reading.load import Node
from noetl_core.expr import is_template

SELECT: Final = "output_select"
_TEXTS: Final = ("code", "content", "text", "body", "inline")
_REF: Final = re.compile(r"(?:\.data)?\._ref\b|\.reference(?:\.ref)?\b(?=\s*\}\})")
_BASH: Final = re.compile(r"\bpipefail\b|\[\[ |<<<|<\(|^\s*(?:declare|mapfile|readarray) |\$\{\w+\[", re.MULTILINE)
"""Syntax that only bash has."""
_OPTIONS: Final = re.compile(r"(?:[ \t]*(?:#.*)?\n)*[ \t]*set(?=.*[ \t](?:-[a-zA-Z]*u|nounset))((?:[ \t]+[-+\w]+)+)")
"""Options that lines of shell code begin with, including `-u`: an author who sets it has considered `-e`, too."""
_ENDS: Final = re.compile(r"\s-\w*e|\berrexit\b")
"""The option that a failing line ends the script."""
_FETCHED: Final = ("prefer", "flight_endpoint", "bearer_token", "tls_ca_path", "client_cert_path", "client_key_path")
_METHODS: Final = {"tools/call": "call", "tools/list": "list"}
_AS_JSON: Final = re.compile(r"\s*\{\{(.*)\|\s*tojson\s*\}\}\s*\Z", re.DOTALL)
_WHOLE: Final = re.compile(r"\s*\{\{((?:(?!\}\}).)*)\}\}\s*\Z", re.DOTALL)


def rewrite_spellings(e: Edits, task: Node, names: Collection[str], what: str, root: Node) -> None:
    """Rewrite the inputs whose meaning depends on the kind of the task. Templates read its result under `names`."""
    kind = task.value["kind"].value
    if not isinstance(kind, str):
        return
    if kind == "shell" and _is_line(task):
        e.move(task, "command", task, "cmds")
    if kind == "shell" and "cmds" in task.value:
        _commands(e, task, what)
    elif kind == "artifact" and "key" not in task.value:
        _artifact(e, task, names)
    elif kind == "result_fetch" and "ref" in task.value:
        _fetched(e, task, names)
    elif kind == "playbook":
        _called(e, task, what)
    elif kind == "python" and "auth" in task.value:
        _credential(e, task, root)
    elif kind == "mcp":
        _mcp(e, task, what)
    elif kind == "transfer":
        _transfer(e, task)
    elif kind == "postgres":
        rewrite_parameters(e, task)
    elif kind == "duckdb" and "gcs_credential" in task.value and not {"auth", "credential"} & task.value.keys():
        e.move(task, "gcs_credential", task, "auth")
    if kind == "duckdb" and "as_objects" in task.value and task.value["as_objects"].value is True:
        e.r.no_effect(task, ("as_objects",), what)
        e.remove(task, "as_objects")
    if kind in KINDS and KINDS[kind].script and "script" in task.value:
        _inline(e, task, KINDS[kind].script)


def select_below_output(e: Edits, holder: Node) -> None:
    """Move `output_select` of a step or a task below `output`; options for storing large results have no effect."""
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


def _is_line(task: Node) -> bool:
    """Return whether `command` is a line of shell code: text, where a program and its arguments would be a list."""
    command = task.get("command")
    text = command.value if command is not None and isinstance(command.value, str) else ""
    return bool(text.strip()) and not _WHOLE.match(text) and not {"cmds", "script"} & task.value.keys()


def _commands(e: Edits, task: Node, what: str) -> None:
    """Write lines of shell code as a script; an expression in them becomes a variable, so that no value is read as code."""
    node = task.value["cmds"]
    lines = [child.value for child in node.value] if isinstance(node.value, list) else [node.value]
    beside = next((key for key in ("script", "command") if key in task.value), None)
    if beside is not None:
        e.r.report("E114", (task, "cmds"), f"{what} has cmds and {beside}", f"keep {beside}")
        e.remove(task, "cmds")
        return
    if not all(isinstance(line, str) for line in lines):
        e.r.report("E112", (task, "cmds"), f"cmds of {what} must be lines of shell code", "script: | with the lines")
        e.move(task, "cmds", task, "script")  # nothing more is reported of it
        e.put(task, "script", ":", (task, "script"))
        return
    if any(is_template(line) and line not in e.r.reads for line in lines):  # reported elsewhere
        e.move(task, "cmds", task, "script")
        e.put(task, "script", ":", (task, "script"))
        return
    text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    if len(lines) == 1 and (options := _OPTIONS.match(text)) is not None and not _ENDS.search(options[1]):
        text = f"set +e\n{text}"
    names: dict[str, str] = {}
    try:
        if "{%" in EXPRESSION.sub("", text) or "{#" in EXPRESSION.sub("", text):
            raise NoVariable
        script = with_variables(text, lambda found: f"${{{names.setdefault(found, f'VALUE_{len(names) + 1}')}}}")
    except NoVariable:
        hint = 'write script, with the value in env: { NAME: "{{ ... }}" } and "$NAME" in the script'
        e.r.report("E114", (task, "cmds"), f"cmds of {what} has a template where no variable can stand", hint)
        e.move(task, "cmds", task, "script")  # nothing more is reported of it
        e.put(task, "script", ":", (task, "script"))
        return
    at = (task, "cmds")
    if names:
        key = "args" if "args" in task.value and "env" not in task.value else "env"
        env = e.below(task, key, at)
        for value, name in names.items() if env is not None else ():
            if env is not None:
                e.put(env, name, value, at)
    if "shell" not in task.value and _BASH.search(script):
        e.put(task, "shell", "bash", at)
    e.r.reads.setdefault(script, ())  # braces in it belong to another program
    e.put(task, "script", script, at)
    e.remove(task, "cmds")


def _artifact(e: Edits, task: Node, names: Collection[str]) -> None:
    """Replace the reading of a reference by its value: templates read a reference like its value."""
    holder = next((held for held in (task, task.get("input"), task.get("args")) if held is not None and _refers(held)), None)
    if holder is None:
        return
    holder = task if holder is task else e.own(task, "input" if holder is task.get("input") else "args")
    node = e.remove(holder, "result_ref")
    if holder is not task and not holder.value:
        e.remove(task, "input" if holder is task.get("input") else "args")
    for key in ("action", "operation", "uri", "store"):
        if key in task.value:
            e.remove(task, key)
    _as_value(e, task, node, names)


def _refers(holder: Node) -> bool:
    return isinstance(holder.value, dict) and "result_ref" in holder.value


def _fetched(e: Edits, task: Node, names: Collection[str]) -> None:
    """Replace the fetching of a stored result by its value: the engine fetches it."""
    node = e.remove(task, "ref")
    for key in _FETCHED:
        if key in task.value:
            e.remove(task, key)
    _as_value(e, task, node, names)


def _as_value(e: Edits, task: Node, reference: Node, names: Collection[str]) -> None:
    """Give the task the value as its result: as `data`, unless templates read fields of it and no `data`."""
    e.put(task, "kind", "noop", reference)
    value = _REF.sub("", reference.value) if isinstance(reference.value, str) else reference
    paths = (read.path for reads in e.r.reads.values() for read in reads)
    parts = {path[3] if path[0] == "steps" else path[1] for path in paths if _reads_part(path, names)}
    e.put(task, "result", value if parts and "data" not in parts else {"data": value}, reference)


def _reads_part(path: tuple[str, ...], names: Collection[str]) -> bool:
    if path[0] == "steps":
        return len(path) > 3 and path[1] in names
    return len(path) > 1 and path[0] in names


def _called(e: Edits, task: Node, what: str) -> None:
    """Write the name of the child's step that gives the result under its canonical key; `task` beside a path is only a label."""
    if "result_step" in task.value and "return_step" not in task.value:
        e.move(task, "result_step", task, "return_step")
    if "task" in task.value and "path" in task.value:
        e.r.no_effect(task, ("task",), what)
        e.remove(task, "task")


def _mcp(e: Edits, task: Node, what: str) -> None:
    """Write the call of an MCP server: its address is `url`, and a method of the protocol is an action."""
    for key in ("endpoint", "server_url"):
        if key in task.value and "url" not in task.value:
            e.move(task, key, task, "url")
    if "url" in task.value and "server" in task.value:
        e.r.no_effect(task, ("server",), what)
        e.remove(task, "server")
    method = task.get("method")
    if method is not None and isinstance(method.value, str) and "action" not in task.value:
        whole = _WHOLE.match(method.value)
        action = f"{{{{ 'list' if ({whole[1].strip()}) == 'tools/list' else 'call' }}}}" if whole else _METHODS.get(method.value)
        if action is None:
            hint = suggest(method.value, _METHODS) or "action: call, or list"
            e.r.report("E113", method, f"{method.value[:60]!r} is not a method that {what} can call", hint)
            action = "call"
        e.put(task, "action", action, (task, "method"))
        e.remove(task, "method")
    arguments = task.get("arguments")
    found = _AS_JSON.match(arguments.value) if arguments is not None and isinstance(arguments.value, str) else None
    if found is not None:
        e.put(task, "arguments", f"{{{{ {found[1].strip()} }}}}", arguments)


def _transfer(e: Edits, task: Node) -> None:
    """Call the kinds of both sides of a transfer, and the rows of a chunk, by their canonical names."""
    for side in ("source", "target"):
        held = task.get(side)
        if held is not None and isinstance(held.value, dict) and "type" in held.value and "kind" not in held.value:
            e.move(e.own(task, side), "type", task.value[side], "kind")
    if "chunk_size" in task.value:
        spec = e.below(task, "spec", (task, "chunk_size"))
        if spec is not None and "chunk_rows" not in spec.value:
            e.move(task, "chunk_size", spec, "chunk_rows")


def _credential(e: Edits, task: Node, root: Node) -> None:
    """Give a program the fields of its credential as the argument `auth`."""
    node = task.value["auth"]
    credential = node.value
    if credential in ({}, [], ""):
        e.remove(task, "auth")
        return
    key = "input" if "input" in task.value and "args" not in task.value else "args"
    has_auth = task.get(key) is not None and "auth" in task.value[key].value
    if not isinstance(credential, str) or not credential.strip() or has_auth:
        e.r.report("E112", (task, "auth"), "auth of a python task must name one credential", 'args: { db: "{{ keychain.db }}" }')
        e.remove(task, "auth")
        return
    entries = root.get("keychain")
    if entries is None or not isinstance(entries.value, list):
        entries = e.put(root, "keychain", [], (task, "auth"))
    else:
        entries = e.own(root, "keychain")
    declared = {str(n.value) for entry in entries.value if (n := entry.get("name")) is not None}
    name = credential if not is_template(credential) else "auth_" + re.sub(r"\W+", "_", credential).strip("_")
    if name not in declared:
        entry = {"name": name, "kind": "credential_ref", **({"credential": credential} if name != credential else {})}
        e.insert(entries, len(entries.value), entry, (task, "auth"))
    args = e.below(task, key, (task, "auth"))
    if args is not None:
        read = f"keychain.{name}" if name.isidentifier() else f"keychain['{name}']"
        e.put(args, "auth", f"{{{{ {read} }}}}", (task, "auth"))
    e.remove(task, "auth")


def _inline(e: Edits, task: Node, filled: str) -> None:
    """Replace a script whose text is in the playbook by its text."""
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
    type_node = holder.get("type") if holder is not node else source or node.get("type")
    if type_node is not None and type_node.value != "inline":
        return
    found = next(((at, key) for at in (node, holder) for key in _TEXTS if key in at.value), None)
    if found is not None and "uri" not in node.value:
        e.put(task, filled, found[0].value[found[1]], found[0].value[found[1]])
        e.remove(task, "script")
