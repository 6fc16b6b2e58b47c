"""Makes untrusted text (output of tasks, names, values) safe for terminals by escaping control characters."""

from __future__ import annotations

import os
import re
from typing import Final

COLOURS: Final = "\x1b\\[[0-9;]*m"
CONTROLS: Final = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
"""Control characters except tabs and line ends, which could move the cursor, clear the screen or set the title; and bidirectional
overrides, which could disguise text. Right-to-left scripts do not need these."""
_FOREIGN: Final = re.compile(f"{COLOURS}|{CONTROLS}")


def columns(otherwise: int) -> int:
    """Return the width of the terminal that standard output is, or `otherwise`. `shutil` would ask a stream that is detached."""
    try:
        return int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(1).columns
    except (OSError, ValueError):
        return otherwise


def visible(text: str) -> str:
    """Return a text without colours, and with escapes in place of characters that control a terminal."""
    return _FOREIGN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return "" if len(found[0]) > 1 else found[0].encode("unicode_escape").decode()


def shortened(text: str, width: int) -> str:
    """Return a text cut to `width` characters, with an ellipsis if it was longer."""
    return text if len(text) <= width else text[: width - 1] + "…"
