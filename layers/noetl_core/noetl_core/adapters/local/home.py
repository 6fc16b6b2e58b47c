"""Where the state of this machine is: a folder `.noetl`, searched upwards as git searches `.git`."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "NOETL_HOME"
NAME = ".noetl"


def home() -> Path:
    """Return the folder that `NOETL_HOME` names; otherwise the nearest `.noetl` in the working directory or above; otherwise
    `.noetl` in the working directory, where none exists yet.

    A folder of another user is not taken. The search ends at the user's home and at the border of the file system.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).absolute()
    here = Path.cwd()
    return next((folder / NAME for folder in (here, *_above(here)) if _usable(folder / NAME, here)), here / NAME)


def _above(here: Path) -> list[Path]:
    """Yield the folders above that may belong to the same work."""
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
    """Return a path as people read it: relative where it is inside the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
