"""Removes what a task left in its folder. Standard library only: the fork server uses it too."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def wipe(folder: str | Path) -> None:
    """Remove `folder` with everything in it. Folders that a task made unreadable are opened first; links are not followed."""
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)  # noqa: PTH101
    for here, inner, _ in os.walk(folder):
        for name in inner:
            path = os.path.join(here, name)  # noqa: PTH118
            if not os.path.islink(path):  # noqa: PTH114
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)  # noqa: PTH101
    shutil.rmtree(folder, ignore_errors=True)
