"""Explains the thing under the cursor: a key, a value, a name in a template or in a program."""

from __future__ import annotations

import re
from typing import Final

from noetl_core.dsl.kinds import KINDS
from noetl_core.values.frozen import frozen
from noetl_lsp import words
from noetl_lsp.code import program_name
from noetl_lsp.completion import about_kind
from noetl_lsp.cursor import At, place
from noetl_lsp.expressions import expression_at
from noetl_lsp.keys import Keys
from noetl_lsp.model import Model
from noetl_lsp.names import Name, Place
from noetl_lsp.symbols import index
from noetl_lsp.text import Span, Text

_FILTER: Final = re.compile(r"\|\s*\Z")
_TEST: Final = re.compile(r"\bis(?:\s+not)?\s+\Z")


@frozen
class Hover:
    """Markdown about a span of the text, and the page that has more."""

    doc: str
    span: Span
    link: str = ""


def hover(text: str, offset: int, model: Model | None, keys: Keys) -> Hover | None:
    """Return what is known about the thing at an offset."""
    at = place(text, offset)
    if at is None:
        return None
    shift, path = at.chunk.start, at.spot.path
    span = at.spot.start + shift, at.spot.end + shift
    if at.in_code:
        return _of_program(text, offset, at)
    if at.spot.role == "value" and (found := _of_expression(text, offset, at, model)) is not None:
        return found
    use = index(text).at(offset)
    if use is not None and not (at.spot.role == "key" and keys.about(at.tree, path)[0]):
        name = Place(text, offset, path, model).about(use.symbol)
        return Hover(name.doc or name.name, (use.start, use.end), name.link)
    if at.spot.role == "key":
        doc, link = keys.about(at.tree, path)
        return Hover(doc, span, link) if doc else None
    if path[-1:] == ("kind",) and at.spot.name in KINDS and path[0] in ("workflow", "workbook"):
        doc, link = about_kind(at.spot.name)
        return Hover(doc, span, link)
    if any(value.name == at.spot.name for value in keys.of_value(at.tree, path)):
        doc, link = keys.about(at.tree, path)
        return Hover(doc, span, link) if doc else None
    return None


def _of_program(text: str, offset: int, at: At) -> Hover | None:
    start, end = Text(text).word(offset)
    found = program_name(at, text[start:end])
    return None if found is None else Hover(found[0].doc, (start, end), found[0].link)


def _of_expression(text: str, offset: int, at: At, model: Model | None) -> Hover | None:
    """Return what a word of a template means."""
    start, end = Text(text).word(offset)
    word, begin = text[start:end], at.chunk.start + at.spot.start
    if not word or expression_at(text, begin, start) is None:
        subscript = expression_at(text, begin, end)
        if subscript is None or subscript.next != "field":
            return None
    before = text[begin:start]
    name: Name | None = None
    if _FILTER.search(before) and word in words.filters():
        name = Name(word, "filter", "", words.filters()[word], words.FILTERS_PAGE)
    elif _TEST.search(before) and word in words.tests():
        name = Name(word, "test", "", words.tests()[word], words.FILTERS_PAGE)
    else:
        cursor = expression_at(text, begin, end)
        found = Place(text, offset, at.spot.path, model)
        name = None if cursor is None else next((one for one in found.names(cursor) if one.name == word), None)
        if name is None and cursor is not None and cursor.next == "name":
            use = found.index.at(offset)
            name = found.about(use.symbol) if use is not None else None
    return None if name is None or not name.doc else Hover(name.doc, (start, end), name.link)
