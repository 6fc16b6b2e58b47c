"""The worker's side of the sandbox: one fork server, and runners that are kept for the next task of the same execution and
code.

A runner is never used for another execution or another code. Changes that a task leaves in its process, such as patched builtins
or modules, can therefore affect only tasks of the same execution and code. Thread-safe.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, Final

from noetl_core.tools.sandbox import confine, stacks
from noetl_core.tools.sandbox.folders import wipe
from noetl_core.values.large_json import LARGE, JsonText, loads, spliced, text_of

Key = tuple[str, str]
"""(execution, digest of code and settings)."""

SURROUNDINGS: Final = ("sockets", "or_open", "addresses", "packages", "engine", "landlock")
"""The settings of a runner's confinement, mostly the same for all tasks of a worker."""

MAX_RUNNING: Final = 16
"""Concurrent tasks; more wait for a place."""
MAX_IDLE: Final = 8
IDLE_S: Final = 30.0
SLICE_S: Final = 0.2
"""Seconds between two checks of `cancelled` during a wait."""
SEND_S: Final = 10.0
"""Seconds within which a runner must go on reading what is sent to it."""
READ_BYTES: Final = 1 << 14
DIE_GRACE_S: Final = 0.2
MAX_OUTPUT_FRAME: Final = 1 << 20
STREAMS: Final = {b"O": "stdout", b"E": "stderr"}

_BOOT: Final = (
    "import sys; sys.path.insert(0, {root!r}); from noetl_core.tools.sandbox.fork_server import main; main({fd}, {folder!r})"
)


class Died(Exception):
    """The process of the runner ended during a task. `status` is as `os.waitpid` returns it; `killed` is true if the pool ended
    the process."""

    def __init__(self, status: int, killed: bool) -> None:
        super().__init__(f"the process ended with status {status}")
        self.status = status
        self.killed = killed


class Expired(Exception):
    """The time of the task is up."""


class Cancelled(Exception):
    """Nobody waits for the task any longer."""


class Overflow(Exception):
    """The runner sent more than it may."""


class CannotStart(Exception):
    """The fork server does not start, or has ended. Who acts: the operator; the message says why."""


WHY_CHARS: Final = 500
"""Characters kept of the fork server's last output."""
INHERITED: Final = ("LD_LIBRARY_PATH",)
"""Variables that the fork server inherits from the worker's environment, by which Lambda's interpreter finds its libraries. Tasks
do not see them."""


class ForkServer:
    """The process of the fork server and its control socket."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        root = str(Path(__file__).resolve().parents[3])
        self._lock = threading.Lock()
        self._control = ours
        self.folder = tempfile.mkdtemp(prefix="noetl-tasks-")
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process that writes to it
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT.format(root=root, fd=theirs.fileno(), folder=self.folder)],
                env={name: os.environ[name] for name in INHERITED if name in os.environ},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def prepare(self, surroundings: Mapping[str, Any]) -> None:
        """Ask the server to prepare a runner for these surroundings, without waiting."""
        self._tell({"op": "prepare", "surroundings": surroundings})

    def fork(self, surroundings: Mapping[str, Any]) -> tuple[int, str, socket.socket, FileIO]:
        """Return the process id, the scratch folder, the socket and the stack's pipe of a new runner. Raises `CannotStart` when
        there is none, or when the server has ended."""
        answer, handles = self._ask({"op": "fork", "surroundings": surroundings})
        if "why" in answer:
            raise CannotStart(f"the process of a python task cannot start: {answer['why']}")
        for handle in handles:
            os.set_inheritable(handle, False)
        sock, stack = handles
        return int(answer["pid"]), str(answer["scratch"]), socket.socket(fileno=sock), FileIO(stack)

    def end(self, pid: int, grace: float) -> tuple[int, bool]:
        """Reap a runner: return `(status, whether it had to be killed)`."""
        answer, _ = self._ask({"op": "end", "pid": pid, "grace": grace})
        return int(answer["status"]), bool(answer.get("killed"))

    def drop(self, pid: int, scratch: str) -> None:
        """Ask the server to end a runner and remove its folder, without waiting."""
        self._tell({"op": "drop", "pid": pid, "scratch": scratch})

    def _tell(self, request: Mapping[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError):  # the server has ended, which the next request reports
            _send(self._control, request)

    def _ask(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[int]]:
        answer, handles = b"", list[int]()
        with self._lock, contextlib.suppress(ConnectionError):
            _send(self._control, request)
            answer, handles, _flags, _address = socket.recv_fds(self._control, 4096, 2)
        if not answer:
            raise CannotStart(self._why())
        return dict(json.loads(answer)), handles

    def _why(self) -> str:
        """Return the server's last output, for an error message."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        self._stderr.seek(0)
        output = self._stderr.read()[-WHY_CHARS:].decode("utf-8", "replace").strip() or "no output"
        return f"the process that runs python tasks cannot start (exit code {self.process.poll()}): {output}"

    def close(self) -> None:
        self._control.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._stderr.close()
        wipe(self.folder)


def _send(sock: socket.socket, value: Mapping[str, Any]) -> None:
    for part in _frame(value):
        sock.sendall(part)


def _frame(value: Mapping[str, Any]) -> Sequence[bytes]:
    """Return a frame in one part, or a large one in two, which are not copied into one. Each part may wake the other process."""
    body = spliced(value)
    head = struct.pack(">cI", b"T", len(body))
    return [head + body] if len(body) < LARGE else [head, body]


def _new_server() -> ForkServer:
    confine.not_dumpable()  # a task's process has the same user, and must not read this one
    return ForkServer()


_ahead: Final[list[ForkServer]] = []


def start_server_ahead(surroundings: Mapping[str, Any]) -> None:
    """Start the fork server of this process's future first pool, and a runner, without waiting, so that they start while the
    program is still importing."""
    _ahead.append(_new_server())
    _ahead[-1].prepare({**surroundings, "landlock": confine.has_landlock()})
    atexit.register(_close_ahead)


def _started_ahead() -> ForkServer | None:
    """Take the server that was started ahead, if it is alive."""
    try:
        server = _ahead.pop()
    except IndexError:
        return None
    if server.alive:
        return server
    server.close()
    return None


def _close_ahead() -> None:
    while (server := _started_ahead()) is not None:
        server.close()


class Runner:
    """One runner process and its socket. One thread at a time uses it."""

    def __init__(self, fork_server: ForkServer, key: Key, config: Mapping[str, Any]) -> None:
        self.key = key
        self.idle_since = 0.0
        self._fork_server = fork_server
        self._max_result = int(config["max_result"])
        self._pid, self._scratch, self._sock, self._stack = fork_server.fork({name: config[name] for name in SURROUNDINGS})
        self._waits_s = -1.0
        self._unread = bytearray()
        rest = {name: config[name] for name in config if name not in SURROUNDINGS} | {"scratch": self._scratch}
        try:
            self._send(rest, time.monotonic() + SEND_S, threading.Event())
        except (OSError, Expired) as error:
            self.close()
            raise CannotStart("the process of a python task does not read its settings") from error

    def run(
        self, task: Mapping[str, Any], deadline: float, cancelled: threading.Event, output: Callable[[str, str], None]
    ) -> tuple[dict[str, Any], JsonText | None]:
        """Return the answer to one task, and the text of its result if that is large and has only one meaning.

        Raises `Died`, `Expired`, `Cancelled`, `Overflow`; then the runner must be closed.
        """
        result: bytes | None = None
        try:
            self._send(task, deadline, cancelled)
            while True:
                kind, length = struct.unpack(">cI", self._read(5, deadline, cancelled))
                if length > (MAX_OUTPUT_FRAME if kind in STREAMS else self._max_result + MAX_OUTPUT_FRAME):
                    raise Overflow
                body = self._read(length, deadline, cancelled)
                if kind == b"R":
                    answer = dict(json.loads(body))
                    if self._unread:  # it would be taken for the answer of the next task
                        answer["retire"] = True
                    if result is None:
                        return answer, None
                    value = loads(result)
                    return {**answer, "result": value}, text_of(value, result)
                if kind == b"V":
                    if result is not None:
                        raise ValueError("a task has one result")
                    result = body
                    continue
                output(body.decode("utf-8", "replace"), STREAMS[kind])
        except (EOFError, OSError, LookupError, ValueError, TypeError, RecursionError) as error:
            raise Died(*self.close(DIE_GRACE_S)) from error

    def stack(self) -> str:
        """Return the Python stack of the task that runs, innermost frame first; empty if its process does not tell it."""
        return stacks.read(self._pid, self._stack) if self._pid else ""

    def _send(self, value: Mapping[str, Any], deadline: float, cancelled: threading.Event) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the process died, which the next read reports
            for part in _frame(value):
                unsent, until = memoryview(part), time.monotonic() + SEND_S
                while unsent:
                    self._check(deadline, cancelled)
                    try:
                        unsent = unsent[self._sock.send(unsent) :]
                        until = time.monotonic() + SEND_S
                    except TimeoutError:
                        if time.monotonic() >= until:
                            raise

    def _read(self, size: int, deadline: float, cancelled: threading.Event) -> bytes:
        """Return the next `size` bytes. One call of the system usually reads a whole frame: each call lets another thread run."""
        unread = self._unread
        self._check(deadline, cancelled)
        while len(unread) < size:
            try:
                piece = self._sock.recv(min(max(size - len(unread), READ_BYTES), 1 << 20))
            except TimeoutError:
                self._check(deadline, cancelled)
                continue
            if not piece:
                raise EOFError
            unread += piece
            if len(unread) < size:
                self._check(deadline, cancelled)
        with memoryview(unread) as view:
            found = bytes(view[:size])
        del unread[:size]
        return found

    def _check(self, deadline: float, cancelled: threading.Event) -> None:
        """Raise `Cancelled` or `Expired`, or limit the next wait."""
        if cancelled.is_set():
            raise Cancelled
        left = deadline - time.monotonic()
        if left <= 0:
            raise Expired
        seconds = min(left, SLICE_S)
        if seconds != self._waits_s:  # setting it is a call of the system
            self._waits_s = seconds
            self._sock.settimeout(seconds)

    def close(self, grace: float = 0.0) -> tuple[int, bool]:
        """End the process and remove its folder; return `(status, killed)`."""
        if self._pid == 0:
            return 0, True
        pid, self._pid = self._pid, 0
        try:
            return self._fork_server.end(pid, grace)
        except (OSError, CannotStart):
            return 9, True  # the server is gone, and its runners with it
        finally:
            self._close_files()
            wipe(self._scratch)

    def drop(self) -> None:
        """Let the process end, without waiting for it."""
        if self._pid:
            pid, self._pid = self._pid, 0
            self._fork_server.drop(pid, self._scratch)
            self._close_files()

    def leave(self) -> None:
        """Let the process end with the fork server, which is about to be closed."""
        self._pid = 0
        self._close_files()

    def _close_files(self) -> None:
        self._sock.close()
        self._stack.close()


class Pool:
    """Runners by key: an idle runner is kept for a while for the next task of its key."""

    def __init__(self, *, landlock: bool = True) -> None:
        """With `landlock` False it behaves as on a kernel without Landlock."""
        self._closed_files = landlock and confine.has_landlock()
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(MAX_RUNNING)
        self.fork_server: ForkServer | None = None
        """The fork server; None until it is needed."""
        self._idle: dict[int, Runner] = {}
        """Idle runners, the longest idle first."""
        self._pid = os.getpid()
        atexit.register(self.close)

    def warm(self, surroundings: Mapping[str, Any]) -> None:
        """Start the fork server, and a runner for `surroundings`, without waiting for them."""
        with self._lock:
            self._server().prepare({**surroundings, "landlock": self._closed_files})

    def take_place(self, deadline: float, cancelled: threading.Event) -> bool:
        """Wait for a place among the running tasks; return False at the deadline, or if the task is cancelled."""
        while not self._places.acquire(timeout=max(0.0, min(SLICE_S, deadline - time.monotonic()))):
            if cancelled.is_set() or time.monotonic() >= deadline:
                return False
        return True

    def leave_place(self) -> None:
        self._places.release()

    def acquire(self, key: Key, config: Mapping[str, Any]) -> Runner:
        """Return an idle runner of this execution and code, or a new one."""
        now = time.monotonic()
        with self._lock:
            found = next((r for r in reversed(self._idle.values()) if r.key == key), None)
            exposed = [r for r in self._idle.values() if self._exposed(r, key)]
            stale = [r for r in self._idle.values() if r is not found and r not in exposed and now - r.idle_since > IDLE_S]
            for runner in [*exposed, *stale, *([found] if found else [])]:
                del self._idle[id(runner)]
        for runner in exposed:
            runner.close()  # its folder must be gone when the next task begins
        for runner in stale:
            runner.drop()
        if found is not None:
            return found
        with self._lock:
            fork_server = self._server()
        return Runner(fork_server, key, {**config, "landlock": self._closed_files})

    def _exposed(self, runner: Runner, key: Key) -> bool:
        """Return whether a task of `key` could access the files of `runner`, which belongs to another execution."""
        return not self._closed_files and runner.key[0] != key[0]

    def _server(self) -> ForkServer:
        if self.fork_server is None or not self.fork_server.alive:
            if self.fork_server is not None:
                self.fork_server.close()
            self.fork_server = _started_ahead() or _new_server()
        return self.fork_server

    def release(self, runner: Runner) -> None:
        """Keep `runner` for the next task of its key."""
        runner.idle_since = time.monotonic()
        with self._lock:
            self._idle[id(runner)] = runner
            crowded = self._idle.pop(next(iter(self._idle))) if len(self._idle) > MAX_IDLE else None
        if crowded is not None:
            crowded.drop() if self._closed_files else crowded.close()

    def close(self) -> None:
        """End every process; the pool may be used again."""
        if os.getpid() != self._pid:
            return  # a fork of the worker: the processes are not ours
        with self._lock:
            runners, self._idle = list(self._idle.values()), {}
            fork_server, self.fork_server = self.fork_server, None
        for runner in runners:
            runner.leave()
        if fork_server is not None:
            fork_server.close()
