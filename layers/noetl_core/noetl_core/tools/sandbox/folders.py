"""Removes the folders of tasks. Standard library only, because the fork server uses it."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def wipe(folder: str | Path) -> None:
    """Remove `folder` with its content. Unreadable folders get permissions first; links are not followed."""
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
    for here, inner, _ in os.walk(folder):
        for name in inner:
            path = os.path.join(here, name)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
