"""Installs the packages that playbooks require into this machine's `.noetl`: with uv, or with pip if there is no uv, for this
interpreter; with uv for another platform.

Only wheels are installed, so that no code of a package runs outside the sandbox of tasks. The index and its password are uv's
configuration (`UV_INDEX_URL`, ...).
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
from typing import Final, NamedTuple

from noetl_core.adapters.local.home import private_folder
from noetl_core.dsl.sections.requirements import FILE, digest
from noetl_core.ports import MissingPackages

INSTALL_S: Final = 900
WHY_CHARS: Final = 1500
_lock = threading.Lock()


class Platform(NamedTuple):
    """The target platform of packages, if it is not this interpreter."""

    python: str
    """The version of Python, such as `3.13`."""
    machine: str
    """The machine as in the names of wheels: `aarch64` or `x86_64`."""


class LocalPackages:
    """Sets of packages below a folder, each installed at its first use. Thread-safe."""

    def __init__(self, folder: Path, platform: Platform | None = None) -> None:
        """`platform` None: for this interpreter."""
        self._folder, self._platform = folder / "packages", platform

    def folder(self, requirements: Sequence[str]) -> Path:
        """Return the folder of a set, whose name is derived from the requirements and the interpreter."""
        version = f"{sys.implementation.cache_tag}-{os.uname().machine}"
        if self._platform is not None:
            version = f"for-{self._platform.python}-{self._platform.machine}"
        return self._folder / f"{digest(requirements)}-{version}"

    def __call__(self, requirements: tuple[str, ...]) -> str:
        """Return the folder of a set. Raises `MissingPackages`."""
        folder = self.folder(requirements)
        with _lock:
            if not folder.exists():
                installed(requirements, folder, self._platform)
        return str(folder)


def installed(requirements: Sequence[str], folder: Path, platform: Platform | None = None) -> None:
    """Install `requirements` into a new `folder`, all or nothing. Raises `MissingPackages`."""
    names = ", ".join(requirements)
    draft = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    private_folder(draft.parent)
    draft.mkdir()
    try:
        command = [*installer(platform), "--target", str(draft), "--only-binary", ":all:", *requirements]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_S)
        if done.returncode:
            raise MissingPackages(f"cannot install {names}: {done.stderr.strip()[-WHY_CHARS:]}")
        (draft / FILE).write_text("".join(f"{line}\n" for line in requirements), "utf-8")
        try:
            draft.rename(folder)
        except OSError:  # another process was first
            if not folder.exists():
                raise
    except subprocess.TimeoutExpired:
        raise MissingPackages(f"cannot install {names}: the installation took longer than {INSTALL_S} s") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def installer(platform: Platform | None = None) -> list[str]:
    """Return the command that installs for this interpreter, or for `platform`. Raises `MissingPackages`."""
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv:
        whose = ["--python", sys.executable]
        if platform is not None:
            whose = ["--python-version", platform.python, "--python-platform", f"{platform.machine}-manylinux_2_28"]
        return [uv, "pip", "install", "-q", "--no-progress", *whose]
    if platform is not None:
        raise MissingPackages(f"uv is needed to install for Python {platform.python} on {platform.machine}: `pip install uv`")
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    raise MissingPackages("packages are required, and neither uv nor pip is here to install them (`pip install uv`)")
