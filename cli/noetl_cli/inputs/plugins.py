"""Finds the kinds of tasks in a playbook whose distributions are not installed here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from noetl_core.dsl.kinds import PLUGINS
from noetl_core.dsl.reading.diagnostics import Diagnostic
from noetl_core.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from noetl_core.dsl.model import Playbook, Task


def absent(playbook: Playbook, source: str) -> Iterator[Diagnostic]:
    """Yield a note for each task of such a kind, or that transfers from such a kind of source: it may be installed where the
    playbook is to run."""
    installed: frozenset[str] | None = None
    for task in _tasks(playbook):
        for kind in _kinds(task):
            if kind not in PLUGINS:
                continue
            installed = ToolRegistry().kinds() if installed is None else installed
            if kind not in installed:
                message = f'kind {kind} of task "{task.name}" is in {PLUGINS[kind]}, which is not installed here'
                hint = f"install it where the playbook runs; on a stack: noetl up --tools {PLUGINS[kind]}"
                yield Diagnostic("E118", "note", message, hint, source, task.line or 1, 1, task.path)


def _tasks(playbook: Playbook) -> Iterator[Task]:
    for step in playbook.steps:
        yield from (*step.tasks, *step.compensate)


def _kinds(task: Task) -> Iterator[str]:
    yield task.kind
    source = task.inputs.get("source") if task.kind == "transfer" else None
    if isinstance(source, dict) and isinstance(source.get("kind"), str):
        yield source["kind"]
