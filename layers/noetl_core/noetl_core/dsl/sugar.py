"""Task lists -> pipelines; the authoring sugar `choose`, `while`, `until` (canonical 14, resolution 18)."""

from __future__ import annotations

from noetl_core.dsl.load import Node
from noetl_core.dsl.model import Task
from noetl_core.dsl.reader import Reader
from noetl_core.dsl.tasks import TaskScope, list_task


def pipeline(r: Reader, node: Node, scope: TaskScope) -> tuple[Task, ...]:
    """The tasks of a list, in order."""
    tasks = (list_task(r, item, i, scope) for i, item in enumerate(node.value))
    return tuple(t for t in tasks if t is not None)
