"""The fork server: a small interpreter with the standard library loaded, which never runs the code of an author.

Its control socket takes one JSON object per message and answers with one: `{op: "fork"}`, with the socket of the runner
attached, gives `{pid}`; `{op: "end", pid, grace}` waits `grace` seconds for the process, kills it, and gives `{status}` as
`os.waitpid` does (and `killed: true` when it had to). The processes end with the server, and the server ends with its parent
(end of file on the control socket).
"""

from __future__ import annotations

# What tasks use most: imported once here, there for every fork.
import base64  # noqa: F401
import gc
import json
import os
import signal
import socket
import tempfile  # noqa: F401
import time
from typing import Any

from noetl_core.tools.sandbox import confine, runner
from noetl_core.tools.sandbox.folders import wipe


def main(control_fd: int, folder: str) -> None:
    """Serve until the parent ends; `folder` contains the scratch folders of the tasks."""
    confine.not_dumpable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=control_fd)
    gc.collect()
    gc.freeze()
    while True:
        body, handles, _flags, _address = socket.recv_fds(control, 4096, 1)
        if not body:
            wipe(folder)
            os._exit(0)
        request = json.loads(body)
        answer = _fork(control, handles[0]) if request["op"] == "fork" else _end(request["pid"], request["grace"])
        control.send(json.dumps(answer).encode())


def _fork(control: socket.socket, handle: int) -> dict[str, Any]:
    pid = os.fork()
    if pid:
        os.close(handle)
        return {"pid": pid}
    try:
        control.close()
        os.setsid()
        confine.die_with_parent()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os.closerange(3, handle)
        os.closerange(handle + 1, 256)
        gc.unfreeze()
        _serve(socket.socket(fileno=handle))
    finally:
        os._exit(70)


def _serve(sock: socket.socket) -> None:
    try:
        runner.serve(sock)
        os._exit(0)
    except BaseException as error:  # its stderr goes nowhere: the worker is told instead
        said = {
            "ok": False,
            "type": type(error).__name__,
            "message": f"the task's process failed: {type(error).__name__}: {error}",
        }
        runner.send(sock, b"R", json.dumps({**said, "retire": True}).encode("utf-8", "replace"))
        os._exit(70)


def _end(pid: int, grace: float) -> dict[str, Any]:
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
