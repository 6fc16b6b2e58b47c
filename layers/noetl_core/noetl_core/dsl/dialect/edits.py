"""Records changes to a document while it is read, and reports them to the rewriter of its text.

The reader changes its own nodes and reads on. `noetl migrate` listens and makes each change in the text, so that the accepted
form and the written form cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import TemplateError, is_template
from noetl_core.values.frozen import mutable

Place = Node | tuple[Node, str]


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """One change. `own` replaces a value with several aliases by a copy, which changes no meaning."""

    kind: Literal["move", "remove", "put", "insert", "own"]
    holder: Node
    key: str | int
    to: Node | None = None
    """The target of the value (`move`), or the new value (`put`, `insert`, `own`)."""
    name: str = ""
    """The key that it has there (`move`)."""
    first: bool = False
    """If true, it comes before the other entries (`put`)."""


def _unheard(_edit: Edit) -> None:
    """Nobody rewrites the text."""


@mutable
class Edits:
    """Changes the nodes of one document; `on_edit` is called after each change."""

    r: Reader
    on_edit: Callable[[Edit], None] = _unheard

    def move(self, holder: Node, key: str, to: Node, name: str | None = None) -> None:
        """Move an entry of a mapping to another one; within the same mapping it is renamed and keeps its place."""
        name = key if name is None else name
        position = holder.key_at(key)
        if to is holder:
            holder.value = {name if k == key else k: v for k, v in holder.value.items()}
        else:
            to.value[name] = holder.value.pop(key)
        to.keys[name] = position
        self.on_edit(Edit("move", holder, key, to, name))

    def remove(self, holder: Node, key: str) -> Node:
        """Take an entry out of a mapping."""
        taken: Node = holder.value.pop(key)
        self.on_edit(Edit("remove", holder, key))
        return taken

    def put(self, holder: Node, key: str | int, value: Any, near: Place | None = None, *, first: bool = False) -> Node:
        """Give a mapping an entry, or replace one; of a list, replace an item. Messages point to `near`."""
        made = self.made_of(value, near or holder)
        if isinstance(key, str):
            holder.keys.setdefault(key, (made.line, made.col))
        if first:
            holder.value = {key: made, **holder.value}
        else:
            holder.value[key] = made
        self.on_edit(Edit("put", holder, key, made, first=first))
        return made

    def insert(self, holder: Node, at: int, value: Any, near: Place | None = None) -> Node:
        """Insert an item into a list."""
        made = self.made_of(value, near or holder)
        holder.value.insert(at, made)
        self.on_edit(Edit("insert", holder, at, made))
        return made

    def own(self, holder: Node, key: str | int) -> Node:
        """Return a value to be changed: a copy if an alias refers to it elsewhere."""
        node: Node = holder.value[key]
        if not node.shared:
            return node
        copy = _copied(node)
        holder.value[key] = copy
        self.on_edit(Edit("own", holder, key, copy))
        return copy

    def without_empty(self, holder: Node, keys: Iterable[str]) -> None:
        """Remove keys without a value."""
        for key in keys if isinstance(holder.value, dict) else ():
            if key in holder.value and holder.value[key].value is None:
                self.remove(holder, key)

    def below(self, holder: Node, key: str, near: Place) -> Node | None:
        """Return the mapping at `key`, which is created if it is missing; None, without a report, if the value is not a
        mapping."""
        if key not in holder.value:
            return self.put(holder, key, {}, near)
        node = self.own(holder, key)
        if node.value is None:
            return self.put(holder, key, {}, near)
        return node if isinstance(node.value, dict) else None

    def made_of(self, value: Any, near: Place) -> Node:
        """Return a node for a plain value, which may contain nodes; its templates are compiled."""
        if isinstance(value, Node):
            return value
        line, col = near[0].key_at(near[1]) if isinstance(near, tuple) else (near.line, near.col)
        at = near[0] if isinstance(near, tuple) else near
        inner: Any = value
        if isinstance(value, Mapping):
            inner = {k: self.made_of(v, near) for k, v in value.items()}
        elif isinstance(value, list | tuple):
            inner = [self.made_of(v, near) for v in value]
        node = Node(inner, line, col, at.path)
        node.rewritten = True
        if isinstance(inner, dict):
            node.keys = dict.fromkeys(inner, (line, col))
        elif is_template(inner) and inner not in self.r.reads:
            try:
                self.r.compile(inner)
            except TemplateError as error:
                self.r.report("E301", near, f"template: {error}")
        return node


def _copied(node: Node) -> Node:
    value = node.value
    if isinstance(value, dict):
        value = {k: _copied(v) for k, v in value.items()}
    elif isinstance(value, list):
        value = [_copied(v) for v in value]
    copy = Node(value, node.line, node.col, node.path, node.style, node.start)
    copy.keys, copy.plain_text, copy.rewritten, copy.size = dict(node.keys), node.plain_text, node.rewritten, node.size
    return copy
