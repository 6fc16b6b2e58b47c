"""Exit codes, and the exceptions that carry them."""

from __future__ import annotations

import sys
from contextlib import suppress

from noetl_cli.terminal import visible

COMPLETED, FAILED, USAGE, UNREACHABLE, TIMEOUT = 0, 1, 2, 3, 124
SIGNALLED = 128
"""Added to the number of a signal that ended the process, as in shells. 130 is Ctrl-C, 143 SIGTERM."""


class Exit(Exception):
    """End the command with `code`; `message` goes to standard error."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Stopped(BaseException):
    """A signal asks this process to end. Like `KeyboardInterrupt` it is a `BaseException`, so that no error handler catches
    it."""

    def __init__(self, signal: str, number: int) -> None:
        super().__init__(signal)
        self.signal = signal
        self.code = SIGNALLED + number


class OutputLost(Exception):
    """Standard output cannot be written. The command would have ended with `code`; `remedy` says where else to find the
    output."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output: {error.strerror}")
        self.error = error
        self.code = COMPLETED
        self.remedy = ""


def say(message: str) -> None:
    """Write a line to standard error, unless it is empty, after all that was written to standard output. Both may be closed."""
    if message:
        with suppress(OSError, OutputLost):
            sys.stdout.flush()
        with suppress(OSError):
            print(visible(message), file=sys.stderr, flush=True)
