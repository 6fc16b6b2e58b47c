"""Confines the code of a task: limits, capabilities, system calls, files, audit hook. This cannot be undone; the runner calls
it before any code of an author.

The guarantees depend on the kernel, and each layer is independent:

* resource limits (everywhere): address space, processor time, file size, open files, no core dumps.
* seccomp (Linux on x86-64 and arm64; `system_calls`): no process, no `exec`, no signal to others, no `ptrace`, no io_uring, and
  - unless the task declared network - no socket. Where it is refused, a network namespace of its own is tried.
* brokered sockets (Linux 5.0 and later; `socket_broker`): a task with network has TCP and UDP to the addresses that the policy
  allows, and reaches no other address by any system call. Without it only the audit hook judges addresses, and on Lambda,
  where the runtime's port is on this machine, tasks have no network.
* Landlock (Linux 5.13 and later; not on Lambda): only the Python installation, libraries and the task's scratch folder can be
  reached. Without it the code has the file access of the worker's user: then the pool keeps nothing of one execution while a task
  of another runs, and data that hostile code must not see belongs to the worker of another pool.
* audit hook (everywhere): the same refusals, with explanations. It is not a barrier against hostile code.

If neither seccomp nor a namespace is available, hostile code can reach the network and the worker's files: run such tasks in a
pool of their own, with a role without rights (docs/access.md).
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from noetl_core.tools.sandbox import system_calls
from noetl_core.tools.sandbox.addresses import Addresses
from noetl_core.tools.sandbox.system_calls import LINUX, PR_SET_NO_NEW_PRIVS, Sockets

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000

_libc: Final = ctypes.CDLL(None, use_errno=True)


def not_dumpable() -> None:
    """Close the memory and the `/proc` entry of this process to other processes of the same user."""
    if LINUX:
        _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def open_own_memory() -> int:
    """Return the memory of this process as a file. A process that is not dumpable cannot open it, not even its own, so it is
    dumpable for a moment."""
    try:
        return os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
    except PermissionError:
        _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        try:
            return os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
        finally:
            not_dumpable()


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent has ended."""
    if LINUX:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """End this process when its parent (a process with one thread) ends."""
    if LINUX:
        _libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def limit_resources(tasks: int, file_mb: int = 256, files: int = 256) -> None:
    """Set hard limits of this process, whose user has this many `tasks`. Raising them again would need a capability that
    `confine` gives up."""
    pairs = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, file_mb << 20), (resource.RLIMIT_NOFILE, files)]
    if LINUX:
        pairs.append((resource.RLIMIT_NPROC, tasks + 256))
    for what, limit in pairs:
        _limit(what, limit)


def limit_memory(memory_mb: int) -> None:
    """Set a hard limit of the address space of this process."""
    if LINUX:
        _limit(resource.RLIMIT_AS, memory_mb << 20)


def _limit(what: int, limit: int) -> None:
    _soft, hard = resource.getrlimit(what)
    value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(what, (value, value))


def tasks_of_user() -> int:
    """Return the number of processes and threads of this user: RLIMIT_NPROC counts all of them. 0 where that is not limited."""
    if not LINUX:
        return 0
    count, uid = 0, os.getuid()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                count += len(os.listdir(f"/proc/{entry.name}/task")) if entry.stat().st_uid == uid else 0
            except OSError:
                continue
    return count


def limit_processor_time(seconds: float) -> None:
    """Limit the processor time of the next task; after that the kernel ends the process (SIGXCPU)."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(usage.ru_utime + usage.ru_stime + seconds) + 2, hard))


class CannotConfine(Exception):
    """The kernel has refused a system call that a task with network needs. Who acts: the operator, by not allowing network
    here."""


def confine(
    readable: Iterable[str],
    writable: Iterable[str],
    *,
    sockets: Sockets,
    addresses: Addresses,
    or_open: bool = False,
    landlock: bool = True,
) -> int:
    """Apply every layer that this kernel offers, permanently. Return the listener for the broker of a task whose `sockets` are
    brokered, 0 otherwise. If the kernel refuses that, the sockets are open with `or_open`, else `CannotConfine` is raised. A task
    with network reaches `addresses`. Without `landlock` it behaves like a kernel without Landlock."""
    listener = 0
    if LINUX:
        _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if landlock:
            _landlock(readable, writable)
        filtered = system_calls.install(sockets)
        if sockets == "brokered" and filtered is None:
            if not or_open:
                raise CannotConfine("network is not allowed here: the kernel cannot keep this task away from the runtime's port")
            filtered = system_calls.install("open")
        if sockets == "none" and filtered is None:
            _libc.unshare(_CLONE_NEWNET) and _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
        system_calls.drop_capabilities()
        listener = filtered or 0
    sys.addaudithook(_auditor(sockets, addresses))
    return listener


def confine_broker(tasks: int) -> None:
    """Confine the broker of a task's sockets: any socket, but no process, no capability, and no files but Python's."""
    limit_resources(tasks)
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _landlock([sys.prefix, sys.base_prefix, sys.exec_prefix], [])
    system_calls.install("open")
    system_calls.drop_capabilities()


_SYSTEM: Final = (
    "/usr", "/lib", "/lib64", "/opt/lib", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/localtime", "/etc/mime.types",
    "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ld.so.cache", "/dev/urandom", "/dev/random", "/dev/zero",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/sys/fs/cgroup",
)  # fmt: skip


def has_landlock() -> bool:
    """Return whether this kernel can restrict the file system of a process."""
    return LINUX and _landlock_version() >= 1


def _landlock_version() -> int:
    return int(_libc.syscall(ctypes.c_long(444), None, ctypes.c_size_t(0), ctypes.c_uint32(1)))


def _landlock(readable: Iterable[str], writable: Iterable[str]) -> bool:
    """Restrict the file system to the listed folders; return False if this kernel has no Landlock."""
    version = _landlock_version()
    if version < 1:
        return False
    read_file, read_dir, execute = 1 << 2, 1 << 3, 1
    everything = (1 << 13) - 1 | (1 << 13 if version >= 2 else 0) | (1 << 14 if version >= 3 else 0)
    ruleset = _libc.syscall(ctypes.c_long(444), struct.pack("=Q", everything), ctypes.c_size_t(8), ctypes.c_uint32(0))
    if ruleset < 0:
        return False
    on_files = execute | 1 << 1 | read_file | (everything & 1 << 14)
    rules = [(p, execute | read_file | read_dir) for p in (*_SYSTEM, *readable)]
    rules += [(p, everything) for p in (*writable, "/dev/null")]
    for path, access in rules:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # not on this machine
        allowed = access if os.path.isdir(path) else access & on_files
        _libc.syscall(
            ctypes.c_long(445), ctypes.c_int(ruleset), ctypes.c_int(1), struct.pack("=Qi", allowed, handle), ctypes.c_uint32(0)
        )
        os.close(handle)
    done = _libc.syscall(ctypes.c_long(446), ctypes.c_int(ruleset), ctypes.c_uint32(0)) == 0
    os.close(ruleset)
    return bool(done)


_PROCESS_EVENTS: Final = frozenset(
    [
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.exec",
        "os.system",
        "subprocess.Popen",
        "pty.spawn",
        "os.startfile",
    ]
)
_CONNECTING: Final = frozenset(["socket.connect", "socket.sendto", "socket.sendmsg"])
_NO_NETWORK: Final = "a python task has no network: declare it with spec.network: true"


def _auditor(sockets: Sockets, addresses: Addresses) -> Callable[[str, tuple[Any, ...]], None]:
    """Return the audit hook, which refuses with an explanation."""
    unix = 1

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event in _PROCESS_EVENTS:
            raise PermissionError(f"a python task cannot start processes ({event})")
        if not event.startswith("socket."):
            return
        if sockets == "none" and (event == "socket.getaddrinfo" or (event == "socket.__new__" and args[1] != unix)):
            raise PermissionError(_NO_NETWORK)
        if event in _CONNECTING and isinstance(args[1], tuple):
            why = addresses.why_refused(str(args[1][0]), args[1][1])
            if why is not None:
                raise PermissionError(why)

    return audit
