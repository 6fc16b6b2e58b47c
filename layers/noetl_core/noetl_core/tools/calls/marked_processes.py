"""Finds and ends processes by a mark in their environment. All descendants of a command inherit it, whatever their session,
process group or parent. Only Linux shows the environment of processes; elsewhere none are found."""

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
"""The most rounds of the search, which is repeated for processes that were started meanwhile."""
PAUSE_S: Final = 0.002
_PROCESSES: Final = Path("/proc")


def new_mark() -> dict[str, str]:
    """Return a unique environment variable that marks a process and its descendants."""
    return {MARK: secrets.token_hex(16)}


def end_marked(mark: Mapping[str, str]) -> None:
    """Kill the processes with `mark` until there are none."""
    entry = b"\0".join(f"{name}={value}".encode() for name, value in mark.items())
    for _ in range(ROUNDS):
        if not sum(_end(process, entry) for process in _running()):
            return
        time.sleep(PAUSE_S)


def _running() -> Iterator[int]:
    with suppress(OSError):
        for folder in _PROCESSES.iterdir():
            if folder.name.isdecimal() and int(folder.name) != os.getpid():
                yield int(folder.name)


def _end(process: int, entry: bytes) -> bool:
    """Kill a process if it has the mark, through a handle that is taken before, because its pid may be reused."""
    with suppress(OSError):  # it has ended, or belongs to another user
        held = os.pidfd_open(process)
        try:
            if entry in (_PROCESSES / str(process) / "environ").read_bytes().split(b"\0"):
                signal.pidfd_send_signal(held, signal.SIGKILL)
                return True
        finally:
            os.close(held)
    return False
