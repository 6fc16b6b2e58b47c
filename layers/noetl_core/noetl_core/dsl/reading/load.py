"""YAML text -> `Node`s with positions, within budgets.

YAML 1.2 core values; anchors, aliases and merge keys are followed, tags are refused. Parser events are processed in a loop,
so neither nesting nor aliases can exhaust the stack or the memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final, Literal, cast

import yaml

from noetl_core.dsl.model import Path
from noetl_core.dsl.reading.diagnostics import Diagnostic, Severity
from noetl_core.dsl.reading.scalars import BOOLEANS_1_1, NotANumber, resolve, surprise
from noetl_core.values.frozen import mutable

MAX_BYTES: Final = 5 * 1024 * 1024
MAX_DEPTH: Final = 64
PINNED: Final = "x-pinned"
"""The key at the root of a playbook under which `dsl.sections.workbook_uses` keeps tasks of other playbooks."""
MAX_ALIASED: Final = 100_000
"""Nodes that aliases may stand for, in total."""
MAX_NODES: Final = 1_000_000

_PARSER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_PAIR: Final = re.compile(r"((?<!\\)(?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_TAB: Final = re.compile(r"^ *\t[ \t]*(?=[^\s#])", re.MULTILINE)

_NO_KEYS: Final = cast("dict[str, tuple[int, int]]", MappingProxyType({}))
"""The keys of nodes that are no mappings: one object, as there are 100,000 such nodes in a large playbook."""


class Node:
    """A value and its position. `value`: dict of key -> Node, list of Node, or a scalar. `line`, `col` count from 1."""

    __slots__ = ("col", "keys", "line", "path", "plain_text", "rewritten", "shared", "size", "start", "style", "value")

    def __init__(self, value: Any, line: int, col: int, path: Path, style: str | None = None, start: int = 0) -> None:
        self.value = value
        self.line = line
        self.col = col
        self.path = path
        self.style = style
        """None (plain), `'`, `"`, `|`, `>` for scalars."""
        self.start = start
        """Offset of a scalar in the source text."""
        self.size = 1
        self.keys: dict[str, tuple[int, int]] = {} if isinstance(value, dict) else _NO_KEYS
        """The line and column of each key, if the node is a mapping."""
        self.plain_text: str | None = None
        """The text of the node, if it is an unquoted scalar."""
        self.rewritten = False
        """If true, the value differs from the text, because an accepted spelling was replaced."""
        self.shared = False
        """True if an alias refers to it."""

    @property
    def kind(self) -> Literal["mapping", "list", "scalar"]:
        return "mapping" if isinstance(self.value, dict) else "list" if isinstance(self.value, list) else "scalar"

    def plain(self) -> Any:
        """Return the value without positions."""
        value = self.value
        if isinstance(value, dict):
            return {k: v.plain() for k, v in value.items()}
        if isinstance(value, list):
            return [v.plain() for v in value]
        return value

    def get(self, key: str) -> Node | None:
        """Return an entry of a mapping; None if there is none, or if this is not a mapping."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def at(self, path: Iterable[str]) -> Node:
        """Return what a path of keys leads to, as far as it exists."""
        node = self
        for key in path:
            node = node.get(key) or node
        return node

    def key_at(self, key: str) -> tuple[int, int]:
        """Return where `key` is written, or the position of the mapping when the key was merged in."""
        return self.keys.get(key, (self.line, self.col))

    def scalars(self) -> Iterator[Node]:
        """Yield all scalars below, depth first."""
        if isinstance(self.value, dict):
            for child in self.value.values():
                yield from child.scalars()
        elif isinstance(self.value, list):
            for child in self.value:
                yield from child.scalars()
        else:
            yield self


@mutable
class Loaded:
    """`root` is None when the text could not be read at all."""

    root: Node | None
    text: str
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def position(self, node: Node, line: int, col: int) -> tuple[int, int]:
        """Return where character (`line`, `col`), from 1, of a scalar's text stands in the file.

        Folding and quoting only change white space (and escapes), so the non-blank characters before it are counted. A text that
        is pinned stands where it is used.
        """
        if node.path[:1] == (PINNED,):
            return node.line, node.col
        lines = str(node.value).splitlines()
        before = "".join(lines[: line - 1]) + (lines[line - 1][: col - 1] if line <= len(lines) else "")
        remaining = sum(1 for c in before if not c.isspace())
        at = _content(self.text, node)
        while at < len(self.text):
            width = 0 if self.text[at].isspace() else _width(self.text, at, node.style)
            if width and remaining == 0:
                break
            remaining -= 1 if width else 0
            at += width or 1
        row = self.text.count("\n", 0, at)
        return row + 1, at - (self.text.rfind("\n", 0, at) + 1) + 1


def _content(text: str, node: Node) -> int:
    """Return the offset of the first character of a scalar's content."""
    if node.style in ("|", ">"):
        end = text.find("\n", node.start)
        return len(text) if end < 0 else end + 1
    return node.start + (1 if node.style else 0)


def _width(text: str, at: int, style: str | None) -> int:
    """Return the source characters that form the one content character at `at`."""
    if style == "'" and text.startswith("''", at):
        return 2
    if style == '"' and text[at] == "\\":
        return {"x": 4, "u": 6, "U": 10}.get(text[at + 1 : at + 2], 2)
    return 1


def load(text: str, source: str = "<string>") -> Loaded:
    """Read one YAML document. It never raises for text that an author can write: problems are in `diagnostics`."""
    if text.lstrip()[:1] == "{":
        text = _PAIR.sub(_joined, text)
    return _Builder(text, source).build()


def _joined(pair: re.Match[str]) -> str:
    """Join the two escapes with which JSON writes a character beyond U+FFFF; YAML does not know this form."""
    return pair[1] + chr(0x10000 + ((int(pair[2], 16) - 0xD800) << 10) + int(pair[3], 16) - 0xDC00)


class _Refused(Exception):
    """Reading cannot continue; the diagnostic is recorded."""


@mutable
class _Frame:
    node: Node
    anchor: str | None
    awaits_key: bool
    key: str | None = None
    """The key whose value comes; None in a list."""
    merging: bool = False
    """The key is an unquoted `<<`."""
    merges: tuple[Node, ...] = ()


class _Builder:
    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.out = Loaded(None, text)
        self.anchors: dict[str, Node] = {}
        self.open_anchors: set[str] = set()
        self.stack: list[_Frame] = []
        self.nodes = 0
        self.aliased = 0

    def build(self) -> Loaded:
        try:
            self._check_characters()
            self._events()
        except _Refused:
            self.out.root = None
        except yaml.MarkedYAMLError as error:
            self.out.root = None
            self._syntax(error)
        except yaml.YAMLError as error:
            self.out.root = None
            self._report("E100", 1, 1, f"not readable as YAML: {str(error).splitlines()[0]}")
        else:
            if self.out.root is None:
                self._report("E100", 1, 1, "the document is empty")
        return self.out

    def _report(self, code: str, line: int, col: int, message: str, hint: str = "", severity: Severity = "error") -> None:
        path = self.stack[-1].node.path if self.stack else ()
        self.out.diagnostics.append(Diagnostic(code, severity, message, hint, self.source, line, col, path))

    def _check_characters(self) -> None:
        if len(self.text) > MAX_BYTES or len(self.text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            self._report("E101", 1, 1, f"the playbook is larger than {MAX_BYTES // 1024 // 1024} MB", "move data out of it")
            raise _Refused
        if self.text.startswith("\ufeff"):
            self._report("E102", 1, 1, "the text begins with a byte order mark", "save it as UTF-8 without BOM")
            raise _Refused
        bad = _FORBIDDEN.search(self.text)
        if bad is not None:
            line, col = self._line_col(bad.start())
            self._report("E102", line, col, f"character U+{ord(bad.group()):04X} is not allowed", "remove it")
            raise _Refused

    def _line_col(self, at: int) -> tuple[int, int]:
        return self.text.count("\n", 0, at) + 1, at - (self.text.rfind("\n", 0, at) + 1) + 1

    def _syntax(self, error: yaml.MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        line, col = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        lines = self.text.splitlines()
        row = lines[line - 1] if line <= len(lines) else ""
        problem = error.problem or "not readable as YAML"
        if _TAB.match(row):
            self._report("E102", line, row.index("\t") + 1, "a tab used as indentation", "indent with spaces")
        else:
            self._report("E100", line, col, problem, _syntax_hint(problem, row))

    # --- events ---------------------------------------------------------------------------------------------------------

    def _events(self) -> None:
        parser = _PARSER(self.text)
        documents = 0
        try:
            while (event := parser.get_event()) is not None:
                kind = type(event)
                if kind is yaml.ScalarEvent:
                    self._scalar(event)
                elif kind is yaml.MappingStartEvent:
                    self._open(event, {})
                elif kind is yaml.SequenceStartEvent:
                    self._open(event, [])
                elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                    self._close()
                elif kind is yaml.AliasEvent:
                    self._alias(event)
                elif kind is yaml.DocumentStartEvent:
                    documents += 1
                    if documents > 1:
                        line, col = event.start_mark.line + 1, event.start_mark.column + 1
                        self._report("E104", line, col, "a second YAML document", "one file holds one playbook")
                        raise _Refused
        finally:
            parser.dispose()

    def _new(self, event: Any, value: Any, style: str | None = None) -> Node:
        mark, tag = event.start_mark, event.tag
        line, col = mark.line + 1, mark.column + 1
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self._report("E101", line, col, f"more than {MAX_NODES} values", "move data out of the playbook")
            raise _Refused
        if tag is not None and tag != "!":
            self._report("E104", line, col, f"tag {tag!r}", "playbooks hold plain values; quote text instead")
        path: Path = ()
        if self.stack:
            frame = self.stack[-1]
            path = (*frame.node.path, len(frame.node.value) if frame.key is None else frame.key)
        return Node(value, line, col, path, style, mark.index)

    def _awaits_key(self) -> bool:
        return bool(self.stack) and self.stack[-1].awaits_key

    def _scalar(self, event: Any) -> None:
        if self.stack and self.stack[-1].awaits_key:
            self._key(event)
            return
        style = event.style or None
        text: str = event.value
        node = self._new(event, text, style)
        if style is None and event.implicit[0]:
            node.plain_text = text
            try:
                node.value = resolve(text)
            except NotANumber as error:
                self._report("E104", node.line, node.col, f"{error} is not a number that a playbook can hold", "quote it")
            else:
                self._surprise(node, text)
        self._add(node, event.anchor)

    def _surprise(self, node: Node, text: str) -> None:
        other = surprise(text)
        if other is not None:
            here = "text" if isinstance(node.value, str) else f"the number {node.value}"
            message = f"{text} is {here} here (YAML 1.2); YAML 1.1 reads {other}"
            self._report(
                "W401",
                node.line,
                node.col,
                message,
                "quote it, or write the boolean or the number that you mean",
                "warning",
            )

    def _key(self, event: Any) -> None:
        frame = self.stack[-1]
        mark, tag = event.start_mark, event.tag
        line, col = mark.line + 1, mark.column + 1
        if event.anchor is not None:
            self._report("E104", line, col, "an anchor on a key", "anchor the value")
        key: str = event.value
        if tag is not None and tag != "!":
            self._report("E104", line, col, f"tag {tag!r}", "playbooks hold plain values")
        merging = key == "<<" and not event.style
        if key in frame.node.keys and not merging:
            message = f'"{key}" is written twice (first at line {frame.node.keys[key][0]})'
            self._report("E103", line, col, message, "remove one")
        elif key in BOOLEANS_1_1 and event.implicit[0] and not event.style and not self._is_word(key):
            message = f"{key} is text here (YAML 1.2); YAML 1.1 reads a boolean"
            self._report("W401", line, col, message, "quote it", "warning")
        frame.key, frame.merging, frame.awaits_key = key, merging, False
        frame.node.keys.setdefault(key, (line, col))

    def _is_word(self, key: str) -> bool:
        """Return whether a key is a word of the language here."""
        return key == "on" and len(self.stack) > 1 and self.stack[-2].key == "retry"

    def _open(self, event: Any, value: Any) -> None:
        mark = event.start_mark
        if self._awaits_key():
            template = self.text.startswith("{", mark.index) and self.text[: mark.index].endswith("{")
            hint = 'quote templates: key: "{{ ... }}"' if template else "keys are text"
            self._report("E104", mark.line + 1, mark.column + 1, "a mapping or list used as a key", hint)
            raise _Refused
        if len(self.stack) >= MAX_DEPTH:
            self._report("E101", mark.line + 1, mark.column + 1, f"nested deeper than {MAX_DEPTH}", "flatten it")
            raise _Refused
        node = self._new(event, value)
        if event.anchor is not None:
            self.open_anchors.add(event.anchor)
            self.anchors.pop(event.anchor, None)
        self.stack.append(_Frame(node, event.anchor, isinstance(value, dict)))

    def _close(self) -> None:
        frame = self.stack.pop()
        for merged in frame.merges:
            for key, child in merged.value.items():
                frame.node.value.setdefault(key, child)
        if frame.anchor is not None:
            self.open_anchors.discard(frame.anchor)
        self._add(frame.node, frame.anchor)

    def _alias(self, event: Any) -> None:
        mark = event.start_mark
        line, col = mark.line + 1, mark.column + 1
        if self._awaits_key():
            self._report("E104", line, col, "an alias as a key", "write the key")
            raise _Refused
        node = self.anchors.get(event.anchor)
        if event.anchor in self.open_anchors:
            self._report("E101", line, col, f"*{event.anchor} contains itself", "write it out")
            raise _Refused
        if node is None:
            self._report("E100", line, col, f"no anchor &{event.anchor} before this alias", "define it first")
            raise _Refused
        node.shared = True
        self.aliased += node.size
        if self.aliased > MAX_ALIASED:
            self._report("E101", line, col, f"aliases stand for more than {MAX_ALIASED} values", "use fewer aliases")
            raise _Refused
        self._add(node, None)

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = node
        if not self.stack:
            self.out.root = node
            return
        frame = self.stack[-1]
        parent = frame.node
        parent.size += node.size
        key = frame.key
        if key is None:
            parent.value.append(node)
            return
        frame.key, frame.awaits_key = None, True
        if frame.merging:
            self._merge(frame, node)
        elif key not in parent.value:
            parent.value[key] = node

    def _merge(self, frame: _Frame, node: Node) -> None:
        sources = node.value if isinstance(node.value, list) else [node]
        if all(isinstance(n.value, dict) for n in sources):
            frame.merges += tuple(sources)
        else:
            self._report("E104", node.line, node.col, "<< merges mappings only", "use an alias of a mapping")


def _syntax_hint(problem: str, row: str) -> str:
    if "{{" in row and ('"' not in row and "'" not in row):
        return 'quote text that begins with {{: key: "{{ ... }}"'
    if "mapping values are not allowed" in problem:
        return "check the indentation, or quote text that contains a colon"
    if "could not find expected ':'" in problem or "did not find expected key" in problem:
        return "check the indentation and the quotes"
    return "check the indentation and the quotes above this line"
