"""Changes the text of templates at the places where they read a name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.templates import KEY, replaced
from noetl_core.expr import Read

Rewrite = Callable[[str], str]

PART: Final = re.compile(r"""output\s*(?:\.\s*(\w+)|\[\s*['"](\w+)['"]\s*\])""")
OF_RESPONSE: Final = frozenset({"data", "body", "status_code"})


_DATA_OF_DATA: Final = re.compile(r"\boutput\s*\.\s*data\s*\.\s*data\b(?!\s*[.\[(])")


def report_two_meanings(r: Reader, scalar: Node, body: str) -> None:
    """Report `output.data.data` of a task of kind `http`, which may mean the body or a part of it.

    `body` is the canonical expression for the body.
    """
    if isinstance(scalar.value, str) and _DATA_OF_DATA.search(scalar.value):
        message = "output.data.data is the body; but if the body has a key data, it is the value of that key"
        r.report("W533", scalar, message, f"write {body} for the body, {body}.data for its key data")


def replace_reads(r: Reader, scalar: Node, reads: list[Read], rewrite: Rewrite) -> None:
    """Apply `rewrite` to the text from each read on, the last one first."""
    if not reads:
        return
    set_text(r, scalar, replaced(scalar.value, reads, lambda _, text: rewrite(text)))


def set_text(r: Reader, scalar: Node, text: str) -> None:
    scalar.value = text
    scalar.rewritten = True
    r.compile(text)


def below(node: Node, *keys: str) -> Node | None:
    found: Node | None = node
    for key in keys:
        found = found.get(key) if found is not None else None
    return found


def of_response(body: str, response: str, status: str, text: str, at: int) -> str:
    """Return the expression for `output.data` and the path at `at`, if the path may also belong to the whole response: the value
    in the body, else the one in the response. Return "" if it can only belong to the body."""
    first = KEY.match(text, at)
    name = (first[1] or first[2]) if first is not None else ""
    if first is None or name not in OF_RESPONSE:
        return ""
    end = path_end(text, at)
    if end < first.end():  # a method of the body
        return ""
    other = status + text[first.end() : end] if name == "status_code" else response + text[at:end]
    return f"({body}{text[at:end]} | default({other})){text[end:]}"


def path_end(text: str, at: int) -> int:
    """Return the end of the path of names that continues at `at`. A called method is not part of it."""
    while (key := KEY.match(text, at)) is not None and not text[key.end() :].lstrip().startswith("("):
        at = key.end()
    return at
