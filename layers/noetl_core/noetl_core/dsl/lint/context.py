"""Holds the context that the rules of lint share: the playbook, its text with positions, and the findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from noetl_core.dsl.lint.guards import Guards
from noetl_core.dsl.model import Path, Playbook, Task
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import Read
from noetl_core.values.frozen import frozen


@frozen
class Lint:
    """One pass over one valid playbook."""

    r: Reader
    root: Node
    playbook: Playbook
    guards: Guards

    def at(self, path: Path, *below: str) -> Node:
        """Return the node at `path`, and from there as far along `below` as it exists."""
        node = self.root
        for part in path:
            node = node.value[part]
        for key in below:
            child = node.get(key)
            if child is None:
                break
            node = child
        return node

    def step_nodes(self) -> Iterator[Node]:
        """The nodes of the steps, in order."""
        yield from (node for node in self.root.value["workflow"].value)

    def kinds(self, *words: str) -> Iterator[Node]:
        """Yield the tasks of the given kinds at all places. A mapping inside a task is not a task."""
        for section in ("workflow", "workbook"):
            stack = [node] if (node := self.root.get(section)) is not None else []
            while stack:
                part = stack.pop()
                if isinstance(part.value, list):
                    stack.extend(reversed(part.value))
                elif isinstance(part.value, dict):
                    kind = part.value.get("kind")
                    if kind is not None and kind.value in words:
                        yield part
                    elif kind is None or not isinstance(kind.value, str):
                        stack.extend(child for key, child in part.value.items() if not key.startswith("x-"))

    def step_name(self, path: Path) -> Node:
        """Return where the name of the step at `path` is written."""
        return self.at(path, "step")

    def report(self, code: str, where: Node | tuple[Node, str], message: str, hint: str = "") -> None:
        self.r.report(code, where, message, hint)

    def report_read(self, code: str, node: Node, read: Read, message: str, hint: str, name: str = "") -> None:
        """Report a finding at the place in a template where a name is read. A template that the dialect has rewritten stands
        otherwise in the file: there the field `name` is searched in its line."""
        if node.rewritten:
            end = self.r.loaded.text.find("\n", node.start)
            line = self.r.loaded.text[node.start : end if end >= 0 else None]
            found = re.search(rf"(?<=\.){re.escape(name)}\b", line) if name else None
            at = (node.line, node.col) if found is None else (node.line, node.col + found.start())
            self.r.report_at(code, at, node.path, message, hint)
        else:
            self.r.report_at(code, self.r.loaded.position(node, read.line, read.column), node.path, message, hint)


def called(task: Task) -> str:
    """Return the name of a task in the words of its author."""
    return task.label if task.label is not None else f'task "{task.name}"'


def listed(names: Sequence[str], last: str = "and") -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return f" {last} ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def task_nodes(node: Node) -> Iterator[Node]:
    """Yield the tasks below a tool; conditions of `choose`, `while`, `until` are returned as they are."""
    if isinstance(node.value, list):
        for child in node.value:
            yield from task_nodes(child)
    elif isinstance(node.value, dict):
        if "kind" in node.value:
            yield node
            return
        for key, child in node.value.items():
            if not key.startswith("x-"):
                yield from task_nodes(child)
    else:
        yield node
