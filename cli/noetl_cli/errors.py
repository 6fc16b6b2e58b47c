"""Exit codes, and the one exception that carries them (CONTRACT "Exit codes")."""

from __future__ import annotations

import sys

COMPLETED, FAILED, USAGE, UNREACHABLE, TIMEOUT = 0, 1, 2, 3, 124


class Exit(Exception):
    """End the command with `code`; `message` goes to standard error."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


INTERRUPTED = 130
"""Ctrl-C, as shells count it."""


def say(message: str) -> None:
    """A line on standard error, unless there is nothing to say."""
    if message:
        print(message, file=sys.stderr)
