"""Warns about tasks that the workers of this stack cannot run: kinds and packages that need a layer, and shell commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl_core.dsl.kinds import PLUGINS
from noetl_core.dsl.model import Playbook, Task
from noetl_core.values.frozen import frozen


@frozen
class WorkerTools:
    """The parameters of the stack that decide which tools its workers have."""

    layers: bool
    """True if `ToolLayers` names layers; their content is not known."""
    shell: bool

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> WorkerTools:
        """Return the tools that a function's environment variables name."""
        return cls(bool(environment["TOOL_LAYERS"]), environment.get("ALLOW_SHELL", "no") != "no")

    def lacking(self, playbook: Playbook) -> Iterator[str]:
        """Yield a warning for each tool that no worker has."""
        if not self.layers:
            for task in _each_kind(playbook):
                if task.kind in PLUGINS:
                    add = f"add it: noetl up --tools {PLUGINS[task.kind]}, or the parameter ToolLayers"
                    yield f"task {task.name}: the stack has no layer with kind {task.kind} ({add})"
            if playbook.executor.requirements:
                packages = ", ".join(playbook.executor.requirements)
                add = "add it: noetl up --packages FILE, or the parameter ToolLayers"
                yield f"requirements: the stack has no layer with {packages} ({add})"
        if not self.shell and (shell := next((t for t in _each_kind(playbook) if t.kind == "shell"), None)):
            yield f"task {shell.name}: the stack runs no commands of playbooks (its parameter AllowShell is no)"


def _each_kind(playbook: Playbook) -> list[Task]:
    """Return the first task of each kind."""
    return list({task.kind: task for task in reversed(playbook.all_tasks)}.values())[::-1]
