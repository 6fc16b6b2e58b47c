"""YAML text -> the tree of `noetl_migrate.tree`: parser events give the values, the lines between them the rest."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Final

import yaml

from noetl_core.dsl.reading.scalars import resolve
from noetl_migrate.tree import Alias, Comment, Document, Entry, Map, Node, Scalar, Seq

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(text: str) -> Document | None:
    """Return the tree of a document that `dsl.reading.load` can read; None if it is not a mapping."""
    return _Reading(text).document()


def comments(text: str) -> list[tuple[int, str]]:
    """Yield every comment with its line (from 0), in order."""
    return [(line, text) for line, (_, text) in sorted(_Reading(text).comments.items())]


class _Reading:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.splitlines()
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        tokens = list(yaml.scan(text, _LOADER))
        self.dashes = [t.start_mark.index for t in tokens if isinstance(t, yaml.BlockEntryToken)]
        self.spans = [(t.start_mark.index, t.end_mark.index) for t in tokens if isinstance(t, yaml.ScalarToken)]
        self.blocks = [t for t in tokens if isinstance(t, yaml.ScalarToken) and t.style in ("|", ">")]
        self.comments = self._comments()
        self.covered = {i for a, b in self.spans for i in range(self._line(a) + 1, self._last_line(a, b) + 1)}
        """Lines that belong to a scalar begun on an earlier one."""
        self.anchors: dict[str, Node] = {}
        self.events: Iterator[Any] = iter(list(yaml.parse(text, _LOADER)))

    def _line(self, index: int) -> int:
        return max(0, bisect_right(self.starts, index) - 1)

    def _last_line(self, start: int, end: int) -> int:
        """Return the line of a scalar's last character; blank lines after a block scalar belong to it only if it keeps them
        (`|+`)."""
        text = self.text[start:end]
        keeps = text[:1] in ("|", ">") and "+" in text.partition("\n")[0]
        return self._line(start + max(0, len(text if keeps else text.rstrip()) - 1))

    def _comments(self) -> dict[int, Comment]:
        out = {}
        begins = [a for a, _ in self.spans]
        headers = {t.start_mark.index: self.text.find("\n", t.start_mark.index) for t in self.blocks}
        for number, line in enumerate(self.lines):
            at = -1
            while (at := line.find("#", at + 1)) >= 0:
                if at and line[at - 1] not in " \t":
                    continue
                index = self.starts[number] + at
                span = bisect_right(begins, index) - 1
                if span >= 0 and index < self.spans[span][1]:
                    header = headers.get(begins[span])
                    if header is None or index > header:
                        continue
                out[number] = (at, line[at:].rstrip())
                break
        return out

    def _idle(self, line: int) -> bool:
        """Return whether a line contains only a comment, or nothing."""
        if line in self.covered or line >= len(self.lines):
            return False
        stripped = self.lines[line].strip()
        return not stripped or (line in self.comments and stripped.startswith("#"))

    def _idle_line(self, line: int) -> Comment:
        return self.comments.get(line, (0, ""))

    # --- nodes ----------------------------------------------------------------------------------------------------------

    def document(self) -> Document | None:
        event = next(self.events)
        while not isinstance(event, yaml.NodeEvent):
            event = next(self.events)
        root = self._node(event, 0)
        if not isinstance(root, Map):
            return None
        first = root.entries[0].line if root.entries and root.text is None else 0
        end = next((n for n, line in enumerate(self.lines) if line.rstrip() == "..." and n not in self.covered), len(self.lines))
        if root.text is None:
            self._regions(root, end)
        return Document(root, self.lines[:first], self.lines[end:], *self._indentation(root))

    def _node(self, event: Any, home: int) -> Node:
        made: Scalar | Map | Seq
        mark = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            name = str(event.anchor)
            return Alias(name, self.anchors[name], mark.line, mark.column)
        if isinstance(event, yaml.ScalarEvent):
            made = self._scalar(event, home)
        elif isinstance(event, yaml.MappingStartEvent):
            made = self._mapping(event, home)
        else:
            made = self._sequence(event, home)
        if event.anchor is not None:
            made.anchor = f"&{event.anchor}"
            self.anchors[event.anchor] = made
        return made

    def _scalar(self, event: Any, home: int) -> Scalar:
        text = self.text[event.start_mark.index : event.end_mark.index]
        if event.anchor is not None:
            text = text[len(event.anchor) + 1 :].lstrip()
        style = event.style or None
        value = resolve(event.value) if event.implicit[0] and style is None else event.value
        if style in ("|", ">") and "+" not in text.partition("\n")[0]:
            text = text.rstrip()
        return Scalar(value, text.removesuffix("\n"), style, home,
                      event.start_mark.line, event.start_mark.column, changed=False)  # fmt: skip

    def _mapping(self, event: Any, home: int) -> Map:
        made = Map(home=home, line=event.start_mark.line, col=event.start_mark.column, changed=False)
        while not isinstance(key := next(self.events), yaml.MappingEndEvent):
            mark = key.start_mark
            text = self.text[mark.index : key.end_mark.index]
            value = self._node(next(self.events), mark.column)
            made.entries.append(Entry(key.value, value, key_text=text, line=mark.line, col=mark.column))
        self._flow(made, event, key)
        return made

    def _sequence(self, event: Any, home: int) -> Seq:
        made = Seq(home=home, line=event.start_mark.line, col=event.start_mark.column, changed=False)
        while not isinstance(item := next(self.events), yaml.SequenceEndEvent):
            mark = item.start_mark
            line, col = mark.line, mark.column
            if not event.flow_style:
                at = self.dashes[bisect_left(self.dashes, mark.index) - 1]
                line = self._line(at)
                col = at - self.starts[line]
            made.entries.append(Entry("", self._node(item, col), line=line, col=col))
        self._flow(made, event, item)
        return made

    def _flow(self, made: Map | Seq, start: Any, end: Any) -> None:
        """Return the text of a collection in flow style, and that of its entries."""
        if not start.flow_style:
            return
        text = self.text[start.start_mark.index : end.end_mark.index]
        made.text = text[len(start.anchor) + 1 :].lstrip() if start.anchor is not None else text
        for e in made.entries:
            e.raw = []
        for line in range(start.start_mark.line, end.end_mark.line):
            if line in self.comments:
                later = next((e for e in made.entries if e.line > line), None)
                column = (later or made.entries[0]).col if made.entries else 0
                (later.before if later is not None else made.tail).append((column, self.comments[line][1]))

    # --- regions --------------------------------------------------------------------------------------------------------

    def _regions(self, block: Map | Seq, end: int) -> None:
        """Return which lines belong to which entry of a block collection that ends before line `end`."""
        for i, e in enumerate(block.entries):
            last = i + 1 == len(block.entries)
            until = end if last else block.entries[i + 1].line
            idle = until
            while idle - 1 > e.line and self._idle(idle - 1):
                idle -= 1
            mine = idle
            for line in range(idle, until):
                comment = self._idle_line(line)
                if comment[1]:
                    if comment[0] <= e.col:
                        break
                    mine = line + 1
            between = [self._idle_line(line) for line in range(mine, until)]
            if last:
                block.tail = between
            else:
                block.entries[i + 1].before = between
            e.raw = [self.lines[e.line][e.col :], *self.lines[e.line + 1 : mine]]
            self._inside(e, mine)

    def _inside(self, e: Entry, end: int) -> None:
        value = e.value
        if isinstance(value, Map | Seq) and value.text is None and value.entries:
            first = value.entries[0]
            if first.line > e.line:
                e.eol = self._eol(e.line)
                first.before = [self._idle_line(line) for line in range(e.line + 1, first.line) if self._idle(line)]
            self._regions(value, end)
            return
        at = e.line
        if (isinstance(value, Scalar) and value.text and value.style not in ("|", ">")) or (
            isinstance(value, Map | Seq) and value.text is not None
        ):
            at = value.line + value.text.count("\n")
        if not (isinstance(value, Scalar) and value.style in ("|", ">")):
            e.eol = self._eol(at)

    def _eol(self, line: int) -> str:
        at, text = self.comments.get(line, (0, ""))
        before = self.lines[line][:at]
        return before[len(before.rstrip()) :] + text

    def _indentation(self, root: Map) -> tuple[int, int]:
        """Return how the author indents: list items below their key, and mappings below theirs."""
        offset = step = None
        stack: list[tuple[Node, int]] = [(e.value, e.col) for e in root.entries]
        while stack and (offset is None or step is None):
            value, col = stack.pop()
            if not isinstance(value, Map | Seq) or value.text is not None or not value.entries:
                continue
            inner = value.entries[0].col - col
            if isinstance(value, Seq) and offset is None and inner in (0, 2, 4):
                offset = inner
            elif isinstance(value, Map) and step is None and value.entries[0].line > value.line - 1 and inner in (2, 4):
                step = inner
            stack.extend((e.value, e.col) for e in value.entries)
        return (2 if offset is None else offset), step or 2
