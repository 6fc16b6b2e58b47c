"""The lender: a process that shares the open files of a runner, and hands them to the broker of its sockets by their numbers.

It exists because only a process with the same table of open files, or one that may trace the runner, can open a file by its
number there. It shares no memory with the runner, and no author's code runs in it. Because the task may read, write and close the
lender's files, the lender is confined like a task without network, and the broker trusts nothing that comes from it. Standard
library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
from typing import Final

from noetl_core.tools.sandbox import confine
from noetl_core.tools.sandbox.addresses import Addresses
from noetl_core.tools.sandbox.system_calls import CALLS

NO_FILE: Final = b"-"
"""Begins the answer to a request for a number that no file has. Other answers are the request, with the file."""
_CLONE_FILES: Final = 0x400

_libc: Final = ctypes.CDLL(None, use_errno=True)


def start(end: socket.socket) -> None:
    """Start the lender of this process, which has one thread. It ends with this process. Raises `OSError`."""
    assert CALLS is not None
    runner = os.getpid()
    number, flags, none = ctypes.c_long(CALLS["clone"]), ctypes.c_ulong(_CLONE_FILES | signal.SIGCHLD), ctypes.c_void_p()
    pid = _libc.syscall(number, flags, none, none, none, none)
    if pid < 0:
        raise OSError(ctypes.get_errno(), "the lender of sockets cannot start")
    if pid:
        return
    try:
        confine.die_with_parent()
        if os.getppid() == runner:
            confine.confine([], [], sockets="none", addresses=Addresses())
            _lend(end)
    finally:
        os._exit(0)


def _lend(end: socket.socket) -> None:
    while len(request := end.recv(4)) == 4:
        try:
            socket.send_fds(end, [request], [struct.unpack("=i", request)[0]])
        except OSError:
            end.send(NO_FILE + request)
