"""Searches and reads the pages of the manual, which the distribution brings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from noetl_cli.display.pages import folder
from noetl_cli.errors import USAGE, Exit
from noetl_cli.mcp.tools import page as page_of
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.values.frozen import frozen

FOUND: Final = 8
"""The most sections that a search finds."""
_HEADING: Final = re.compile(r"^(#{1,3}) (.+)$", re.MULTILINE)
_WORD: Final = re.compile(r"[a-z0-9_]{2,}")
_IN_HEADING: Final = 5
"""A word in the heading of a section counts as often as this number of words in its text."""


@frozen
class Section:
    """A section of a page, with the number of each of its words."""

    page: str
    heading: str
    text: str
    words: Counter[str]


def search(query: str) -> list[dict[str, Any]]:
    """Return the sections that fit the words of a query, the best first."""
    wanted = set(_WORD.findall(query.lower()))
    known = _sections()
    rarity = {word: math.log(1 + len(known) / (1 + sum(1 for each in known if each.words[word]))) for word in wanted}

    def score(section: Section) -> float:
        length = sum(section.words.values())
        return sum(rarity[word] * section.words[word] / (section.words[word] + 1 + length / 300) for word in wanted)

    best = sorted(((score(each), each) for each in known), key=lambda pair: -pair[0])[:FOUND]
    return [
        {"page": each.page, "section": each.heading, "excerpt": each.text[:400].strip()} for points, each in best if points > 0
    ]


def read(page: str, section: str | None = None, offset: int = 0) -> dict[str, Any]:
    """Return a page, or one of its sections. Raises `Exit(2)`."""
    page = page.removeprefix("docs/").partition("#")[0]  # the form used by diagnostics and the schema
    if page not in _pages():  # a name is never used as a path
        hint = suggest(page[:100], _pages())
        raise Exit(USAGE, f"the manual has no page {page[:100]}" + (f" ({hint})" if hint else ""))
    if section is None:
        return {"page": page, **page_of(_pages()[page], offset)}
    own = [each for each in _sections() if each.page == page]
    found = next((each for each in own if each.heading.lower() == section.lower()), None)
    if found is None:
        raise Exit(USAGE, f"{page} has no section {section[:100]}: it has {', '.join(each.heading for each in own)}")
    return {"page": page, "section": found.heading, **page_of(found.text, offset)}


@cache
def _pages() -> dict[str, str]:
    """Return the texts of the pages, by their names below `docs`."""
    docs = folder().parent
    return {file.relative_to(docs).as_posix(): file.read_text("utf-8") for file in sorted(docs.rglob("*.md"))}


@cache
def _sections() -> list[Section]:
    return [section for name, text in _pages().items() for section in _split(name, text)]


def _split(name: str, text: str) -> Iterator[Section]:
    code = [match.span() for match in re.finditer(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)]
    heads = [head for head in _HEADING.finditer(text) if not any(begin < head.start() < end for begin, end in code)]
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        part = text[head.start() : None if after is None else after.start()]
        words = Counter(_WORD.findall(part.lower()))
        for word in _WORD.findall(f"{head[2]} {Path(name).stem}".lower()):
            words[word] += _IN_HEADING
        yield Section(name, head[2].replace("`", ""), part, words)
