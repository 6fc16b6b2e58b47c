"""What the program of a `python` task reads beside the arguments of its task, judged by its text: the step's arguments and the
context are loaded only where the program may read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"\w+")
_PART: Final = re.compile(r"""\s*(?:\[\s*|\.\s*get\s*\(\s*)(['"])(\w+)\1\s*[\]),]""")
_PARAMETER: Final = re.compile(r"\bdef\s+\w+\s*\([^()]*\Z")


@dataclass(frozen=True, slots=True)
class Reads:
    """What a text reads. It may read less, never more."""

    words: frozenset[str]
    """Every word in it: what is read by name is one of them."""
    all_input: bool
    """Whether it may read arguments whose names are not in it."""
    all_args: bool
    """The same, where the task itself has no arguments."""
    context: frozenset[str] | None
    """The parts of the context; None: any of them."""


@lru_cache(maxsize=256)
def reads(code: str) -> Reads:
    """Return what a program reads."""
    all_input = _parts(code, "input_data") is None
    return Reads(
        frozenset(_WORD.findall(code)),
        all_input,
        all_input or "**" in code or _parts(code, "args") is None,
        _parts(code, "context"),
    )


def _parts(code: str, name: str) -> frozenset[str] | None:
    """Return the literal keys with which a program reads a mapping; None when it uses it in any other way. Being a parameter is
    no use."""
    found: set[str] = set()
    for place in re.finditer(rf"\b{name}\b", code):
        part = _PART.match(code, place.end())
        if part is not None:
            found.add(part[2])
        elif not _PARAMETER.search(code, max(0, place.start() - 500), place.start()):
            return None
    return frozenset(found)
