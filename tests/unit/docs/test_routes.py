"""Every route of the API is in a page, and in the table of IAM rights."""

from __future__ import annotations

import fnmatch
import re
from functools import cache
from pathlib import Path

import pytest

from noetl_core.api.document import Kind
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


def iam_patterns() -> dict[str, list[str]]:
    """Return the resources of the table of IAM rights by right. A word without a method replaces the last part of the one before."""
    patterns: dict[str, list[str]] = {}
    for rights, resources in re.findall(
        r"^\| (`\w+:\w+`.*) \| (`[A-Z]+/api/.*) \|$", (DOCS / "access.md").read_text(), re.MULTILINE
    ):
        found: list[str] = []
        for word in re.findall(r"`([^`]+)`", resources):
            found.append(word if "/" in word else f"{found[-1].rpartition('/')[0]}/{word}")
        patterns |= dict.fromkeys(re.findall(r"`(\w+:\w+)`", rights), found)
    return patterns


@pytest.mark.parametrize("kind", [kind for kind in REQUESTS if kind.http.right], ids=lambda kind: kind.__name__)
def test_the_table_of_iam_rights_has_the_route(kind: Kind) -> None:
    resource = kind.http.method + re.sub(r"\{.*?\}", "x", kind.http.path)
    found = any(fnmatch.fnmatchcase(resource, pattern) for pattern in iam_patterns()[kind.http.right])
    assert found, f"docs/access.md does not list {resource} with the IAM resources of {kind.http.right}"
