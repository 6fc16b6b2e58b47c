"""The embedded AWS: MiniStack as a process of its own, started, found again and stopped by its pid."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from noetl_core.adapters.local.home import home as local_home
from noetl_infra import REGION

PORT = 4566
START_S = 60
STOP_S = 10


class StackDown(Exception):
    """The embedded stack does not run or does not answer."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack that was brought up: what `.noetl/stack.json` holds. `pid` is None for an endpoint somebody else runs."""

    endpoint: str
    pid: int | None
    api_url: str = ""
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Whether the endpoint answers."""
        return (self.pid is None or _running(self.pid)) and _answers(self.endpoint)


def home(folder: str | Path | None = None) -> Path:
    """Where the stack's files are: `folder`, or this machine's `.noetl`."""
    return (Path(folder) if folder else local_home()).resolve()


def current(folder: str | Path | None = None) -> Stack | None:
    """The stack brought up last, or None."""
    try:
        return Stack(**json.loads((home(folder) / "stack.json").read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def absent() -> str:
    """What to say where no stack is found."""
    return f"no stack is up here ({home()} knows of none; NOETL_HOME names another place)"


def up(
    folder: str | Path | None = None, *, endpoint: str | None = None, port: int | None = None, tools: Sequence[str] = ()
) -> Stack:
    """Start MiniStack unless it runs (or use `endpoint`), deploy template.yaml, remember both. `tools` are distributions with
    further tool kinds, for the workers.

    Raises `DeployFailed`, `StackDown`.
    """
    known = current(folder)
    if endpoint is None and known is not None and known.pid is not None and known.alive:
        started = known
    elif endpoint is not None:
        if not _answers(endpoint):
            raise StackDown(f"nothing answers at {endpoint}")
        started = Stack(endpoint.rstrip("/"), None)
    else:
        started = _start(home(folder), port)
    from noetl_infra.deploy import deploy  # 0.3 s of boto3 and translator, that who only asks for the stack does not need

    try:
        deployed = deploy(started.endpoint, dependencies=started.pid is None, tools=tools)
    except BaseException:
        if started is not known and started.pid is not None:
            _stop(started.pid)
        raise
    stack = Stack(started.endpoint, started.pid, deployed.api_url, dict(deployed.outputs))
    _remember(home(folder), stack)
    return stack


def down(folder: str | Path | None = None) -> bool:
    """Stop the embedded stack and forget it; False when none was running."""
    known = current(folder)
    if known is None:
        return False
    if known.pid is not None and _running(known.pid):
        _stop(known.pid)
    (home(folder) / "stack.json").unlink(missing_ok=True)
    return True


def _remember(folder: Path, stack: Stack) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stack.json").write_text(json.dumps(asdict(stack), indent=2))


def _start(folder: Path, port: int | None) -> Stack:
    folder.mkdir(parents=True, exist_ok=True)
    port = port or int(os.environ.get("NOETL_STACK_PORT", PORT))
    if not _free(port):
        port = _any_port()
    endpoint = f"http://127.0.0.1:{port}"
    env = {
        **os.environ,
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",  # neither of them knows another address than all of the machine's
        "MINISTACK_HOST": "127.0.0.1",
        "LAMBDA_EXECUTOR": "local",
        "LAMBDA_WARM_TTL_SECONDS": "60",  # a function's processes but one end a minute after a burst, not five
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "PYTHONWARNINGS": "ignore",
    }
    env.pop("AWS_ENDPOINT_URL", None)
    if through := os.environ.get("NOETL_FUNCTIONS_ENDPOINT"):  # the benchmark's counting proxy
        env["AWS_ENDPOINT_URL"] = through
    command = [sys.executable, "-m", "noetl_infra.guard"]
    with (folder / "stack.log").open("ab") as log:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + START_S
    while not _answers(endpoint):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = (folder / "stack.log").read_text(errors="replace")[-2000:]
            _stop(process.pid)
            raise StackDown(f"the embedded stack did not start; the end of {folder / 'stack.log'}:\n{tail}")
        time.sleep(0.1)
    process.returncode = 0  # it outlives this process and is found by its pid: not a child to be waited for
    stack = Stack(endpoint, process.pid)
    _remember(folder, stack)
    return stack


def _answers(endpoint: str) -> bool:
    """Both emulators answer their health page; its content differs."""
    for page in ("/_ministack/health", "/_localstack/health"):
        try:
            with urlopen(endpoint.rstrip("/") + page, timeout=2) as answer:
                if answer.status == 200:
                    return True
        except (URLError, OSError, ValueError):
            continue
    return False


def _running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    try:  # a zombie answers signals but runs nothing
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return True


def _stop(pid: int) -> None:
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
            if not _running(pid):
                break
            time.sleep(0.05)
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _any_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
