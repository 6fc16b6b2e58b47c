"""Scratch folders, the spilling of DuckDB to them, and the restrictions of all its databases."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

CLOSED: Final[dict[str, Any]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "python_enable_replacements": False,
}
"""Settings of every DuckDB: no extensions, no variables of the process as tables."""
REMEDY: Final = "on a stack, raise its parameter WorkerStorage; elsewhere, make room in the folder of temporary files"


class DiskFull(Exception):
    """The disk has too little space for a task. Who acts: the operator (`WorkerStorage`), or the author (less data at a time)."""


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Yield a folder that is removed after the block. Raises `DiskFull`."""
    with TemporaryDirectory(prefix=prefix) as folder:
        try:
            yield Path(folder)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise DiskFull(f"the disk is full: {REMEDY}") from error


def spilling(folder: Path) -> dict[str, Any]:
    """Return the settings of a DuckDB that spills to `folder`: up to nine tenths of the disk."""
    return {"temp_directory": str(folder / "spill")}
