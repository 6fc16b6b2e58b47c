"""Prepares the place of a session's data: one folder on one disk; PostgreSQL and the emulated AWS if a side needs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from bench.peers.installs import INTO, NotRun

from noetl_infra.stack import Stack, down
from noetl_infra.up import free_port, up


class Place:
    """Leaves nothing behind on exit: processes have ended, and the folder is removed."""

    def __init__(self, into: Path = INTO) -> None:
        self._into, self._exits = into, ExitStack()
        self._stack: Stack | None = None
        self._postgres: str | None = None

    def __enter__(self) -> Place:
        self._into.mkdir(parents=True, exist_ok=True)
        self.root = Path(tempfile.mkdtemp(prefix="session-", dir=self._into))
        self._exits.callback(shutil.rmtree, self.root, ignore_errors=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._exits.close()

    def folder(self, name: str) -> Path:
        (self.root / name).mkdir(exist_ok=True)
        return self.root / name

    def stack(self) -> Stack:
        """One of this session's own, on a port of its own; raises `NotRun`."""
        if self._stack is None:
            home = self.folder("stack")
            self._exits.callback(down, home)
            temporary = os.environ.get("TMPDIR")
            os.environ["TMPDIR"] = str(self.folder("temporary"))  # the emulator leaves its functions' code in it
            try:
                self._stack = up(home, port=free_port())
            except Exception as error:  # an emulator may lack anything: report it, and measure the other sides
                raise NotRun(f"the embedded stack did not start: {error}") from error
            finally:
                del os.environ["TMPDIR"]
                if temporary is not None:
                    os.environ["TMPDIR"] = temporary
        return self._stack

    def postgres(self) -> str:
        """The URL of an empty database of a server of this session's own, with PostgreSQL's default settings."""
        if self._postgres is None:
            server = subprocess.Popen(
                [sys.executable, "-m", "bench.peers.postgres", str(self.folder("postgres"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert server.stdout is not None
            self._exits.callback(_end, server)
            self._postgres = server.stdout.readline().strip()
            if not self._postgres:
                raise NotRun("PostgreSQL did not start")
        return self._postgres

    def postgres_processes(self) -> list[int]:
        """The server's main process; its own file has the id."""
        files = self.folder("postgres").rglob("postmaster.pid")
        return [int(file.read_text().split()[0]) for file in files]


def serve_http(exits: ExitStack) -> str:
    """Start the service that the HTTP cases call; return the address below which it answers at once."""
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.http_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    exits.callback(_end, server)
    assert server.stdout is not None
    return f"http://127.0.0.1:{int(server.stdout.readline())}/0"


def _end(process: subprocess.Popen[str]) -> None:
    """Close its input, which is what it ends at."""
    try:
        process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
