"""Processes that carry a mark in their environment, as those inherit that a command starts: whatever session and group they make
for themselves, and whoever is their parent. Linux says what environment a process was started with; elsewhere none are found."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "NOETL_PROCESS_MARK"
ROUNDS: Final = 50
"""How often is looked for what was started while others were ended."""
PAUSE_S: Final = 0.002
_PROCESSES: Final = Path("/proc")


def new_mark() -> dict[str, str]:
    """Return what marks a process and those that it starts: a variable that nobody else has."""
    return {MARK: secrets.token_hex(16)}


def end_marked(mark: Mapping[str, str]) -> None:
    """End the processes with `mark`, by force, until there are none."""
    wanted = b"\0".join(f"{name}={value}".encode() for name, value in mark.items())
    for _ in range(ROUNDS):
        if not sum(_end(process, wanted) for process in _running()):
            return
        time.sleep(PAUSE_S)


def _running() -> Iterator[int]:
    with suppress(OSError):
        for folder in _PROCESSES.iterdir():
            if folder.name.isdecimal() and int(folder.name) != os.getpid():
                yield int(folder.name)


def _end(process: int, wanted: bytes) -> bool:
    """End a process if it has the mark. It is held on to before it is looked at: its number may be another's afterwards."""
    with suppress(OSError):  # it is gone, or of another user
        held = os.pidfd_open(process)
        try:
            if wanted in (_PROCESSES / str(process) / "environ").read_bytes().split(b"\0"):
                signal.pidfd_send_signal(held, signal.SIGKILL)
                return True
        finally:
            os.close(held)
    return False
