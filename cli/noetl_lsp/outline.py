"""The outline of a text that may be half typed: its nodes with their spans.

The text is cut into chunks at the keys of its root and at the steps of its workflow. Each chunk is read by itself: an error
in a step hides nothing outside of it, and typing reads one step again. A chunk that is not YAML is read without its wrong lines.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Literal

import yaml

from noetl_core.dsl.model import Path
from noetl_core.dsl.reading.load import MAX_BYTES, MAX_DEPTH, Node
from noetl_core.dsl.reading.scalars import NotANumber, resolve
from noetl_core.values.frozen import frozen
from noetl_lsp.text import Span

MARK: Final = "\ue000"
"""Stands for what is typed next, where the text is read as if something were there."""
LONGEST_CHUNK: Final = 128 * 1024
"""Characters of a chunk that is read; of a longer one, nothing is known."""
REPAIRS: Final = 3
"""Lines of a chunk that may be left out."""

_PARSER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ROOT_KEY: Final = re.compile(r"^(?:[A-Za-z_][\w.-]*|\"[^\"\n]*\"|'[^'\n]*')[ \t]*:(?=[ \t\r\n]|\Z)", re.MULTILINE)
_ITEM: Final = re.compile(r"^( *)-(?=[ \r\n]|\Z)", re.MULTILINE)
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_OPEN_QUOTE: Final = re.compile(r"^[^\"\n]*(?:\"(?:[^\"\\\n]|\\.)*\"[^\"\n]*)*(\")(?:[^\"\\\n]|\\.)*$", re.MULTILINE)
_LETTERS: Final = re.compile(r"[^\r\n]")


class Part(Node):
    """A node of a chunk, with the span of its text and those of its keys."""

    __slots__ = ("end", "spans")

    def __init__(self, value: Any, line: int, col: int, path: Path, style: str | None, start: int) -> None:
        super().__init__(value, line, col, path, style, start)
        self.end = start
        self.spans: dict[str, Span] = {}


@frozen
class Spot:
    """A key or a scalar, with its span in the chunk. `path` ends with the key itself, or leads to the value."""

    role: Literal["key", "value"]
    start: int
    end: int
    path: Path
    node: Part
    """The scalar, or the mapping that has the key."""

    @property
    def name(self) -> str:
        """The text of a key; that of a scalar if it is text."""
        if self.role == "key":
            return str(self.path[-1])
        return self.node.value if isinstance(self.node.value, str) else self.node.plain_text or ""


class Tree:
    """The nodes of a chunk. `root` is a mapping of the playbook's root, with nothing but this chunk."""

    __slots__ = ("_starts", "broken", "root", "spots")

    def __init__(self, root: Part, spots: list[Spot], broken: bool) -> None:
        self.root = root
        self.spots = spots
        self.broken = broken
        """Lines were left out."""
        self._starts = [spot.start for spot in spots]

    def spot(self, offset: int) -> Spot | None:
        """Return the key or scalar at an offset, its end included."""
        at = bisect_right(self._starts, offset) - 1
        found = self.spots[at] if at >= 0 else None
        return found if found is not None and offset <= found.end else None

    def along(self, path: Path) -> Iterator[Part]:
        """Yield the nodes from the root along a path, as far as they exist."""
        node: Part | None = self.root
        for part in (*path, None):
            if node is None:
                return
            yield node
            try:
                node = node.value[part]
            except (KeyError, IndexError, TypeError):
                return

    def at(self, path: Path) -> Part | None:
        """Return the node at a path."""
        found = list(self.along(path))
        return found[-1] if len(found) == len(path) + 1 else None


@frozen
class Chunk:
    """A key of the root with its value, or one step (`index`)."""

    start: int
    text: str
    index: int | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def tree(self) -> Tree:
        return _read(self.text, self.index is not None)

    @property
    def step(self) -> Part | None:
        """The step."""
        return None if self.index is None else self.tree.at(("workflow", 0))


@lru_cache(maxsize=8)
def chunks(text: str) -> tuple[Chunk, ...]:
    """Return the chunks of a text, in order; none of what is too large."""
    if len(text) > MAX_BYTES:
        return ()
    keys = [] if text.lstrip()[:1] in ("{", "[") else list(_ROOT_KEY.finditer(text))
    if not keys:
        return (Chunk(0, text),)
    found: list[Chunk] = []
    for key, following in zip(keys, [*keys[1:], None], strict=True):
        start, end = (key.start() if found else 0), (following.start() if following is not None else len(text))
        items = _items(text, key.end(), end) if key[0].strip(" \t:\"'") == "workflow" else []
        for index, (at, until) in enumerate(zip([start, *items], [*items, end], strict=True)):
            found.append(Chunk(at, text[at:until], index - 1 if index else None))
    return tuple(found)


def _items(text: str, start: int, end: int) -> list[int]:
    """Return the offsets of the lines at which items of a list begin."""
    first = _ITEM.search(text, start, end)
    if first is None or (text[start : first.start()].strip() and not _is_comment(text[start : first.start()])):
        return []
    pattern = re.compile(rf"^ {{{len(first[1])}}}-(?=[ \r\n]|\Z)", re.MULTILINE)
    return [item.start() for item in pattern.finditer(text, start, end)]


def _is_comment(text: str) -> bool:
    return all(not line.strip() or line.strip().startswith("#") for line in text.splitlines())


def chunk_at(text: str, offset: int) -> Chunk | None:
    """Return the chunk at an offset."""
    found = chunks(text)
    at = bisect_right([chunk.start for chunk in found], offset) - 1
    return found[at] if at >= 0 else None


# --- reading ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _read(text: str, is_step: bool) -> Tree:
    return read_repaired(text, is_step)


def read_once(text: str, is_step: bool) -> Tree:
    """Read a chunk up to its first mistake."""
    reading = _Reading(is_step)
    return reading.tree(broken=reading.read(_readable(text)) is not None)


def read_repaired(text: str, is_step: bool) -> Tree:
    """Read a chunk; the lines at which it is not YAML are left out."""
    text = _readable(text)
    for repair in range(REPAIRS + 1):
        reading = _Reading(is_step)
        at = reading.read(text)
        if at is None:
            return reading.tree(broken=repair > 0)
        if repair == 0 and (quoted := _open_quote(text, at)) is not None:
            at = quoted
        end = next((i for i in (text.find("\n", at),) if i >= 0), len(text))
        start = text.rfind("\n", 0, at) + 1
        if not text[start:end].strip():
            break
        text = text[:start] + _LETTERS.sub(" ", text[start:end]) + text[end:]
    return reading.tree(broken=True)


def _open_quote(text: str, before: int) -> int | None:
    """Return the place of the first text in double quotes that stays open to the end of its line, if it begins before a place."""
    found = _OPEN_QUOTE.search(text)
    return found.start(1) if found is not None and found.start(1) <= before else None


def _readable(text: str) -> str:
    """Return a text of the same length that the parser takes; of one that is too long, nothing."""
    return _UNREADABLE.sub("?", text) if len(text) <= LONGEST_CHUNK else ""


def _wrong_place(error: yaml.MarkedYAMLError) -> int:
    """Return where the wrong line begins: of an unfinished scalar, its beginning."""
    within = error.context is not None and error.context.startswith(("while scanning", "while parsing a flow"))
    mark = error.context_mark if within and error.context_mark is not None else error.problem_mark
    return 0 if mark is None else int(mark.index)


class _TooDeep(Exception):
    """The text is nested deeper than a playbook may be."""


class _Reading:
    """Builds the tree of a chunk from the events of the parser; what was read before an error is kept."""

    def __init__(self, is_step: bool) -> None:
        self.root = Part({}, 1, 1, (), None, 0)
        self.spots: list[Spot] = []
        self.stack: list[tuple[Part, str | None]] = []
        """The open mappings and lists; of a mapping, the key whose value comes."""
        if is_step:
            self.stack.append((self.root, "workflow"))
        self.anchors: dict[str, Part] = {}

    def tree(self, *, broken: bool) -> Tree:
        return Tree(self.root, self.spots, broken)

    def read(self, text: str) -> int | None:
        """Read a text. Return the place of its first mistake."""
        try:
            self._events(_PARSER(text))
        except yaml.MarkedYAMLError as error:
            return _wrong_place(error)
        except (yaml.YAMLError, RecursionError, UnicodeError, _TooDeep):
            return len(text)
        return None

    def _events(self, parser: Any) -> None:
        try:
            while parser.check_event():
                event = parser.get_event()
                kind = type(event)
                if kind is yaml.ScalarEvent:
                    self._scalar(event)
                elif kind is yaml.MappingStartEvent:
                    self._open(event, {})
                elif kind is yaml.SequenceStartEvent:
                    self._open(event, [])
                elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                    if self.stack:
                        self.stack.pop()[0].end = event.end_mark.index
                elif kind is yaml.AliasEvent and (known := self.anchors.get(event.anchor)) is not None:
                    self._add(known)
                elif kind is yaml.AliasEvent:
                    self._add(self._new(event, None))
        finally:
            parser.dispose()

    def _new(self, event: Any, value: Any, style: str | None = None) -> Part:
        mark = event.start_mark
        part = Part(value, mark.line + 1, mark.column + 1, self._path(), style, mark.index)
        part.end = event.end_mark.index
        return part

    def _path(self) -> Path:
        if not self.stack:
            return ()
        node, key = self.stack[-1]
        if isinstance(node.value, list):
            return (*node.path, len(node.value))
        return node.path if key is None else (*node.path, key)

    def _scalar(self, event: Any) -> None:
        span = event.start_mark.index, event.end_mark.index
        if self.stack and isinstance(self.stack[-1][0].value, dict) and self.stack[-1][1] is None:
            node = self.stack[-1][0]
            self.stack[-1] = node, event.value
            node.spans.setdefault(event.value, span)
            self.spots.append(Spot("key", *span, (*node.path, event.value), node))
            return
        if not self.stack:
            return  # the chunk is no mapping
        style = event.style or None
        part = self._new(event, event.value, style)
        if event.anchor is not None:
            part.start += len(event.anchor) + 2
        if event.implicit[0] and style is None:
            part.plain_text = event.value
            try:
                part.value = resolve(event.value)
            except NotANumber:
                part.value = event.value
        self.spots.append(Spot("value", part.start, part.end, part.path, part))
        self._add(part, event.anchor)

    def _open(self, event: Any, value: Any) -> None:
        if len(self.stack) > MAX_DEPTH:
            raise _TooDeep
        if not self.stack:
            part = self.root
            part.value = value
        else:
            part = self._new(event, value)
            self._add(part, event.anchor)
        self.stack.append((part, None))

    def _add(self, part: Part, anchor: str | None = None) -> None:
        if anchor is not None:
            self.anchors[anchor] = part
        if not self.stack:
            return
        node, key = self.stack[-1]
        if isinstance(node.value, list):
            node.value.append(part)
        elif key is not None:
            node.value.setdefault(key, part)
            self.stack[-1] = node, None
        else:
            self.stack[-1] = node, MARK  # a mapping or list as a key: its value belongs to nothing
