"""Gives keys of `set` without a scope their scope: `iter` if only the loop that writes them reads them, else `ctx`.

The scope is derived from the text alone: from the readers of the key, the names that they use, and their places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.templates import scalars_below
from noetl_core.values.frozen import mutable

SCOPES: Final = ("ctx", "iter")


@mutable
class Readers:
    """The names that templates read, by their readers: the tasks `below` a step, or parts of it `elsewhere`."""

    as_ctx: set[str] = field(default_factory=set)
    """Read as `ctx.<name>` anywhere."""
    below: dict[str, set[str]] = field(default_factory=dict)
    """The names that a step's tasks read as `iter.<name>`, or bare, by step."""
    as_iter: dict[str, set[str]] = field(default_factory=dict)
    elsewhere: dict[str, set[str]] = field(default_factory=dict)
    """The names that a step's arcs, arguments, admission and loop read bare, by step."""
    executor: set[str] = field(default_factory=set)
    writers: dict[str, set[str]] = field(default_factory=dict)
    """The steps that write a name, to `ctx` or without a scope, by name."""

    def only(self, step: str, name: str) -> bool:
        """Return whether only the tasks of `step` read a name."""
        if name in self.as_ctx or name in self.executor or self.writers.get(name, {step}) != {step}:
            return False
        outside = any(name in names for other, names in self.below.items() if other != step)
        return not outside and not any(name in names for names in self.elsewhere.values())


def readers_of(r: Reader, root: Node, steps: list[Node]) -> Readers:
    out = Readers()
    for step in steps:
        name_node = step.get("step")
        name = str(name_node.value) if name_node is not None else ""
        tool = step.get("tool")
        below, as_iter, elsewhere = (d.setdefault(name, set()) for d in (out.below, out.as_iter, out.elsewhere))
        for part in (tool, step.get("compensate")):
            for path in _paths(r, part):
                if path[0] == "iter" and len(path) > 1:
                    as_iter.add(path[1])
                elif path[0] == "ctx":
                    out.as_ctx.update(path[1:2])
                else:
                    below.add(path[0])
        for key, part in step.value.items():
            if key not in ("tool", "compensate"):
                for path in _paths(r, part):
                    out.as_ctx.update(path[1:2] if path[0] == "ctx" else ())
                    elsewhere.add(path[0])
        for written in _written(step):
            out.writers.setdefault(written, set()).add(name)
    for section in ("executor", "workbook"):
        for path in _paths(r, root.get(section)):
            out.executor.update(path[1:2] if path[0] == "ctx" else path[:1])
    return out


def _written(node: Node) -> Iterator[str]:
    """Yield the names that anything below writes to `ctx` or without a scope."""
    if isinstance(node.value, list):
        for child in node.value:
            yield from _written(child)
    elif isinstance(node.value, dict):
        for key, child in node.value.items():
            if key in ("set", "set_ctx") and isinstance(child.value, dict):
                yield from (name.removeprefix("ctx.") for name in child.value if not name.startswith("iter."))
            yield from _written(child)


def _paths(r: Reader, node: Node | None) -> list[tuple[str, ...]]:
    scalars = [] if node is None else scalars_below(node)
    return [read.path for scalar in scalars for read in r.reads.get(scalar.value, ())]


def rewrite_set(e: Edits, holder: Node, readers: Readers, step: str | None, *, looped: bool) -> None:
    """Give every key of `set` its scope. `step` None: nothing but `ctx` can be written here."""
    node = holder.get("set")
    if node is None or not isinstance(node.value, dict) or all(_scoped(key) for key in node.value):
        return
    node = e.own(holder, "set")
    for key in list(node.value):
        if _scoped(key):
            continue
        child = node.value[key]
        if key in SCOPES and isinstance(child.value, dict):
            for name in list(child.value):
                e.move(child, name, node, f"{key}.{name}")
            e.remove(node, key)
            continue
        e.move(node, key, node, f"{_scope(readers, step, key, looped=looped)}.{key}")


def _scoped(key: str) -> bool:
    """Return whether a key says where it is written, or tries to."""
    return "." in key


def _scope(readers: Readers, step: str | None, name: str, *, looped: bool) -> str:
    if step is None or not readers.only(step, name):
        return "ctx"
    return "iter" if looped or name in readers.as_iter.get(step, ()) else "ctx"
