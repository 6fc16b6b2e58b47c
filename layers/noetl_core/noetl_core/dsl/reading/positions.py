"""The positions of a playbook's parts in its text, for messages about them after it was read."""

from __future__ import annotations

from typing import Any

from noetl_core.dsl.model import Path
from noetl_core.dsl.reading.load import Loaded, Node, load

SOURCE_LINES, SOURCE_CHARS = 3, 200
"""Maximum number of lines of a source that is shown, and of their characters."""
Position = tuple[int, int]
"""Line and column, from 1."""


class Positions:
    """The positions of one text."""

    def __init__(self, text: str) -> None:
        self._loaded = load(text)

    def of(self, path: Path, *below: str) -> Position | None:
        """Return the position of the part at `path`; with `below`, that of the last of these keys that exists. None: there is no
        such part."""
        node = self._node(path)
        if node is None:
            return None
        where = node.line, node.col
        for key in below:
            child = node.get(key)
            if child is None:
                break
            where, node = node.key_at(key), child
        return where

    def in_code(self, path: Path, line: int, column: int = 1) -> Position | None:
        """Return where a character of the text at `path` stands: a line of the program text of a task."""
        node = self._node(path)
        if node is None or not isinstance(node.value, str):
            return None
        return place_in_code(self._loaded, node, line, column) if 0 < line <= len(node.value.splitlines()) else None

    def source(self, line: int, column: int, *, block: bool) -> str:
        """Return the text at a position: its line, and with `block` the next lines of the same mapping, without their common
        indentation. Long lines and texts are shortened."""
        indent = column - 1
        lines = self._loaded.text.splitlines()[line - 1 : line - 1 + SOURCE_LINES]
        kept = lines[:1]
        for each in lines[1:] if block else ():
            if each.strip() and len(each) - len(each.lstrip()) < indent:
                break
            kept.append(each)
        while len(kept) > 1 and kept[-1].rstrip().endswith(":"):
            kept.pop()  # a key whose value is not shown
        text = [each[indent:] if n else each.lstrip().removeprefix("- ") for n, each in enumerate(kept)]
        return "\n".join(each if len(each) <= SOURCE_CHARS else f"{each[:SOURCE_CHARS]}…" for each in text).rstrip()

    def _node(self, path: Path) -> Node | None:
        node = self._loaded.root
        for part in path:
            value: Any = None if node is None else node.value
            try:
                node = value[part]
            except (KeyError, IndexError, TypeError):
                return None
        return node


def place_in_code(loaded: Loaded, code: Node, line: int, column: int) -> Position:
    """Return where a character of program text stands in the file. It may be the one after the end of its line."""
    lines = code.value.splitlines()
    text = lines[line - 1] if line <= len(lines) else ""
    if code.style == "|":
        row = loaded.text.count("\n", 0, code.start) + 1 + line
        written = loaded.text.splitlines()[row - 1 : row]
        if written and written[0].endswith(text):
            return row, len(written[0]) - len(text) + column
    within = max(1, min(column, len(text.rstrip())))
    row, col = loaded.position(code, line, within)
    return row, col + column - within
