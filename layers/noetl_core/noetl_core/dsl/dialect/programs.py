"""What Python programs read under the names of other engines: results of steps in `context`, and `results` and `stats` of what a
loop gave. Templates have these names (`noetl_core.dsl.dialect.variants`); a program gets them as arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

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
_RESULT: Final = re.compile(r"\s*\{\{\s*(?:steps\.(\w+)\.result|(\w+))\s*\}\}\s*\Z")


def rewrite_program(e: Edits, task: Node, name: str, step: str | None, steps: Mapping[str, bool], bound: frozenset[str]) -> None:
    """Give a program the names that it reads. `steps`: the names of all steps, and whether they have a loop."""
    code = task.get("code")
    if code is None or not isinstance(code.value, str):
        return
    if "context" in code.value and step is not None and "context" not in bound:
        _context(e, task, name, step, code.value, steps)
    key = _args_key(task)
    args = task.get(key)
    for arg in list(args.value) if args is not None and isinstance(args.value, dict) else ():
        _loop(e, task, key, arg, code.value, steps)


def _args_key(task: Node) -> str:
    return "input" if "input" in task.value and "args" not in task.value else "args"


def _context(e: Edits, task: Node, name: str, step: str, code: str, steps: Mapping[str, bool]) -> None:
    """Add the argument `context` with the results of the steps that the program reads there, beside the parts it also reads."""
    read = dict.fromkeys(found[2] for found in _CONTEXT.finditer(code))
    results = [key for key in read if key in steps and key not in _NAMED]
    if not results:
        return
    if "task_run_id" in read:
        message = f'context of task "{name}" is read for task_run_id and for the result of step "{results[0]}"'
        e.r.report("E114", task.value["code"], message, f"read _run['task_run_id'], and pass args: {{{results[0]}: ...}}")
        return
    whole = _OTHERWISE.search(_PARAMETER.sub("", code)) is not None
    own = [key for key in ("execution_id", "attempt", "workload", "ctx") if whole or key in read]
    about = {"step": step, "task": name}
    holder = e.below(task, _args_key(task), (task, "code"))
    if holder is not None:
        context: dict[str, str] = {key: f"{{{{ {key} | default(none) }}}}" for key in results}
        context |= {key: value for key, value in about.items() if whole or key in read}
        e.put(holder, "context", {**context, **{key: _OWN[key] for key in own}}, (task, "code"))


def _loop(e: Edits, task: Node, key: str, arg: str, code: str, steps: Mapping[str, bool]) -> None:
    """Give an argument that is the list of a loop the names `results` and `stats`, if the program reads it by them."""
    node = task.value[key].value[arg]
    found = _RESULT.match(node.value) if isinstance(node.value, str) else None
    of = (found[1] or found[2]) if found is not None else ""
    if not steps.get(of, False):
        return
    if re.search(rf"""\b{re.escape(arg)}\s*(?:\[\s*|\.\s*get\s*\(\s*)['"](?:results|stats)['"]""", code):
        whole = f"steps.{of}.result"
        e.put(e.own(task, key), arg, f"{{{{ {{'results': {whole}, 'stats': {whole}.stats}} }}}}", node)
