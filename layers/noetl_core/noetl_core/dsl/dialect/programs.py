"""Names of other engines that Python programs read: results of steps and variables in `context`, and `results` and `stats` of the
result of a loop. Templates have these names (`noetl_core.dsl.dialect.variants`); a program gets them as arguments."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from noetl_core.dsl.dialect.code_templates import rewrite_templates
from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.reading.load import Node

_CONTEXT: Final = re.compile(r"""\bcontext\s*(?:\[\s*|\.\s*get\s*\(\s*)(['"])(\w+)\1""")
_OTHERWISE: Final = re.compile(r"""\bcontext\b(?!\s*(?:\[\s*|\.\s*get\s*\(\s*)['"])""")
_PARAMETER: Final = re.compile(r"\bdef\s+\w+\s*\([^()]*\)")
_OWN: Final[Mapping[str, str]] = {
    "execution_id": "{{ execution_id }}",
    "attempt": "{{ _attempt }}",
    "workload": "{{ workload }}",
    "ctx": "{{ ctx }}",
}
_NAMED: Final = frozenset({"step", "task", "task_run_id", *_OWN})
"""The parts of `context`."""
_PARTS: Final = r"""(?:\[\s*|\.\s*get\s*\(\s*)['"](?:results|stats)['"]"""
_RESULT: Final = re.compile(r"\s*\{\{\s*(?:steps\.(\w+)\.result|(\w+))\s*\}\}\s*\Z")


def rewrite_program(
    e: Edits, task: Node, name: str, step: str | None, steps: Mapping[str, bool], bound: frozenset[str], kept: Collection[str]
) -> None:
    """Give a program the names that it reads. `steps`: the names of all steps, and whether they have a loop; `kept`: the keys
    of the workload, and what is written to `ctx`."""
    code = task.get("code")
    if code is None or not isinstance(code.value, str):
        return
    rewrite_templates(e, task, _args_key(task))
    code = task.value["code"]
    if "context" in code.value and "context" not in bound:
        _context(e, task, name, step, {*steps, *kept})
    key = _args_key(task)
    args = task.get(key)
    for arg in list(args.value) if args is not None and isinstance(args.value, dict) else ():
        _loop(e, task, key, arg, code.value, steps)


def _args_key(task: Node) -> str:
    return "input" if "input" in task.value and "args" not in task.value else "args"


def _context(e: Edits, task: Node, name: str, step: str | None, known: Collection[str]) -> None:
    """Add the argument `context`, with the names that the program reads there (results of steps, the workload, `ctx`) and the
    parts that it reads."""
    code: str = task.value["code"].value
    read = dict.fromkeys(found[2] for found in _CONTEXT.finditer(code))
    names = [key for key in read if key in known and key not in _NAMED]
    if not names:
        return
    if "task_run_id" in read:
        message = f'context of task "{name}" is read for task_run_id and for "{names[0]}"'
        e.r.report("E114", task.value["code"], message, f"read _run['task_run_id'], and pass args: {{{names[0]}: ...}}")
        return
    whole = _OTHERWISE.search(_PARAMETER.sub("", code)) is not None
    own = [key for key in ("execution_id", "attempt", "workload", "ctx") if whole or key in read]
    about = {"step": step, "task": name} if step is not None else {}
    holder = e.below(task, _args_key(task), (task, "code"))
    if holder is not None:
        context: dict[str, str] = {key: f"{{{{ {key} | default(none) }}}}" for key in names}
        context |= {key: value for key, value in about.items() if whole or key in read}
        e.put(holder, "context", {**context, **{key: _OWN[key] for key in own}}, (task, "code"))


def _loop(e: Edits, task: Node, key: str, arg: str, code: str, steps: Mapping[str, bool]) -> None:
    """Give an argument that is the list of a loop the names `results` and `stats`, if the program reads it by them."""
    node = task.value[key].value[arg]
    found = _RESULT.match(node.value) if isinstance(node.value, str) else None
    of = (found[1] or found[2]) if found is not None else ""
    if not steps.get(of, False):
        return
    if _reads_loop(code, re.escape(arg)):
        whole = f"steps.{of}.result"
        e.put(e.own(task, key), arg, f"{{{{ {{'results': {whole}, 'stats': {whole}.stats}} }}}}", node)


def _reads_loop(code: str, arg: str) -> bool:
    """Return whether a program reads `results` or `stats` of an argument, also as keys of a mapping."""
    if re.search(rf"\b{arg}\s*{_PARTS}", code):
        return True
    types = {word for word in ("dict", "list") if re.search(rf"\bisinstance\s*\(\s*{arg}\s*,[^)]*\b{word}\b", code)}
    return types == {"dict"} and re.search(_PARTS, code) is not None
