"""Installs the peers: each from a lock, into build/peers, never into the project's own environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent
INTO = HERE.parents[1] / "build" / "peers"
LIMIT_S = 180


class NotRun(Exception):
    """A side cannot be measured here; the message says why."""


def python_of(name: str) -> Path:
    """The Python of an environment with what `locks/NAME.txt` lists, made if it is not there or is another lock's."""
    lock, folder = HERE / "locks" / f"{name}.txt", INTO / name
    python = folder / "bin" / "python"
    if not _is_current(folder, lock):
        uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
        carry_out(name, [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)])
        carry_out(
            name, [uv, "pip", "sync", "--quiet", "--compile-bytecode", "--require-hashes", "--python", str(python), str(lock)]
        )
        _remember(folder, lock)
    return python


def node_modules(into: Path = INTO) -> Path:
    """Install the packages of package-lock.json, and the service beside them. Returns the folder."""
    folder, lock = into / "node", HERE / "package-lock.json"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "drivers" / "restate_service.mjs", folder / "service.mjs")
    if not _is_current(folder, lock):
        npm = shutil.which("npm")
        if npm is None:
            raise NotRun("npm is not installed")
        for file in ("package.json", "package-lock.json"):
            shutil.copy(HERE / file, folder)
        carry_out("npm", [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder)])
        _remember(folder, lock)
    return folder / "node_modules"


def carry_out(name: str, command: list[str]) -> None:
    """Run a command that installs `name`. Raises `NotRun`."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotRun(f"{name} could not be installed: {error}") from error
    if done.returncode:
        output = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        raise NotRun(f"{name} could not be installed: {' '.join(output[-3:])[:300]}")


def _mark(folder: Path) -> Path:
    return folder / "installed"


def _is_current(folder: Path, lock: Path) -> bool:
    return _mark(folder).exists() and _mark(folder).read_text() == sha256(lock.read_bytes()).hexdigest()


def _remember(folder: Path, lock: Path) -> None:
    _mark(folder).write_text(sha256(lock.read_bytes()).hexdigest())
