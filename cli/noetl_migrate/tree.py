"""A YAML document as it is written: its values, with the text, comments and blank lines from which they were read.

Rewriting a legacy playbook must not change any other part of it. So each entry of a mapping or list keeps the lines from
which it was read (`reading`); `write` returns them as they are, indented differently where necessary, unless something below
them changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Comment = tuple[int, str]
"""A line between entries: the column and text of its comment; `(0, "")` for a blank line."""


@dataclass(slots=True, eq=False)
class Scalar:
    """A plain value. `text`: as written, with quotes and block headers; None for a new value.

    `home` is the column of the entry in which it was read: a text of several lines moves with it. `line` and `col` (from 0)
    are its position in the source.
    """

    value: Any
    text: str | None = None
    style: str | None = None
    home: int = 0
    line: int = 0
    col: int = 0
    anchor: str = ""
    changed: bool = True


@dataclass(slots=True, eq=False)
class Alias:
    """`*name`, and the node that it names."""

    name: str
    target: Node
    line: int = 0
    col: int = 0
    changed: bool = False


@dataclass(slots=True, eq=False)
class Entry:
    """An item of a list (`key` is "") or an entry of a mapping."""

    key: str
    value: Node
    before: list[Comment] = field(default_factory=list)
    eol: str = ""
    """The comment at the end of its own line, with the space before it."""
    raw: list[str] | None = None
    """The lines it was read from, the first one from its own column on."""
    key_text: str = ""
    line: int = 0
    col: int = 0


@dataclass(slots=True, eq=False)
class Collection:
    """The common part of mappings and lists. `text` is the source of a collection in flow style."""

    entries: list[Entry] = field(default_factory=list)
    tail: list[Comment] = field(default_factory=list)
    """Comments after the last entry."""
    text: str | None = None
    home: int = 0
    line: int = 0
    col: int = 0
    anchor: str = ""
    changed: bool = True
    compact: bool = False
    """New, and to be written in one line where that is short."""


@dataclass(slots=True, eq=False)
class Map(Collection):
    """A mapping."""

    def entry(self, key: str) -> Entry | None:
        return next((e for e in self.entries if e.key == key), None)

    def get(self, key: str) -> Node | None:
        """Return the value of `key`, with an alias followed; None when there is none."""
        found = self.entry(key)
        return None if found is None else followed(found.value)

    def index(self, key: str) -> int:
        return next(i for i, e in enumerate(self.entries) if e.key == key)

    def pop(self, key: str) -> Entry | None:
        """Take an entry out, with the comments above it."""
        found = self.entry(key)
        if found is not None:
            self.entries.remove(found)
            self.changed = True
        return found

    def put(self, key: str, value: Any, at: int | None = None) -> Entry:
        """Add an entry, or give the existing one a new value."""
        found = self.entry(key)
        self.changed = True
        if found is None:
            found = Entry(key, node(value))
            self.entries.insert(len(self.entries) if at is None else at, found)
        else:
            found.value, found.raw = node(value), None
        return found

    def rename(self, entry: Entry, key: str) -> None:
        entry.key, entry.key_text, entry.raw = key, "", None
        self.changed = True


@dataclass(slots=True, eq=False)
class Seq(Collection):
    """A list."""


Node = Scalar | Alias | Map | Seq


@dataclass(slots=True)
class Document:
    """`root` is the playbook, `head` the text above its first key, `foot` the text after it. `offset`: how far list items are
    indented from their key, `step`: mappings from theirs."""

    root: Map
    head: list[str]
    foot: list[str]
    offset: int
    step: int


def node(value: Any) -> Node:
    """Return a node for a plain value; nodes stay as they are, also inside."""
    if isinstance(value, Scalar | Alias | Map | Seq):
        return value
    if isinstance(value, Mapping):
        return Map([Entry(str(k), node(v)) for k, v in value.items()])
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Seq([Entry("", node(v)) for v in value])
    return Scalar(value)


def short(value: Mapping[str, Any]) -> Map:
    """Return a mapping that is written in one line where it fits."""
    made = Map([Entry(k, node(v)) for k, v in value.items()])
    made.compact = True
    return made


def followed(value: Node) -> Node:
    while isinstance(value, Alias):
        value = value.target
    return value


def own(holder: Entry) -> Node:
    """Return the value of an entry to be changed: the value of an alias is copied, so that its other uses stay."""
    if isinstance(holder.value, Alias):
        holder.value = copied(followed(holder.value))
        holder.raw = None
    return holder.value


def copied(value: Node) -> Node:
    """Return a copy without anchors and comments."""
    if isinstance(value, Alias):
        return Alias(value.name, value.target)
    if isinstance(value, Scalar):
        return Scalar(value.value, value.text, value.style, value.home, value.line, value.col)
    entries = [Entry(e.key, copied(e.value), [], "", None, e.key_text, e.line, e.col) for e in value.entries]
    made = Map(entries) if isinstance(value, Map) else Seq(entries)
    made.line, made.col = value.line, value.col
    return made


def plain(value: Node) -> Any:
    """Return the value without its text; merge keys are followed."""
    value = followed(value)
    if isinstance(value, Map):
        out: dict[str, Any] = {}
        for e in value.entries:
            if e.key != "<<":
                out[e.key] = plain(e.value)
        return out
    if isinstance(value, Seq):
        return [plain(e.value) for e in value.entries]
    assert isinstance(value, Scalar)
    return value.value


def unchanged(value: Node) -> bool:
    """Return whether everything below is as it was read."""
    if value.changed:
        return False
    return not isinstance(value, Map | Seq) or all(e.raw is not None and unchanged(e.value) for e in value.entries)


def scalars(value: Node) -> Iterator[Scalar]:
    """Yield all scalars below; aliases are not followed."""
    if isinstance(value, Scalar):
        yield value
    elif isinstance(value, Map | Seq):
        for e in value.entries:
            yield from scalars(e.value)


def write_out_aliases(value: Map | Seq, seen: set[str] | None = None) -> None:
    """Copy the value of an alias that no longer comes after its anchor."""
    seen = set() if seen is None else seen
    for e in value.entries:
        if isinstance(e.value, Alias) and e.value.name not in seen:
            own(e)
        if not isinstance(e.value, Alias) and e.value.anchor:
            seen.add(e.value.anchor[1:])
        if isinstance(e.value, Map | Seq):
            write_out_aliases(e.value, seen)


def mappings_of(value: Node) -> Iterator[Map]:
    """Yield all mappings below; aliases are not followed."""
    if isinstance(value, Map):
        yield value
    if isinstance(value, Map | Seq):
        for e in value.entries:
            yield from mappings_of(e.value)
