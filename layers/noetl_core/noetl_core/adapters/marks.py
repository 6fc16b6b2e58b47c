"""Marks in a file of shared memory per process: writing one needs no system call, and the file outlives the process.

A process holds a lock on its file, which the system frees however the process ends. On Lambda the folder is in `/tmp`, which an
environment keeps when its process is started again.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from noetl_core.ports.marks import EvaluationMarks

SLOT = 64
"""Bytes of a mark."""
SLOTS = 64
"""Marks at a time; more evaluations than these are not marked."""
_own: set[str] = set()
"""Files of this process, whose locks do not keep itself out."""


class FileMarks(EvaluationMarks):
    """Marks in `folder`, which processes share. The file is made with the first mark, after a Lambda snapshot was restored."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self.file: Path | None = None
        """The file of this process; None before the first mark."""
        self._memory: mmap.mmap | None = None
        self._fd = -1
        self._free = list(range(SLOTS))

    @contextmanager
    def mark(self, name: str) -> Iterator[None]:
        memory = self._memory or self._open()
        slot = self._free.pop() if memory is not None and self._free else None
        if memory is None or slot is None:
            yield
            return
        text = name.encode()[:SLOT]
        at = slot * SLOT
        memory[at : at + len(text)] = text
        try:
            yield
        finally:
            memory[at : at + len(text)] = bytes(len(text))
            self._free.append(slot)

    def _open(self) -> mmap.mmap | None:
        with self._lock:
            if self._memory is not None:
                return self._memory
            name = secrets.token_hex(8)
            hidden = self._folder / f".{name}"
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(self._fd, SLOT * SLOTS)
                memory = mmap.mmap(self._fd, SLOT * SLOTS)
                _own.add(name)
                hidden.rename(self._folder / name)  # found by others only when it is locked
            except OSError:  # a folder that takes no files: evaluations are not marked
                return None
            self.file, self._memory = self._folder / name, memory
            return memory

    def left_behind(self) -> Sequence[str]:
        found: list[str] = []
        try:
            files = [file for file in self._folder.iterdir() if file.name not in _own and not file.name.startswith(".")]
        except OSError:
            return found
        for file in files:
            found += _read_ended(file)
        return found

    def close(self) -> None:
        """Remove the file of this process."""
        with self._lock:
            if self.file is not None:
                with suppress(OSError):
                    self.file.unlink()
                os.close(self._fd)
                _own.discard(self.file.name)
                self.file = None


def _read_ended(path: Path) -> list[str]:
    """Return the marks in a file whose process has ended, and remove it; none while its process lives."""
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return []
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
        content = os.read(fd, SLOT * SLOTS)
    except OSError:  # it lives, or another process reads it
        return []
    finally:
        os.close(fd)
    slots = (content[at : at + SLOT].rstrip(b"\0") for at in range(0, len(content), SLOT))
    return [slot.decode(errors="replace") for slot in slots if slot]
