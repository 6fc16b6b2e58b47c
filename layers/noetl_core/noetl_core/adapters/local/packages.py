"""Installs packages for the interpreter that runs this, with uv (or pip, where uv is not): those that playbooks require, in this
machine's `.noetl`.

Only wheels are installed: no code of a package runs outside the sandbox of tasks. The index, its address and its password are
uv's configuration (`UV_INDEX_URL`, ...).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from noetl_core.dsl.requirements import FILE, digest
from noetl_core.ports import MissingPackages

INSTALL_S: Final = 900
WHY_CHARS: Final = 1500
_lock = threading.Lock()


class LocalPackages:
    """Sets of packages below a folder, installed when they are asked for first. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "packages"

    def folder(self, requirements: Sequence[str]) -> Path:
        """Return where a set is, or will be: its mark is that of the requirements and of the interpreter."""
        version = f"{sys.implementation.cache_tag}-{os.uname().machine}"
        return self._folder / f"{digest(requirements)}-{version}"

    def __call__(self, requirements: tuple[str, ...]) -> str:
        """Return the folder of a set. Raises `MissingPackages`."""
        folder = self.folder(requirements)
        with _lock:
            if not folder.exists():
                installed(requirements, folder)
        return str(folder)


def installed(requirements: Sequence[str], folder: Path) -> None:
    """Make `folder` with what `requirements` ask for: all of it, or nothing. Raises `MissingPackages`."""
    wanted = ", ".join(requirements)
    draft = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        command = [*installer(), "--target", str(draft), "--only-binary", ":all:", *requirements]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_S)
        if done.returncode:
            raise MissingPackages(f"cannot install {wanted}: {done.stderr.strip()[-WHY_CHARS:]}")
        (draft / FILE).write_text("".join(f"{line}\n" for line in requirements), "utf-8")
        try:
            draft.rename(folder)
        except OSError:  # another process was first
            if not folder.exists():
                raise
    except subprocess.TimeoutExpired:
        raise MissingPackages(f"cannot install {wanted}: no end after {INSTALL_S} s") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def installer() -> list[str]:
    """Return the command that installs for this interpreter. Raises `MissingPackages`."""
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "-q", "--no-progress", "--python", sys.executable]
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    raise MissingPackages("packages are required, and neither uv nor pip is here to install them (`pip install uv`)")
