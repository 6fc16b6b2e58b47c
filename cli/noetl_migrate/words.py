"""The case dialect's words for a tool."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.kinds import KINDS
from noetl_migrate.context import Context, text_of
from noetl_migrate.tree import Entry, Map, Scalar, own

KIND_WORDS: Final = {"pg": "postgres", "duck": "duckdb", "py": "python", "playbooks": "playbook"}
"""Kinds as the case dialect abbreviates them."""


def inputs_of(task: Map) -> frozenset[str]:
    known = KINDS.get(str(text_of(task.get("kind"))))
    return known.accepted if known is not None else frozenset({"with"})


def tool_words(c: Context, task: Map) -> None:
    """Replace the case dialect's words for a tool: short kinds, `with` for args, `timeout` outside spec."""
    kind = task.get("kind")
    if isinstance(kind, Scalar) and kind.value in KIND_WORDS:
        task.put("kind", KIND_WORDS[str(kind.value)])
    accepted = inputs_of(task)
    args, timeout = task.entry("with"), task.entry("timeout")
    if args is not None and "with" not in accepted:
        key = "payload" if text_of(task.get("kind")) == "playbook" else "args"
        if key not in accepted or task.entry(key) is not None:
            c.refuse(args, f'a task with "{key}" and "with"' if key in accepted else '"with" is for tools that take args')
        else:
            task.rename(args, key)
    if timeout is not None and "timeout" not in accepted:
        task.pop("timeout")
        spec = task.entry("spec")
        held = own(spec) if spec is not None else Map()
        if isinstance(held, Map):
            held.text, held.changed = None, True
            held.entries.append(timeout)
            if spec is None:
                task.entries.append(Entry("spec", held))
