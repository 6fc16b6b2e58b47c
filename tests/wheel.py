"""The project as others get it: its wheel, and commands that run out of nothing but the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
FOLDER = ROOT / "build" / "wheel"
"""One place for it, whatever the run: uv keeps an environment for each path and content."""
PRIVATE = ("VIRTUAL_ENV", "PYTHONPATH", "UV_PROJECT_ENVIRONMENT")


def built() -> Path:
    """The wheel of the code as it is."""
    with TemporaryDirectory(dir=_folder()) as draft:
        uv("build", "--quiet", "--wheel", "--out-dir", draft, str(ROOT), cwd=ROOT)
        (made,) = Path(draft).glob("*.whl")
        wheel = FOLDER / made.name
        if not wheel.exists() or wheel.read_bytes() != made.read_bytes():
            made.replace(wheel)
    return wheel


def constraints() -> Path:
    """The versions of the lock, for an installer: tests are about this code, not about what came out today."""
    file = FOLDER / "constraints.txt"
    export = ["--quiet", "--frozen", "--all-extras", "--no-emit-workspace", "--no-hashes", "--no-header", "--no-annotate"]
    text = uv("export", *export, cwd=ROOT).stdout
    draft = _folder() / f"constraints.{os.getpid()}.txt"
    draft.write_text(text)
    draft.replace(file)
    return file


def uvx(wheel: Path, *command: str, cwd: Path, extra: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """`uvx --from WHEEL[extra] command`, as somebody has it who has no repository."""
    what = f"{wheel}[{extra}]" if extra else str(wheel)
    how = ["tool", "run", "--quiet", "--python", sys.executable, "--constraints", str(FOLDER / "constraints.txt"), "--from", what]
    return uv(*how, *command, cwd=cwd, check=False, **env)


def uv(*arguments: str, cwd: Path, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in PRIVATE and not k.startswith(("NOETL_", "AWS_"))}
    return subprocess.run(
        [BIN / "uv", *arguments], cwd=cwd, env={**kept, **env}, capture_output=True, text=True, check=check, timeout=300
    )


def _folder() -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FOLDER
