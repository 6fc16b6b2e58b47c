"""Applies the rewriting of the dialect of the field (`noetl_core.dsl.dialect`) to the text.

The reader records its changes; each is made here on the tree of the text, so a run and this command cannot understand a playbook
differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl_core.dsl.dialect import Edit, Edits, rewrite_playbook
from noetl_core.dsl.reading.load import Loaded
from noetl_core.dsl.reading.load import Node as Read
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.templates import check_templates
from noetl_migrate.context import Context
from noetl_migrate.tree import Entry, Map, Node, Scalar, Seq, copied, followed, node

MERGED: Final = "what a merge key brings cannot be rewritten"


def from_the_field(c: Context, loaded: Loaded, root: Map) -> bool:
    """Rewrite the tree of a document as the reader rewrites its nodes. Returns whether anything changed; errors go to `c`."""
    r = Reader(loaded, c.source)
    if loaded.root is None or not isinstance(loaded.root.value, dict):
        return False
    check_templates(r, loaded.root)
    rewriting = _Rewriting(c, loaded.root, root)
    rewrite_playbook(Edits(r, rewriting.make), loaded.root)
    if rewriting.changed:
        c.diagnostics += [d for d in r.diagnostics if d.severity == "error"]
    return rewriting.changed


class _Rewriting:
    """Makes the changes of the reader on the tree of the same text."""

    def __init__(self, c: Context, read: Read, tree: Map) -> None:
        self.c = c
        self.known: dict[int, Node] = {}
        self.kept: list[Read] = []
        """Holds the nodes alive, whose identity is the key."""
        self.changed = False
        self._relate(read, tree)

    def _relate(self, read: Read, tree: Node) -> None:
        tree = followed(tree)
        if id(read) in self.known:
            return
        self.known[id(read)] = tree
        self.kept.append(read)
        if isinstance(read.value, dict) and isinstance(tree, Map):
            for key, child in read.value.items():
                entry = tree.entry(key)
                if entry is not None:
                    self._relate(child, entry.value)
        elif isinstance(read.value, list) and isinstance(tree, Seq):
            for child, entry in zip(read.value, tree.entries, strict=False):
                self._relate(child, entry.value)

    def make(self, edit: Edit) -> None:
        """Make one change. A change that is impossible in the text is an error of the whole file."""
        if self.c.refused:
            return
        self.changed = self.changed or edit.kind != "own"
        holder = self.known.get(id(edit.holder))
        if isinstance(holder, Map) and isinstance(edit.key, str):
            self._in_map(edit, holder, edit.key)
        elif isinstance(holder, Seq) and isinstance(edit.key, int):
            self._in_list(edit, holder, edit.key)
        else:
            self._refuse(edit)

    def _in_map(self, edit: Edit, holder: Map, key: str) -> None:
        found = holder.entry(key)
        if edit.kind == "put" and edit.to is not None:
            made = self._tree(edit.to)
            eol = found.eol if found is not None else ""
            entry = holder.put(key, made, 0 if edit.first else None)
            entry.eol = eol
            _opened(holder)
            return
        if found is None:
            self._refuse(edit)
            return
        found.raw = None
        _opened(holder)
        if edit.kind == "own" and edit.to is not None:
            self._own(found, edit.to)
        elif edit.kind == "remove":
            holder.pop(key)
        elif edit.kind == "move" and edit.to is not None:
            to = self.known.get(id(edit.to))
            if not isinstance(to, Map):
                self._refuse(edit)
            elif to is holder:
                holder.rename(found, edit.name)
            else:
                holder.pop(key)
                found.key, found.key_text = edit.name, ""
                to.entries.append(found)
                _opened(to)

    def _in_list(self, edit: Edit, holder: Seq, at: int) -> None:
        if edit.to is None:
            self._refuse(edit)
            return
        _opened(holder)
        if edit.kind == "insert":
            beside = holder.entries[min(at, len(holder.entries) - 1)] if holder.entries else None
            holder.entries.insert(at, Entry("", self._tree(edit.to), col=beside.col if beside is not None else 0))
        elif edit.kind == "own":
            self._own(holder.entries[at], edit.to)
        else:
            entry = holder.entries[at]
            entry.value, entry.raw = self._tree(edit.to), None

    def _own(self, entry: Entry, copy: Read) -> None:
        entry.value, entry.raw = copied(followed(entry.value)), None
        self._relate(copy, entry.value)

    def _tree(self, read: Read) -> Node:
        """Return the tree of a node. Parts that come from the text keep their form."""
        known = self.known.get(id(read))
        if known is not None:
            return known
        made: Node
        if isinstance(read.value, dict):
            made = Map([Entry(key, self._tree(child)) for key, child in read.value.items()])
            made.compact = _short(read.value)
        elif isinstance(read.value, list):
            made = Seq([Entry("", self._tree(child)) for child in read.value])
            made.compact = all(not isinstance(child.value, dict | list) for child in read.value)
        else:
            made = node(read.value)
        self.known[id(read)] = made
        self.kept.append(read)
        return made

    def _refuse(self, edit: Edit) -> None:
        self.c.refuse(Scalar(None, line=edit.holder.line - 1, col=edit.holder.col - 1), MERGED, "write it out")


def _opened(collection: Map | Seq) -> None:
    """Mark a collection as changed; one that was written on one line stays on one line where it fits."""
    collection.compact = collection.compact or collection.text is not None
    collection.text, collection.changed = None, True


def _short(value: Mapping[str, Read]) -> bool:
    """Return whether a mapping is written in one line where it fits."""
    return bool(value) and all(not isinstance(child.value, list) and not _deep(child) for child in value.values())


def _deep(read: Read) -> bool:
    return isinstance(read.value, dict) and any(isinstance(child.value, dict | list) for child in read.value.values())
