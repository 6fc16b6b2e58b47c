"""The filter of system calls (seccomp) that a task's process runs under. It cannot be removed, and every thread inherits it.

Refused are other processes, `exec`, signals to others, `ptrace`, io_uring, shared memory, and sockets, by the task's `Sockets`:

* `none`: no socket but connected pairs within the process.
* `brokered`: TCP and UDP sockets. Each call that names an address waits for the broker (`socket_broker`), which makes the call
  itself: the kernel never acts on memory of the task, which another thread could change after the address was checked.
* `open`: any socket, for kernels that cannot ask (before Linux 5.0).

A filter sees the numeric arguments of a call, not the data behind its pointers. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Sequence
from typing import Any, Final, Literal

Sockets = Literal["none", "brokered", "open"]

LINUX: Final = sys.platform == "linux"
ENOSYS, EPERM = 38, 1
PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SET_MODE_FILTER, _GET_ACTION_AVAIL, _NEW_LISTENER = 1, 2, 8
CLONE_THREAD: Final = 0x10000
AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6 = 0, 1, 2, 10
STREAM, DATAGRAM, TYPE_MASK = 1, 2, 0xF
IPPROTO_TCP, IPPROTO_UDP = 6, 17
MSG_FASTOPEN: Final = 0x20000000
"""Connects and sends in one call."""
_ROUTES: Final = ((1, 6), (0, 4), (41, 6), (41, 54), (41, 55), (41, 57), (41, 59))
"""Options `(level, name)` with which packets go elsewhere, too: SO_BROADCAST, IP_OPTIONS, and extension headers of IPv6."""

_X86: Final = {
    "arch": 0xC000003E, "socket": 41, "connect": 42, "socketpair": 53, "sendto": 44, "sendmsg": 46, "sendmmsg": 307,
    "setsockopt": 54, "seccomp": 317, "clone": 56, "clone3": 435, "prlimit64": 302, "capset": 126,
    "own": (62, 234, 129, 297),  # kill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo
    # fork vfork execve tkill ptrace mount umount2 unshare setns process_vm_readv/writev kcmp bpf execveat userfaultfd
    # perf_event_open add_key request_key keyctl io_uring_setup pidfd_send_signal pidfd_open pidfd_getfd open_by_handle_at
    # shmget msgget semget mq_open setpgid setsid
    "denied": (57, 58, 59, 200, 101, 165, 166, 272, 308, 310, 311, 312, 321, 322, 323, 298,
               248, 249, 250, 425, 424, 434, 438, 304, 29, 68, 64, 240, 109, 112),
}  # fmt: skip
_ARM: Final = {
    "arch": 0xC00000B7, "socket": 198, "connect": 203, "socketpair": 199, "sendto": 206, "sendmsg": 211, "sendmmsg": 269,
    "setsockopt": 208, "seccomp": 277, "clone": 220, "clone3": 435, "prlimit64": 261, "capset": 91,
    "own": (129, 131, 138, 240),
    "denied": (221, 130, 117, 40, 39, 97, 268, 270, 271, 272, 280, 281, 282, 241,
               217, 218, 219, 425, 424, 434, 438, 265, 194, 186, 190, 180, 154, 157),
}  # fmt: skip
CALLS: Final[dict[str, Any] | None] = {"x86_64": _X86, "aarch64": _ARM, "arm64": _ARM}.get(os.uname().machine) if LINUX else None

_LOAD, _EQUAL, _AT_LEAST, _BIT_SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL, _ASK = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000
_REFUSE: Final = (_RETURN, 0, 0, _ERRNO | EPERM)
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16

Operation = tuple[int, int, int, int]
"""An instruction of BPF: `(code, jump if true, jump if false, k)`."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def can_broker() -> bool:
    """Return whether this kernel can let another process answer a task's calls."""
    if CALLS is None:
        return False
    number, action = ctypes.c_long(CALLS["seccomp"]), struct.pack("=I", _ASK)
    return bool(_libc.syscall(number, ctypes.c_uint(_GET_ACTION_AVAIL), ctypes.c_uint(0), action) == 0)


def install(sockets: Sockets) -> int | None:
    """Install the filter in this process, which has set `no_new_privs`. Return the listener of a brokered process, 0 otherwise;
    None where this kernel or processor has no such filter."""
    if CALLS is None:
        return None
    program = _filter(CALLS, os.getpid(), sockets)
    memory = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *operation) for operation in program))
    fprog = struct.pack("@HP", len(program), ctypes.addressof(memory))
    if sockets != "brokered":
        return 0 if _libc.prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(fprog), 0, 0) == 0 else None
    number, flags = ctypes.c_long(CALLS["seccomp"]), ctypes.c_uint(_NEW_LISTENER)
    listener = _libc.syscall(number, ctypes.c_uint(_SET_MODE_FILTER), flags, ctypes.c_char_p(fprog))
    return None if listener < 0 else int(listener)


def drop_capabilities() -> None:
    """Give up every capability."""
    if CALLS is not None:
        header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
        _libc.syscall(ctypes.c_long(CALLS["capset"]), header, none)


def _argument(index: int, *, high: bool = False) -> Operation:
    """Load the low (or the high) half of an argument. Both machines are little endian."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index + (4 if high else 0))


def _on(call: int, body: Sequence[Operation]) -> list[Operation]:
    """Run `body` for one call. If it does not return, it must leave the number of the call loaded."""
    return [(_EQUAL, 0, len(body), call), *body]


def _filter(calls: dict[str, Any], pid: int, sockets: Sockets) -> list[Operation]:
    """Return the BPF program."""
    allow = (_RETURN, 0, 0, _ALLOW)
    ops: list[Operation] = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, calls["arch"]), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    ops += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _ERRNO | ENOSYS)]  # the x32 number of every call
    for call in (*calls["denied"], *((calls["socket"], calls["connect"]) if sockets == "none" else ())):
        ops += _on(call, [_REFUSE])
    ops += _on(calls["clone3"], [(_RETURN, 0, 0, _ERRNO | ENOSYS)])  # its flags cannot be inspected; the C library uses clone
    ops += _on(calls["clone"], [_argument(0), (_BIT_SET, 0, 1, CLONE_THREAD), allow, _REFUSE])
    for call in calls["own"]:
        ops += _on(call, [_argument(0), (_EQUAL, 0, 1, pid), allow, _REFUSE])
    ops += _on(calls["prlimit64"], [_argument(0), (_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, pid), allow, _REFUSE])
    if sockets != "open":
        ops += _on(calls["socketpair"], _pairs())
    if sockets == "brokered":
        ops += _on(calls["socket"], _internet()) + _on(calls["setsockopt"], _no_routes())
        ops += _on(calls["sendto"], _without_address())
        for call in (calls["connect"], calls["sendmsg"], calls["sendmmsg"]):
            ops += _on(call, [(_RETURN, 0, 0, _ASK)])
    return [*ops, allow]


def _pairs() -> list[Operation]:
    """Allow pairs that stay connected: an end of a pair of datagrams could send to any other process's socket."""
    return [
        _argument(0), (_EQUAL, 1, 0, AF_UNIX), _REFUSE,
        _argument(1), (_AND, 0, 0, TYPE_MASK), (_EQUAL, 0, 1, STREAM), (_RETURN, 0, 0, _ALLOW), _REFUSE,
    ]  # fmt: skip


def _internet() -> list[Operation]:
    """Allow sockets of TCP and UDP."""
    ops = [_argument(0), (_EQUAL, 2, 0, AF_INET), (_EQUAL, 1, 0, AF_INET6), _REFUSE]
    for kind, protocol in ((STREAM, IPPROTO_TCP), (DATAGRAM, IPPROTO_UDP)):
        ops += [_argument(1), (_AND, 0, 0, TYPE_MASK), (_EQUAL, 0, 4, kind), _argument(2)]
        ops += [(_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, protocol), (_RETURN, 0, 0, _ALLOW)]
    return [*ops, _REFUSE]


def _no_routes() -> list[Operation]:
    """Refuse options that lead packets to other addresses than the one that was checked."""
    ops: list[Operation] = []
    for level, name in _ROUTES:
        ops += [_argument(1), (_EQUAL, 0, 3, level), _argument(2), (_EQUAL, 0, 1, name), _REFUSE]
    return [*ops, (_RETURN, 0, 0, _ALLOW)]


def _without_address() -> list[Operation]:
    """Allow sending on a connected socket; ask the broker about other calls."""
    return [
        _argument(4), (_EQUAL, 0, 5, 0), _argument(4, high=True), (_EQUAL, 0, 3, 0),
        _argument(3), (_BIT_SET, 1, 0, MSG_FASTOPEN), (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ASK),
    ]  # fmt: skip
