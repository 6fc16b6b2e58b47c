"""Every route of the API is in a page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from noetl_core.api.requests import REQUESTS

DOCS = Path(__file__).parents[3] / "docs"
PART = r"[^?\s]+"


@cache
def code() -> str:
    """Return the pieces of code in the pages, one a line."""
    return "\n".join(piece for page in DOCS.rglob("*.md") for piece in re.findall(r"`([^`\n]+)`", page.read_text()))


def as_written(path: str) -> re.Pattern[str]:
    """Return a pattern of the ways to write a path: with any names of its parts, or with `...` for all up to the first part."""
    pieces = [re.escape(piece) for piece in re.split(r"\{.*?\}", path)]
    short = rf"|\.\.\.{PART.join(pieces[1:])}" if pieces[1:] != [""] and len(pieces) > 1 else ""
    return re.compile(rf"(?<![\w/])({PART.join(pieces)}{short})(?![\w/])")


@pytest.mark.parametrize("path", sorted({kind.http.path for kind in REQUESTS}))
def test_a_page_has_the_route(path: str) -> None:
    found = as_written(path).search(code()) is not None
    assert found, f"no page has {path}: add it to the page of its subject, or to docs/looking.md"
