"""Finds the folder `.noetl` with the state of this machine, upwards from the working directory as git finds `.git`."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "NOETL_HOME"
NAME = ".noetl"


def home() -> Path:
    """Return the folder that `NOETL_HOME` names; otherwise the nearest `.noetl` in the working directory or above; otherwise a
    new one in the working directory.

    A folder of another user is ignored. The search ends at the user's home and at file system boundaries.
    """
    setting = os.environ.get(VARIABLE)
    if setting:
        return Path(setting).absolute()
    here = Path.cwd()
    return next((folder / NAME for folder in (here, *_above(here)) if _usable(folder / NAME, here)), here / NAME)


def private_folder(folder: Path) -> None:
    """Create a folder, and those above it that are missing, for its owner alone (mode 0700)."""
    try:
        folder.mkdir(mode=0o700)
    except FileNotFoundError:
        private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        if not folder.is_dir():
            raise


def _above(here: Path) -> list[Path]:
    """Return the folders above in which to search."""
    last = Path(os.environ.get("HOME") or "/")
    device = here.stat().st_dev
    found: list[Path] = []
    for folder in here.parents:
        if last in (here, *found) or folder.stat().st_dev != device:
            break
        found.append(folder)
    return found


def _usable(folder: Path, here: Path) -> bool:
    return folder.is_dir() and (folder.parent == here or folder.stat().st_uid in (os.getuid(), here.stat().st_uid))


def shown(path: Path) -> str:
    """Return a path for messages: relative if it is inside the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
