"""Brings a stack up: starts the embedded AWS (a MiniStack process) or uses a given endpoint, and deploys template.yaml to it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from noetl_core.adapters.local.home import private_folder
from noetl_core.tools.python.tool import ENVIRONMENT
from noetl_infra import REGION
from noetl_infra.deploy import check_parameters, deploy
from noetl_infra.stack import Stack, StackDown, answers, current, home, remember, stop

PORT = 4566
START_S = 60


def up(
    folder: str | Path | None = None,
    *,
    endpoint: str | None = None,
    port: int | None = None,
    tools: Sequence[str] = (),
    packages: Sequence[str] = (),
    parameters: Mapping[str, str] | None = None,
) -> Stack:
    """Start MiniStack unless it is running (or use `endpoint`), deploy template.yaml, and record both. `tools` are distributions
    with further tool kinds, for the workers; `packages` are playbooks, or files of requirements, whose packages python tasks
    import; `parameters` are those of the template, in addition to those that an emulator needs. A stack that is up keeps those
    of an earlier call that this one does not name.

    Raises `DeployFailed`, `StackDown`, `WrongParameter`.
    """
    check_parameters(parameters or {})
    known = current(folder)
    if endpoint is not None and port is not None:
        raise StackDown(f"--port is for the embedded stack: leave it out, because --endpoint names {endpoint}")
    if endpoint is None and known is not None and known.pid is not None and known.alive:
        if port is not None and urlsplit(known.endpoint).port != port:
            raise StackDown(f"the embedded stack runs at {known.endpoint}: `noetl down` stops it, or leave --port out")
        started = known
        parameters = {**known.parameters, **(parameters or {})}
        tools, packages = tools or known.tools, packages or [file for file in known.packages if Path(file).exists()]
    elif endpoint is not None:
        if not answers(endpoint):
            raise StackDown(f"nothing answers at {endpoint}")
        started = Stack(endpoint.rstrip("/"), None)
    else:
        started = _start(home(folder), port)
    try:
        deployed = deploy(
            started.endpoint, dependencies=started.pid is None, tools=tools, packages=packages, parameters=parameters
        )
    except BaseException:
        if started is not known and started.pid is not None:
            stop(started.pid)
        raise
    kept = [str(Path(file).absolute()) for file in packages]
    stack = Stack(
        started.endpoint, started.pid, deployed.api_url, dict(deployed.outputs), dict(parameters or {}), list(tools), kept
    )
    remember(home(folder), stack)
    return stack


def _start(folder: Path, port: int | None) -> Stack:
    private_folder(folder)
    if port is not None and not _free(port):
        raise StackDown(f"port {port} is in use: name another one with --port, or leave --port out to use a free one")
    port = port or int(os.environ.get("NOETL_STACK_PORT", PORT))
    if not _free(port):
        port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    env = {
        **os.environ,
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",  # both would listen on all addresses of the machine
        "MINISTACK_HOST": "127.0.0.1",
        "LAMBDA_EXECUTOR": "local",
        "LAMBDA_WARM_TTL_SECONDS": "60",  # a minute after a burst, not five, all but one process of a function end
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "POWERTOOLS_TRACE_DISABLED": "true",  # nothing receives traces here, and they cost a fifth of a function's processor time
        "PYTHONWARNINGS": "ignore",
    }
    for name in ("AWS_ENDPOINT_URL", ENVIRONMENT, "NOETL_ALLOW_SHELL"):  # variables for this process, not for functions
        env.pop(name, None)
    if through := os.environ.get("NOETL_FUNCTIONS_ENDPOINT"):  # the benchmark's counting proxy
        env["AWS_ENDPOINT_URL"] = through
    command = [sys.executable, "-m", "noetl_infra.guard"]
    with (folder / "stack.log").open("ab") as log:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + START_S
    while not answers(endpoint):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = (folder / "stack.log").read_text(errors="replace")[-2000:]
            stop(process.pid)
            raise StackDown(f"the embedded stack did not start; the end of {folder / 'stack.log'}:\n{tail}")
        time.sleep(0.1)
    process.returncode = 0  # it outlives this process, so it must not be waited for as a child
    stack = Stack(endpoint, process.pid)
    remember(folder, stack)
    return stack


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port of this machine that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
