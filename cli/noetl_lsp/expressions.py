"""Expressions of templates under the cursor: what is read before it, and which kind of word comes next."""

from __future__ import annotations

import re
from typing import Final, Literal

from noetl_core.values.frozen import frozen

Next = Literal["name", "field", "filter", "test"]
_OPEN: Final = re.compile(r"\{\{-?|\{%-?")
_WORD: Final = re.compile(r"[^\W\d]\w*\Z|\Z")
_SUBSCRIPT: Final = re.compile(r"\[\s*['\"]([\w.-]*)\Z")
_FOR: Final = re.compile(r"\{%-?\s*for\s+(\w+)(?:\s*,\s*(\w+))?\s+in\s+(.+?)(?:\s+if\s.*?)?\s*(?:recursive\s*)?-?%\}", re.DOTALL)
_SET: Final = re.compile(r"\{%-?\s*set\s+(\w+)\s*=")
LONGEST: Final = 10_000
"""Characters before the cursor that are examined."""


@frozen
class Cursor:
    """The cursor in an expression. `base` is the expression whose field comes next; `start` is the place of the word before the
    cursor; `bound` has the names that statements of the template bind, with the list of a `for`."""

    next: Next
    word: str
    start: int
    base: str = ""
    bound: tuple[tuple[str, str], ...] = ()


def expression_at(text: str, start: int, offset: int) -> Cursor | None:
    """Return the expression at an offset of a text whose template begins at `start`; None outside of braces and in the texts of
    expressions."""
    start = max(start, offset - LONGEST)
    opened = next((found for found in reversed(list(_OPEN.finditer(text, start, offset)))), None)
    if opened is None:
        return None
    before = text[opened.end() : offset]
    if "}}" in before or "%}" in before:
        return None
    bound = _bound(text[start:offset])
    quote = _quote(before)
    if quote is not None:
        subscript = _SUBSCRIPT.search(before)
        if subscript is None or subscript.start(1) != quote + 1:
            return None
        base = before[_operand(before, subscript.start()) : subscript.start()].strip()
        return Cursor("field", subscript[1], offset - len(subscript[1]), base, bound) if base else None
    word = _WORD.search(before)
    name = word[0] if word is not None else ""
    rest = before[: len(before) - len(name)]
    at = offset - len(name)
    behind = rest.rstrip()
    if behind.endswith("."):
        base = behind[_operand(behind, len(behind) - 1) : -1].strip()
        return Cursor("field", name, at, base, bound) if base and not base.isdigit() else None
    if behind.endswith("|"):
        return Cursor("filter", name, at, bound=bound)
    if re.search(r"\bis(?:\s+not)?\s\Z", rest):
        return Cursor("test", name, at, bound=bound)
    return None if behind[-1:].isdigit() and not rest[-1:].isspace() else Cursor("name", name, at, bound=bound)


def _bound(text: str) -> tuple[tuple[str, str], ...]:
    loops = [(found[1], "" if found[2] else found[3]) for found in _FOR.finditer(text)]
    second = [(found[2], "") for found in _FOR.finditer(text) if found[2]]
    return (*loops, *second, *((found[1], "") for found in _SET.finditer(text)), *([("loop", "")] if loops else []))


def _quote(text: str) -> int | None:
    """Return where the text in quotes begins that is still open at the end."""
    opened: int | None = None
    for at, character in enumerate(text):
        if opened is None and character in "'\"":
            opened = at
        elif opened is not None and character == text[opened] and text[at - 1] != "\\":
            opened = None
    return opened


def _operand(text: str, end: int) -> int:
    """Return where the operand begins that ends at `end`: names, fields, subscripts, calls and parentheses."""
    at = end
    while at > 0:
        last = text[at - 1]
        if last.isalnum() or last in "_.":
            at -= 1
        elif last in "])" and (opened := _opening(text, at - 1)) is not None:
            at = opened
        else:
            break
    return at


def _opening(text: str, at: int) -> int | None:
    """Return the place of the bracket that the one at `at` closes."""
    depth = 0
    for place in range(at, -1, -1):
        depth += {"]": 1, ")": 1, "[": -1, "(": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return None
