"""Finds out from the text of a `python` task's program which of the step's arguments and of the context it may read: only these
are loaded."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from noetl_core.values.frozen import frozen

_WORD: Final = re.compile(r"\w+")
_PART: Final = re.compile(r"""\s*(?:\[\s*|\.\s*get\s*\(\s*)(['"])(\w+)\1\s*[\]),]""")
_PARAMETER: Final = re.compile(r"\bdef\s+\w+\s*\([^()]*\Z")


@frozen
class Reads:
    """The names that a program may read: a superset of those that it reads."""

    words: frozenset[str]
    """Every word of the text, which includes all names that it reads."""
    all_input: bool
    """If true, it may read arguments whose names are not in it."""
    all_args: bool
    """The same if the task itself has no arguments."""
    context: frozenset[str] | None
    """The parts of the context; None: any of them."""


@lru_cache(maxsize=256)
def reads_of(code: str) -> Reads:
    """Return the names that a program may read."""
    all_input = _parts(code, "input_data") is None
    return Reads(
        frozenset(_WORD.findall(code)),
        all_input,
        all_input or "**" in code or _parts(code, "args") is None,
        _parts(code, "context"),
    )


def _parts(code: str, name: str) -> frozenset[str] | None:
    """Return the literal keys with which a program reads a mapping; None when it uses it in any other way. Being a parameter
    does not count as a use."""
    found: set[str] = set()
    for place in re.finditer(rf"\b{name}\b", code):
        part = _PART.match(code, place.end())
        if part is not None:
            found.add(part[2])
        elif not _PARAMETER.search(code, max(0, place.start() - 500), place.start()):
            return None
    return frozenset(found)
