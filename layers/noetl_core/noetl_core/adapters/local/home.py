"""Where this machine's state is: a folder `.noetl`, found as git finds `.git`."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "NOETL_HOME"
NAME = ".noetl"


def home() -> Path:
    """The folder that `NOETL_HOME` names; else the nearest `.noetl` in the working directory or above; else, where there is none
    yet, `.noetl` in the working directory.

    Above, what belongs to somebody else is not taken, and it is not looked for beyond the user's home or on another file system.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).absolute()
    here = Path.cwd()
    return next((folder / NAME for folder in (here, *_above(here)) if _usable(folder / NAME, here)), here / NAME)


def _above(here: Path) -> list[Path]:
    """The folders above, as far as they may be the same work."""
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
    """A path as people are told it: relative where it lies in the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
