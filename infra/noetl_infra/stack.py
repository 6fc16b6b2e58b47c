"""The embedded AWS: a MiniStack process, which is found and stopped by its pid."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from noetl_core.adapters.local.home import home as local_home
from noetl_core.adapters.local.home import private_folder

STOP_S = 10


class StackDown(Exception):
    """The embedded stack is not running or does not answer."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A running stack: the content of `.noetl/stack.json`. `pid` is None for an endpoint that was not started by `noetl up`."""

    endpoint: str
    pid: int | None
    api_url: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    """Parameters of the template that its user has set."""
    tools: list[str] = field(default_factory=list)
    packages: list[str] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        """Return whether the endpoint answers."""
        return (self.pid is None or running(self.pid)) and answers(self.endpoint)


def home(folder: str | Path | None = None) -> Path:
    """Return the folder of the stack's files: `folder`, or this machine's `.noetl`."""
    return (Path(folder) if folder else local_home()).resolve()


def current(folder: str | Path | None = None) -> Stack | None:
    """Return the stack that was brought up last, or None."""
    try:
        return Stack(**json.loads((home(folder) / "stack.json").read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def absent() -> str:
    """Return the message for a missing stack."""
    return f"no stack is up here ({home()} has none; name another place with NOETL_HOME)"


def down(folder: str | Path | None = None) -> bool:
    """Stop the embedded stack and remove its record; return False when none was running."""
    known = current(folder)
    if known is None:
        return False
    if known.pid is not None and running(known.pid):
        stop(known.pid)
    (home(folder) / "stack.json").unlink(missing_ok=True)
    return True


def remember(folder: Path, stack: Stack) -> None:
    """Record the stack for `current`."""
    private_folder(folder)
    (folder / "stack.json").write_text(json.dumps(asdict(stack), indent=2))


def answers(endpoint: str) -> bool:
    """Return whether the health page of an emulator answers; its content depends on the emulator."""
    for page in ("/_ministack/health", "/_localstack/health"):
        try:
            with urlopen(endpoint.rstrip("/") + page, timeout=2) as answer:
                if answer.status == 200:
                    return True
        except (URLError, OSError, ValueError):
            continue
    return False


def running(pid: int) -> bool:
    """Return whether a process is running."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    try:  # a zombie answers signals but runs nothing
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return True


def stop(pid: int) -> None:
    """End the process and the function processes it started (its process group)."""
    for how, patience in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
        try:
            os.killpg(pid, how)
        except (ProcessLookupError, PermissionError):
            return
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with suppress(ChildProcessError):  # not ours when another command started it
                os.waitpid(pid, os.WNOHANG)
            if not running(pid):
                break
            time.sleep(0.05)
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
