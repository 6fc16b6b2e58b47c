"""Scripted tasks: the tasks that a case names get `kind: scripted`, whatever they were, and their outcomes as input.

So the script travels in the playbook, and the local runner and the stack do the same with it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

KEPT = frozenset({"name", "desc", "spec", "set_iter", "set_ctx", "set"})
"""Keys of a task that are not inputs of its tool."""
RAW = frozenset({"code"})
"""Inputs that are program text: they are not handed to the scripted tool, which renders what it is given."""


def scripted(playbook: dict[str, Any], tools: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """`playbook` with its tasks among `tools` (`<step>.<task>`, `workbook.<task>`) scripted, and the names that it has."""
    found: set[str] = set()
    out = copy.deepcopy(playbook)
    for name, task in _tasks(out):
        if name in tools:
            found.add(name)
            _rewrite(task, tools[name] if isinstance(tools[name], list) else [tools[name]])
    if found:
        out.setdefault("executor", {}).setdefault("spec", {})["extensions"] = True
    return out, found


def _rewrite(task: dict[str, Any], outcomes: list[Any]) -> None:
    inputs = {k: v for k, v in task.items() if k not in KEPT | RAW | {"kind"}}
    kept = {k: v for k, v in task.items() if k in KEPT}
    task.clear()
    task.update({**kept, "kind": "scripted", "outcomes": outcomes})
    if inputs:
        task["given"] = inputs


def _tasks(playbook: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every task's body with the name the engine gives it."""
    for step in playbook.get("workflow") or []:
        tool = step.get("tool")
        if isinstance(tool, dict):
            yield f"{step['step']}.{tool.get('name', step['step'] + '_task')}", tool
        elif isinstance(tool, list):
            yield from ((f"{step['step']}.{name}", task) for name, task in _listed(tool, ""))
    workbook = playbook.get("workbook") or {}
    if isinstance(workbook, list):
        yield from ((f"workbook.{e['name']}", e.get("tool", e)) for e in workbook)
    else:
        entries = workbook.get("tasks", workbook)
        yield from ((f"workbook.{name}", task) for name, task in entries.items())


def _listed(tasks: Any, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for i, task in enumerate(tasks if isinstance(tasks, list) else [tasks]):
        if "kind" in task:
            yield task.get("name", f"{prefix}task_{i}"), task
        elif "choose" in task:
            label = task.get("name", f"{prefix}choose_{i}")
            for n, branch in enumerate(task["choose"]):
                place = "else_" if "else" in branch else f"then_{n}_"
                yield from _listed(branch.get("then", branch.get("else", [])), f"{label}_{place}")
        elif "do" in task:
            label = task.get("name", f"{prefix}{'while' if 'while' in task else 'until'}_{i}")
            yield from _listed(task["do"], f"{label}_do_")
        elif len(task) == 1:
            yield from task.items()
