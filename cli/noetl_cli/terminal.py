"""Texts of others - what tasks wrote, names, values - as a terminal is given them: they are read, and control nothing."""

from __future__ import annotations

import re
from typing import Final

COLOURS: Final = "\x1b\\[[0-9;]*m"
CONTROLS: Final = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
"""But tabs and ends of lines: whatever moves the cursor, clears the screen, sets its title; and what turns the order of a line
around, so that it reads otherwise than it is. Letters of languages that run from right to left do not need these."""
_FOREIGN: Final = re.compile(f"{COLOURS}|{CONTROLS}")


def visible(text: str) -> str:
    """Return a text without colours, and with escapes in place of characters that control a terminal."""
    return _FOREIGN.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    return "" if len(found[0]) > 1 else found[0].encode("unicode_escape").decode()


def shortened(text: str, width: int) -> str:
    """Return the beginning of a text, with a mark where it goes on."""
    return text if len(text) <= width else text[: width - 1] + "…"
