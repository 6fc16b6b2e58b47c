"""Patterns of keys, as DuckDB has them: `*` is text without `/`, `**` any text, `?` one character, `[ab]` one of some."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from noetl_core.tools.base import BadInput

_PART: Final = re.compile(r"\*\*/?|\*|\?|\[!?[^\]]+\]|[^*?\[]+|\[", re.DOTALL)
_MOST: Final = 16
"""Wildcards of one pattern: each more makes a long key that does not fit take longer."""


def literal_prefix(pattern: str) -> str:
    """Return the text before the first wildcard."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0]


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return what says whether a key fits `pattern`. Raises `BadInput`."""
    if len(re.findall(r"\*+", pattern)) > _MOST:
        raise BadInput(f"a pattern has at most {_MOST} wildcards")
    try:
        fits = re.compile("".join(map(_translated, _PART.findall(pattern))), re.DOTALL)
    except re.error as error:
        raise BadInput(f"the pattern {pattern[:80]!r} is none: {error}") from None
    return lambda key: fits.fullmatch(key) is not None


def _translated(part: str) -> str:
    if part == "**/":
        return "(?:.*/)?"
    if part.startswith("["):
        return (
            re.escape(part)
            if part == "["
            else f"[{'^' if part[1] == '!' else ''}{re.escape(part[1:-1].lstrip('!')).replace(chr(92) + '-', '-')}]"
        )
    return {"**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part) or re.escape(part)
