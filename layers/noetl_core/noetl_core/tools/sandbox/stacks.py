"""The Python stack of a task stopped at its timeout: its process writes it, and the worker reads the lines of the author's code.

A signal makes `faulthandler` write the stack, even in native code that holds the GIL. So a task that ends in time costs nothing.
A task can disable this or write anything else to the pipe; the worker then finds no line, or another line of that task's code.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import select
import signal
import time
from io import FileIO
from typing import Final

from noetl_core.python_code import FILENAME

SIGNAL: Final = signal.SIGUSR1
WAIT_S: Final = 0.5
"""Seconds in which the process must write its stack."""
MAX_BYTES: Final = 16_384
MAX_LINES, MAX_CHARS = 12, 4_000
ENDS: Final = (b'"<string>", line 1 in <module>\n', b"  ...\n")
"""The end of a stack: the fork server's program (`pool._BOOT`), or the mark that outer frames are left out."""
_FRAME: Final = re.compile(rf'^  File "{FILENAME}", line (\d{{1,9}}) in (.+)$', re.MULTILINE)


def enable(pipe: int) -> None:
    """Let this process write its stack to `pipe` when `SIGNAL` arrives."""
    os.set_blocking(pipe, False)  # a handler that waits could not be interrupted
    faulthandler.register(SIGNAL, pipe, all_threads=False)


def read(pid: int, pipe: FileIO) -> str:
    """Return the stack of a process that runs a task, innermost frame first; empty if it writes none in time."""
    stack, until = b"", time.monotonic() + WAIT_S
    readable = select.poll()
    readable.register(pipe, select.POLLIN)
    if readable.poll(0):
        pipe.read(1 << 20)  # drop earlier writes of the task
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, SIGNAL)
    while len(stack) < MAX_BYTES and not stack.endswith(ENDS) and readable.poll(max(0.0, until - time.monotonic()) * 1000):
        piece = pipe.read(MAX_BYTES)
        if not piece:
            break
        stack += piece
    return stack[:MAX_BYTES].decode("unicode_escape", "replace")


def author_frames(stack: str, code: str) -> str:
    """Return the frames of the author's code as a traceback has them, the innermost last."""
    lines, frames = code.splitlines(), list[str]()
    for number, name in _FRAME.findall(stack):
        if 0 < int(number) <= len(lines) and len(frames) < MAX_LINES:
            frames.insert(0, f'  File "{FILENAME}", line {number}, in {name}\n    {lines[int(number) - 1].strip()}\n')
    return "".join(frames)[-MAX_CHARS:]
