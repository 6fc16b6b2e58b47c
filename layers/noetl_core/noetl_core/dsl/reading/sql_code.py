"""Separates code from comments and quoted text in SQL."""

from __future__ import annotations

import re
from typing import Final

_QUOTED: Final = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*(?:'|\Z)|\"(?:[^\"]|\"\")*(?:\"|\Z)|\$(\w*)\$.*?(?:\$\1\$|\Z)", re.DOTALL
)
NUMBERED: Final = re.compile(r"(?<![\w$])\$(\d+)\b")
"""A parameter by its number: `$1`."""


def code_of(text: str) -> str:
    """Return the text with blanks in place of comments and quoted text."""
    return _QUOTED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
