"""Patterns of keys with DuckDB's syntax: `*` is text without `/`, `**` any text, `?` one character, `[ab]` one of a set.

RE2 matches them, in time linear in the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from noetl_core.expr.patterns import BadPattern, compiled
from noetl_core.tools.base import BadInput

_PART: Final = re.compile(r"\*\*/?|\*|\?|\[!?[^\]]+\]|[^*?\[]+|\[", re.DOTALL)
_MOST: Final = 16
"""The most wildcards of a pattern."""


def literal_prefix(pattern: str) -> str:
    """Return the text before the first wildcard."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0]


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a predicate for keys that match `pattern`. Raises `BadInput`."""
    if len(re.findall(r"\*+", pattern)) > _MOST:
        raise BadInput(f"a pattern has at most {_MOST} wildcards")
    try:
        fits = compiled("(?s)" + "".join(map(_translated, _PART.findall(pattern))))
    except BadPattern as error:
        raise BadInput(f"invalid pattern {pattern[:80]!r}: {error}") from None
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
