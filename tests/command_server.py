"""A process that has loaded the command line, and forks one that carries a command out for each that it is sent.

Python and the imports of `noetl` take several times as long to start as most commands take to run. A forked process is one of its
own all the same: its arguments, folder, environment and standard streams, its signals, its exit code. What only a start from
nothing shows - that a module imports what it needs, streams that are closed already - needs `noetl` itself.

`python -m tests.command_server HANDLE`: HANDLE is a Unix socket over which each command comes as a socket of its own and the
standard streams. That socket carries the request (JSON, to its end), and back the process id and how the process ended.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import typer

import noetl_cli
import noetl_core.dsl
import noetl_core.observe
import noetl_core.runtime.local
import noetl_core.service
import noetl_core.views
import noetl_migrate
from noetl_cli.commands import load
from noetl_cli.main import main

STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
LOADED = (noetl_cli, noetl_migrate, noetl_core.dsl, noetl_core.observe, noetl_core.service, noetl_core.views)
"""Packages whose modules commands import when they run."""
MODULES = ("noetl_core.tools.noop", "noetl_infra.stack", "rich.console", "rich.table")


def serve(listening: socket.socket) -> dict[str, Any]:
    """Fork for each command; returns, with the request, in the process that is to carry it out. A fork takes 10 ms, so none is made
    only to wait for a command: the server tells how each ended."""
    commands: dict[int, socket.socket] = {}
    woken, waking = socket.socketpair()
    waking.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([listening, woken], [], [])
        if woken in ready:
            woken.recv(1 << 12)
            _tell_how_they_ended(commands)
        if listening not in ready:
            continue
        message, handles, _, _ = socket.recv_fds(listening, 1, 4)
        if not message:
            os._exit(0)  # the caller is gone
        asked = socket.socket(fileno=handles[0])
        request = _request(asked)
        process = os.fork()
        if process == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for held in (listening, woken, waking, asked, *commands.values()):
                held.close()
            _become(request, handles[1:])
            return request
        for handle in handles[1:]:
            os.close(handle)
        commands[process] = asked
        _tell(asked, process)


def _request(asked: socket.socket) -> dict[str, Any]:
    text = b""
    while part := asked.recv(1 << 16):
        text += part
    request: dict[str, Any] = json.loads(text)
    return request


def _tell(asked: socket.socket, number: int) -> None:
    with suppress(OSError):  # the caller is gone
        asked.sendall(f"{number}\n".encode())


def _tell_how_they_ended(commands: dict[int, socket.socket]) -> None:
    while commands:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process == 0:
            return
        with commands.pop(process) as asked:
            _tell(asked, os.waitstatus_to_exitcode(status))


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """This process as if it had been started with the request."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for number, handle in enumerate(streams):
        os.dup2(handle, number)
        os.close(handle)
        name, mode = STREAMS[number]
        errors = "backslashreplace" if name == "stderr" else "strict"
        stream = io.TextIOWrapper(open(number, mode + "b"), encoding="utf-8", errors=errors, line_buffering=name == "stderr")  # noqa: SIM115
        setattr(sys, name, stream)
    sys.argv = ["noetl", *request["arguments"]]
    if request["prepare"]:
        module, function, *arguments = request["prepare"]
        getattr(import_module(module), function)(*arguments)


def _end_like(command: Callable[[], None]) -> None:
    """Run a command, and end the process as the interpreter does, without destroying its modules: that would copy each page that is
    shared with the server, and take longer than most commands (50 ms)."""
    try:
        command()
    except SystemExit as end:
        threading._shutdown()  # type: ignore[attr-defined]  # the stubs lack what the interpreter calls first at its end
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)
    for package in LOADED:
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    for name in MODULES:
        import_module(name)
    made = typer.main.get_command(
        load()
    )  # builds all commands, which takes longer than most of them run; a start builds only its own
    typer.main.get_command = lambda typer_instance: made
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
    _end_like(main)
