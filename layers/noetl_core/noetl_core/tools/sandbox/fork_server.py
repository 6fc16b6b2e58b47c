"""The fork server: a small interpreter with the standard library loaded, which never runs the code of an author.

Its control socket takes frames (`runner.send`) of one JSON object each:

* `{op: "fork", surroundings}` gives `{pid, scratch}`, with the socket of a runner and the pipe of its stack (`stacks`) attached,
  or `{why}` when there is no runner.
* `{op: "prepare", surroundings}` has no answer. It forks and confines a runner, which waits for the next `fork` with these
  surroundings. From the second on, each `fork` does the same after its answer, because a process that has run two codes will
  probably run a third, whose task then need not wait for 2 ms.
* `{op: "end", pid, grace}` waits `grace` seconds for the process, kills it, and gives `{status}` as `os.waitpid` does (and
  `killed: true` when it had to).
* `{op: "drop", pid, scratch}` has no answer. It kills the process and removes its folder.

A runner whose sockets are brokered has two more processes: the broker, a child of the server, and the lender, a child of the
runner that the server adopts when the runner has ended.

The processes end with the server, and the server ends with its parent (end of file on the control socket).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import tempfile
import time
from importlib import import_module
from itertools import pairwise
from typing import Any, Final, NamedTuple

from noetl_core.tools.sandbox import confine, runner, stacks
from noetl_core.tools.sandbox.addresses import Addresses
from noetl_core.tools.sandbox.folders import wipe
from noetl_core.tools.sandbox.socket_broker import Broker

USED_MOST: Final = ("base64", "dataclasses", "datetime", "decimal", "inspect", "pathlib", "uuid")
"""Modules that tasks often import. They are loaded while the first task runs, so that no task waits for the 10 ms."""
COUNT_S: Final = 1.0
"""Seconds for which the number of the user's tasks is cached. Counting takes a millisecond or more."""


def main(control_fd: int, folder: str) -> None:
    """Serve until the parent ends; `folder` contains the scratch folders of the tasks."""
    confine.not_dumpable()
    confine.adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.clear()
    for name in [n for n in sys.modules if n.partition(".")[0] == "noetl_core"]:
        del sys.modules[name]  # an author's import finds the module on the path, if there is one
    _keep()
    ForkServer(socket.socket(fileno=control_fd), folder).serve()
    os._exit(0)


def _keep() -> None:
    """Exclude existing objects from garbage collection, which would write to shared pages and so copy them."""
    gc.collect()
    gc.freeze()


class Prepared(NamedTuple):
    """A runner that waits for its code. `scratch` is None if it gets its folder together with the code."""

    pid: int
    sock: socket.socket
    stack: int
    surroundings: dict[str, Any]
    scratch: str | None


class ForkServer:
    """Forks runners, and ends them."""

    def __init__(self, control: socket.socket, folder: str) -> None:
        self._control, self._folder = control, folder
        self._children: dict[int, int | None] = {}
        """Runners, and the broker of each whose sockets are brokered."""
        self._next: Prepared | None = None
        self._forks = 0
        self._tasks, self._counted_at = 0, float("-inf")

    def serve(self) -> None:
        """Answer until the control socket is closed; then end every process and remove every folder."""
        with contextlib.suppress(ConnectionError):
            while (frame := runner.receive(self._control)) is not None:
                self._serve(json.loads(frame[1]))
        for pid in list(self._children):
            self._end(pid, 0)
        wipe(self._folder)

    def _serve(self, request: dict[str, Any]) -> None:
        match request["op"]:
            case "fork":
                self._hand_out(request["surroundings"])
                self._forks += 1
                if self._forks > 1:
                    self._prepare(request["surroundings"])
                else:
                    for name in USED_MOST:
                        import_module(name)
                    _keep()
            case "prepare":
                self._prepare(request["surroundings"])
            case "end":
                self._control.sendall(json.dumps(self._end(request["pid"], request["grace"])).encode())
            case "drop":
                self._end(request["pid"], 0)
                wipe(request["scratch"])

    def _hand_out(self, surroundings: dict[str, Any]) -> None:
        try:
            scratch = None if surroundings["landlock"] else tempfile.mkdtemp(dir=self._folder)
            made = self._taken(surroundings) or self._fork(surroundings)
        except OSError as error:
            self._control.sendall(json.dumps({"why": f"{type(error).__name__}: {error}"}).encode())
            return
        with made.sock:
            answer = json.dumps({"pid": made.pid, "scratch": scratch or made.scratch}).encode()
            socket.send_fds(self._control, [answer], [made.sock.fileno(), made.stack])
        os.close(made.stack)

    def _taken(self, surroundings: dict[str, Any]) -> Prepared | None:
        """Return the waiting runner if it is alive and has the right confinement; otherwise end it."""
        found, self._next = self._next, None
        if found is None:
            return None
        alive = os.waitpid(found.pid, os.WNOHANG) == (0, 0)
        if alive and found.surroundings == surroundings:
            return found
        os.close(found.stack)
        with found.sock:
            if alive:
                self._end(found.pid, 0)
            else:
                self._end_broker(found.pid)
        if found.scratch is not None:
            wipe(found.scratch)
        return None

    def _prepare(self, surroundings: dict[str, Any]) -> None:
        if self._next is None:
            with contextlib.suppress(OSError):  # the caller that needs a runner is told the reason
                self._next = self._fork(surroundings)

    def _fork(self, surroundings: dict[str, Any]) -> Prepared:
        # Without Landlock a task of another execution could write into the folder of a waiting runner: `_hand_out` creates it.
        scratch = tempfile.mkdtemp(dir=self._folder) if surroundings["landlock"] else None
        tasks = self._tasks_of_user()
        broker_pid, broker = self._fork_broker(surroundings, tasks) if surroundings["sockets"] == "brokered" else (None, None)
        ours, theirs = socket.socketpair()
        stack, its_stack = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(stack)
            os.close(its_stack)
            _kill(broker_pid)
            raise
        if pid:
            for sock in (theirs, *(broker or ())):
                sock.close()
            os.close(its_stack)
            self._children[pid] = broker_pid
            return Prepared(pid, ours, stack, surroundings, scratch)
        try:
            _stand_alone(theirs.fileno(), its_stack, *(sock.fileno() for sock in broker or ()))
            stacks.enable(its_stack)
            _run(theirs, surroundings, scratch, tasks, broker)
        finally:
            os._exit(70)

    def _fork_broker(self, surroundings: dict[str, Any], tasks: int) -> tuple[int, runner.Broker]:
        """Return the broker of a runner's sockets, and the runner's ends of the sockets to it."""
        link, its_link = socket.socketpair()
        lender, its_lender = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid:
            its_link.close()
            its_lender.close()
            return pid, (link, lender)
        try:
            _stand_alone(its_link.fileno(), its_lender.fileno())
            Broker(its_lender, Addresses.from_plain(surroundings["addresses"])).run(its_link, tasks)
        finally:
            os._exit(0)

    def _tasks_of_user(self) -> int:
        if time.monotonic() - self._counted_at > COUNT_S:
            self._tasks, self._counted_at = confine.tasks_of_user(), time.monotonic()
        return self._tasks

    def _end(self, pid: int, grace: float) -> dict[str, Any]:
        try:
            return self._end_runner(pid, grace)
        finally:
            self._end_broker(pid)

    def _end_broker(self, runner_pid: int) -> None:
        """End the broker of a runner that has ended, and reap the lender, which ended with it."""
        broker_pid = self._children.pop(runner_pid, None)
        if broker_pid is not None:
            _kill(broker_pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-runner_pid, 0)

    def _end_runner(self, pid: int, grace: float) -> dict[str, Any]:
        until = time.monotonic() + grace
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return {"status": status}
            if time.monotonic() >= until:
                break
            time.sleep(0.002)
        os.kill(pid, signal.SIGKILL)
        return {"status": os.waitpid(pid, 0)[1], "killed": True}


def _kill(pid: int | None) -> None:
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _stand_alone(*kept: int) -> None:
    """Put this process into a session of its own, with the files `kept` and no other open file."""
    os.setsid()
    confine.die_with_parent()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for first, last in pairwise((2, *sorted(kept), 256)):
        os.closerange(first + 1, last)


def _run(
    sock: socket.socket, surroundings: dict[str, Any], scratch: str | None, tasks: int, broker: runner.Broker | None
) -> None:
    """Run as a runner. `sock`, the pipe of its stack and the sockets to its `broker` are its only open files."""
    gc.unfreeze()
    try:
        runner.enter(surroundings, scratch, tasks, broker)
        runner.serve(sock)
        os._exit(0)
    except BaseException as error:  # reported to the worker, because stderr is discarded
        failure = {
            "ok": False,
            "type": type(error).__name__,
            "message": f"the task's process failed: {type(error).__name__}: {error}",
        }
        runner.send(sock, b"R", json.dumps({**failure, "retire": True}).encode("utf-8", "replace"))
        os._exit(70)
