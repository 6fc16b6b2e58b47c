"""`noetl` commands, each in a process of its own that is forked from one which has loaded them (`tests.command_server`)."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType

import click
import typer
from click.testing import CliRunner, Result

from noetl_cli.commands import load

NOETL = Path(sys.executable).parent / "noetl"
"""The command itself: for tests of how it starts, and of what a shell does with it."""
ENV = {k: v for k, v in os.environ.items() if k not in ("NOETL_API_URL", "NOETL_HOME", "AWS_ENDPOINT_URL")}
"""The environment of commands: without any setting of this machine's user."""
ROOT = Path(__file__).parents[1]
PATIENCE_S = 60.0
Prepare = tuple[str | int, ...]
Completed = subprocess.CompletedProcess[str]


class Command:
    """A command that runs, or has run; `stdout` and `stderr` are what it has said so far.

    Either may be given as a handle to write to. `prepare` names a module, a function of it and its arguments: called in the new
    process, before the command.
    """

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str] = ENV,
        stdout: int | None = None,
        stderr: int | None = None,
        prepare: Prepare = (),
    ) -> None:
        self.returncode: int | None = None
        self._held = ExitStack()
        self._folder = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="noetl-command-")))
        self._channel, theirs = map(self._held.enter_context, socket.socketpair())
        request = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "prepare": prepare}
        out, err = self._folder / "stdout", self._folder / "stderr"
        with theirs, open(os.devnull, "rb") as nothing, out.open("wb") as own_out, err.open("wb") as own_err:
            streams = [own.fileno() if stream is None else stream for own, stream in ((own_out, stdout), (own_err, stderr))]
            socket.send_fds(_server(), [b"."], [theirs.fileno(), nothing.fileno(), *streams])
        self._channel.sendall(json.dumps(request).encode())
        self._channel.shutdown(socket.SHUT_WR)
        self._channel.settimeout(PATIENCE_S)
        self.pid = int(self._line())

    @property
    def stdout(self) -> str:
        return (self._folder / "stdout").read_text()

    @property
    def stderr(self) -> str:
        return (self._folder / "stderr").read_text()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has ended already
                os.kill(self.pid, number)

    def wait(self, timeout: float = PATIENCE_S) -> int:
        """Its exit code, or less the number of the signal that ended it. Raises `TimeoutError`."""
        if self.returncode is None:
            self._channel.settimeout(timeout)
            self.returncode = int(self._line())
        return self.returncode

    def close(self) -> None:
        """End it, if it still runs."""
        if self.returncode is None:
            self.send_signal(signal.SIGKILL)
            self.wait()
        self._held.close()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _line(self) -> str:
        text = b""
        while not text.endswith(b"\n"):
            part = self._channel.recv(1)
            assert part, f"the command's process is gone without a word: {self.stderr}"
            text += part
        return text.decode()


def run(
    *arguments: str,
    cwd: Path,
    timeout: float = PATIENCE_S,
    env: Mapping[str, str] = ENV,
    stdout: int | None = None,
    stderr: int | None = None,
    prepare: Prepare = (),
) -> Completed:
    """Carry a command out to its end."""
    with Command(*arguments, cwd=cwd, env=env, stdout=stdout, stderr=stderr, prepare=prepare) as command:
        code = command.wait(timeout)
        return subprocess.CompletedProcess(["noetl", *arguments], code, command.stdout, command.stderr)


@cache
def _command() -> click.Command:
    return typer.main.get_command(load())


def in_process(*arguments: str) -> Result:
    """Carry a command out in this process; `exception` of what it returns tells how it ended. All commands are made once."""
    return CliRunner().invoke(_command(), list(arguments))


SHIM = """#!{python} -IS
import json, os, socket, sys
channel = socket.socket(socket.AF_UNIX)
channel.connect({address!r})
socket.send_fds(channel, [b"."], [0, 1, 2])
request = {{"arguments": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "prepare": []}}
channel.sendall(json.dumps(request).encode())
channel.shutdown(socket.SHUT_WR)
code = int(channel.makefile().read().split()[1])
sys.exit(code if code >= 0 else 128 - code)
"""


@contextmanager
def on_path() -> Iterator[Path]:
    """A folder for the `PATH` of a shell, with a `noetl` that is forked as `run` does it."""
    with tempfile.TemporaryDirectory(prefix="noetl-path-") as folder, socket.socket(socket.AF_UNIX) as listening:
        address = str(Path(folder) / "commands")
        listening.bind(address)
        listening.listen()
        shim = Path(folder) / "noetl"
        shim.write_text(SHIM.format(python=sys.executable, address=address))
        shim.chmod(0o755)
        server = _server()
        forwarding = threading.Thread(target=_forward, args=(listening, server), daemon=True)
        forwarding.start()
        try:
            yield Path(folder)
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            forwarding.join()


def _forward(listening: socket.socket, server: socket.socket) -> None:
    while True:
        try:
            channel, _ = listening.accept()
        except OSError:  # shut down
            return
        with channel:
            _, handles, _, _ = socket.recv_fds(channel, 1, 3)
            socket.send_fds(server, [b"."], [channel.fileno(), *handles])
            for handle in handles:
                os.close(handle)


def start_server() -> None:
    """Start the process that commands are forked from, if there is none. Processes that are forked from this one share it."""
    _server()


def end_server() -> None:
    """End that process, if nobody else uses it. Its commands' processor time then counts as that of this process's children."""
    _end(*_process())


def _server() -> socket.socket:
    """A socket of the process that commands are forked from."""
    return _process()[1]


@cache
def _process() -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.command_server", str(theirs.fileno())],
            cwd=ROOT,
            env={**ENV, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), ENV.get("PYTHONPATH")]))},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    atexit.register(_end, server, ours)
    return server, ours


def _end(server: subprocess.Popen[bytes], listening: socket.socket) -> None:
    listening.close()
    server.wait()
