"""Writes the tree as text: unchanged parts stay as they were, the rest gets the author's indentation."""

from __future__ import annotations

import json
import re
from typing import Final

from noetl_core.dsl.reading.scalars import NotANumber, resolve, surprise
from noetl_migrate.tree import Alias, Comment, Document, Entry, Map, Node, Scalar, Seq, unchanged

WIDTH: Final = 110
"""Longer new conditions are folded, longer new mappings written in block style."""
_PLAIN: Final = re.compile(r"[A-Za-z_][\w./\-]*\Z")


def write(document: Document) -> str:
    """Return the text of the document."""
    body = _Writing(document.offset, document.step).entries(document.root, 0)
    return "\n".join([*document.head, *body, *document.foot]) + "\n"


def quoted(value: object) -> str:
    """Return a new scalar in one line."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.match(value) and surprise(value) is None and isinstance(_resolved(value), str):
        return value
    if ('"' in value or "\\" in value) and "'" not in value and value.isprintable():
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=not value.isprintable())


def _resolved(text: str) -> object:
    try:
        return resolve(text)
    except NotANumber:
        return None


def moved(lines: list[str], by: int) -> list[str]:
    """Return the lines after the first, `by` columns further in (or out)."""
    if by >= 0:
        return [lines[0], *(" " * by + line if line.strip() else line for line in lines[1:])]
    return [lines[0], *(line[min(-by, len(line) - len(line.lstrip())) :] for line in lines[1:])]


class _Writing:
    def __init__(self, offset: int, step: int) -> None:
        self.offset = offset
        self.step = step

    def entries(self, block: Map | Seq, col: int) -> list[str]:
        out: list[str] = []
        for e in block.entries:
            out += self._comments(e.before, col, e)
            out += self.entry(e, col)
        return out + self._comments(block.tail, col, block.entries[0] if block.entries else None)

    def _comments(self, comments: list[Comment], col: int, beside: Entry | None) -> list[str]:
        """Return comments as they stood beside their entry; in its column when that is new, or has moved."""
        by = col - beside.col if beside is not None and beside.line else None
        return [" " * (col if by is None else max(0, at + by)) + text if text else "" for at, text in comments]

    def entry(self, e: Entry, col: int) -> list[str]:
        """Return the lines of an entry at column `col`."""
        head = " " * col
        if e.raw and unchanged(e.value):
            first, *rest = moved(e.raw, col - e.col)
            return [head + first, *rest]
        return self._value(head + (f"{e.key_text or quoted(e.key)}:" if e.key else "-"), e, col)

    def _value(self, head: str, e: Entry, col: int) -> list[str]:
        value = e.value
        eol = e.eol
        if isinstance(value, Alias):
            return [f"{head} *{value.name}{eol}"]
        anchor = f" {value.anchor}" if value.anchor else ""
        if isinstance(value, Scalar):
            return self._scalar(head + anchor, value, col, eol)
        if not value.entries:
            empty = "{}" if isinstance(value, Map) else "[]"
            return [f"{head}{anchor} {empty}{eol}", *self._comments(value.tail, col + 2, None)]
        if value.text is not None and unchanged(value):
            first, *rest = moved(value.text.split("\n"), col - value.home)
            return _with_eol([f"{head}{anchor} {first}", *rest], eol)
        line = self._inline(value) if value.compact or value.text is not None else None
        if line is not None and (len(head) + len(line) < WIDTH or (value.text is not None and "\n" not in value.text)):
            return [f"{head}{anchor} {line}{eol}"]
        if not e.key and isinstance(value, Map) and not anchor and not eol and not value.entries[0].before:
            inside = self.entries(value, col + 2)
            return [f"{head} {inside[0].lstrip()}", *inside[1:]]
        if not e.key and not eol and not anchor and isinstance(value, Map):
            above = self._comments(value.entries[0].before, col, None)
            kept, value.entries[0].before = value.entries[0].before, []
            inside = self.entries(value, col + 2)
            value.entries[0].before = kept
            return [*above, f"{head} {inside[0].lstrip()}", *inside[1:]]
        step = self.offset if isinstance(value, Seq) and e.key else self.step
        return [f"{head}{anchor}{eol}", *self.entries(value, col + step)]

    def _scalar(self, head: str, value: Scalar, col: int, eol: str) -> list[str]:
        if value.text is not None:
            if not value.text:
                return [head + eol]
            first, *rest = moved(value.text.split("\n"), col - value.home)
            return _with_eol([f"{head} {first}", *rest], eol)
        text = value.value
        if isinstance(text, str) and "\n" in text and text.isprintable() is False and _block_safe(text):
            header = "|" if text.endswith("\n") else "|-"
            inside = [" " * (col + self.step) + line if line else "" for line in text.rstrip("\n").split("\n")]
            return [f"{head} {header}{eol}", *inside]
        line = quoted(text)
        if isinstance(text, str) and len(head) + len(line) > WIDTH and _fold_safe(text):
            return [f"{head} >-{eol}", *_folded(text, col + self.step)]
        return [f"{head} {line}{eol}"]

    def _inline(self, value: Node) -> str | None:
        """Return a collection in one line; None when something in it needs more."""
        if isinstance(value, Alias):
            return f"*{value.name}"
        if value.anchor:
            return None
        if isinstance(value, Scalar):
            text = quoted(value.value) if value.text is None else value.text
            if not text or "\n" in text or value.style in ("|", ">"):
                return None
            return text if value.style or not re.search(r"[,\[\]{}]|: |:\Z", text) else quoted(value.value)
        if value.text is not None and unchanged(value):
            return value.text if "\n" not in value.text else None
        if value.tail or any(e.before or e.eol for e in value.entries):
            return None
        parts = []
        for e in value.entries:
            inner = self._inline(e.value)
            if inner is None:
                return None
            parts.append(f"{e.key_text or quoted(e.key)}: {inner}" if e.key else inner)
        if isinstance(value, Map):
            return "{ " + ", ".join(parts) + " }" if parts else "{}"
        return "[" + ", ".join(parts) + "]"


def _with_eol(lines: list[str], eol: str) -> list[str]:
    return [*lines[:-1], lines[-1] + eol]


def _block_safe(text: str) -> bool:
    """Return whether a text of several lines can be a literal block and be read back the same."""
    body = text.removesuffix("\n")
    return not (body.endswith("\n") or body[:1] in (" ", "\n") or not body) and all(
        line.isprintable() for line in body.split("\n")
    )


def _fold_safe(text: str) -> bool:
    return text.isprintable() and text == text.strip() and " " in text


def _folded(text: str, col: int) -> list[str]:
    """Return the text in lines that folding joins with one space each."""
    lines: list[str] = []
    for word in re.findall(r"(?:[^ ]|  +)+", text):  # runs of spaces stay within a line
        if lines and col + len(lines[-1]) + 1 + len(word) <= WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [" " * col + line for line in lines]
