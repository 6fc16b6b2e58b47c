"""What confines the code of a task: limits, capabilities, seccomp, Landlock, audit hook. It cannot be undone; the runner
calls it before any code of an author.

The guarantees depend on the kernel, and each layer is independent:

* resource limits (everywhere): address space, processor time, file size, open files, no core dumps.
* seccomp (Linux on x86-64 and arm64): no process, no `exec`, no signal to others, no `ptrace`, no io_uring, and - unless the
  task declared network - no socket. Where it is refused, a network namespace of its own is tried.
* Landlock (Linux 5.13 and later; not on Lambda): only the Python installation, libraries and the task's scratch folder can be
  reached. Without it the code may reach what the user of the worker may: then the pool keeps nothing of one execution while a
  task of another runs, and data that hostile code must not see belongs to the worker of another pool.
* audit hook (everywhere): the same refusals, with explanations; with network, also link-local addresses and this machine's. It is
  not a barrier against hostile code, and a filter of system calls does not see addresses: on Lambda, where the runtime's port
  is on this machine, tasks have network only if the operator allows it (`python.network_permitted`).

If neither seccomp nor a namespace is available, hostile code can reach the network and the worker's files: run such tasks in a
pool of their own, with a role without rights (docs/access.md).
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import re
import resource
import socket
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

LINUX: Final = sys.platform == "linux"
ENOSYS, EPERM = 38, 1
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 4, 38, 22
_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_THREAD = 0x10000000, 0x40000000, 0x10000

_X86: Final = {
    "arch": 0xC000003E, "socket": 41, "connect": 42, "clone": 56, "clone3": 435, "prlimit64": 302, "capset": 126,
    "own": (62, 234, 129, 297),  # kill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo
    # fork vfork execve tkill ptrace mount umount2 unshare setns process_vm_readv/writev kcmp bpf execveat userfaultfd
    # perf_event_open add_key request_key keyctl io_uring_setup pidfd_send_signal pidfd_open pidfd_getfd open_by_handle_at
    # shmget msgget semget mq_open
    "denied": (57, 58, 59, 200, 101, 165, 166, 272, 308, 310, 311, 312, 321, 322, 323, 298,
               248, 249, 250, 425, 424, 434, 438, 304, 29, 68, 64, 240),
}  # fmt: skip
_ARM: Final = {
    "arch": 0xC00000B7, "socket": 198, "connect": 203, "clone": 220, "clone3": 435, "prlimit64": 261, "capset": 91,
    "own": (129, 131, 138, 240),
    "denied": (221, 130, 117, 40, 39, 97, 268, 270, 271, 272, 280, 281, 282, 241,
               217, 218, 219, 425, 424, 434, 438, 265, 194, 186, 190, 180),
}  # fmt: skip
_CALLS: Final[dict[str, Any] | None] = {"x86_64": _X86, "aarch64": _ARM, "arm64": _ARM}.get(os.uname().machine) if LINUX else None

_libc: Final = ctypes.CDLL(None, use_errno=True)


def not_dumpable() -> None:
    """Close the memory and the `/proc` entry of this process to other processes of the same user."""
    if LINUX:
        _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


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


def confine(
    readable: Iterable[str],
    writable: Iterable[str],
    *,
    network: bool,
    refused_ports: Iterable[int] = (),
    loopback: bool = False,
    landlock: bool = True,
) -> None:
    """Apply every layer that this kernel offers, permanently. With network, `refused_ports` of this machine, link-local addresses
    and, without `loopback`, this machine's own are refused by the audit hook; without `landlock` it behaves like a kernel
    without Landlock."""
    if LINUX:
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if landlock:
            _landlock(readable, writable)
        filtered = _seccomp(network=network)
        if not network and not filtered:
            _libc.unshare(_CLONE_NEWNET) and _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
        _drop_capabilities()
    sys.addaudithook(_auditor(frozenset(refused_ports), network=network, loopback=loopback))


def _drop_capabilities() -> None:
    if _CALLS is not None:
        header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
        _libc.syscall(ctypes.c_long(_CALLS["capset"]), header, none)


def _seccomp(*, network: bool) -> bool:
    """Install the system call filter; False where this kernel or processor has none."""
    if _CALLS is None:
        return False
    program = b"".join(struct.pack("=HBBI", *op) for op in _filter(_CALLS, os.getpid(), network=network))
    buffer = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    return bool(_libc.prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(fprog), 0, 0) == 0)


def _filter(calls: dict[str, Any], pid: int, *, network: bool) -> list[tuple[int, int, int, int]]:
    """Return the BPF program: `(code, jump if true, jump if false, k)`."""
    load, equal, at_least, bit_set, ret = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, errno = 0x7FFF0000, 0x00050000
    nr, arch, first = 0, 4, 16
    ops = [(load, 0, 0, arch), (equal, 1, 0, calls["arch"]), (ret, 0, 0, 0x80000000), (load, 0, 0, nr)]
    ops += [(at_least, 0, 1, 0x40000000), (ret, 0, 0, errno | ENOSYS)]  # the x32 number of every call
    denied: Sequence[int] = (*calls["denied"], *(() if network else (calls["socket"], calls["connect"])))
    for call in denied:
        ops += [(equal, 0, 1, call), (ret, 0, 0, errno | EPERM)]
    ops += [
        (equal, 0, 1, calls["clone3"]),
        (ret, 0, 0, errno | ENOSYS),
    ]  # its flags cannot be inspected; the C library falls back to clone
    ops += [
        (equal, 0, 4, calls["clone"]),
        (load, 0, 0, first),
        (bit_set, 0, 1, _CLONE_THREAD),
        (ret, 0, 0, allow),
        (ret, 0, 0, errno | EPERM),
    ]
    for call in calls["own"]:
        ops += [(equal, 0, 4, call), (load, 0, 0, first), (equal, 0, 1, pid), (ret, 0, 0, allow), (ret, 0, 0, errno | EPERM)]
    ops += [(equal, 0, 5, calls["prlimit64"]), (load, 0, 0, first), (equal, 1, 0, 0), (equal, 0, 1, pid), (ret, 0, 0, allow),
            (ret, 0, 0, errno | EPERM)]  # fmt: skip
    return [*ops, (ret, 0, 0, allow)]


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
    """Restrict the file system to what is listed; return False where this kernel has no Landlock."""
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
_METADATA: Final = ("169.254.", "fd00:ec2:", "fe80:", "100.100.100.200", "168.63.129.16")


_CONNECTING: Final = frozenset(["socket.connect", "socket.sendto", "socket.sendmsg"])


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a text is, an IPv4 address where it is mapped; None for a name."""
    try:
        found = ipaddress.ip_address(socket.inet_ntoa(socket.inet_aton(host)) if ":" not in host else host.partition("%")[0])
    except (OSError, ValueError):
        return None
    mapped = getattr(found, "ipv4_mapped", None)
    return found if mapped is None else mapped


def _is_this_machine(address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    return address is not None and (address.is_loopback or address.is_unspecified)


_PUBLIC: Final = re.compile(r"(?!127\.|0+\.)[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")


def _auditor(refused_ports: frozenset[int], *, network: bool, loopback: bool = False) -> Any:
    """Return the audit hook, which refuses with an explanation."""
    unix = 1

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event in _PROCESS_EVENTS:
            raise PermissionError(f"a python task cannot start processes ({event})")
        if not event.startswith("socket."):
            return
        if not network and (event == "socket.getaddrinfo" or (event == "socket.__new__" and args[1] != unix)):
            raise PermissionError("a python task has no network: declare it with spec.network: true")
        if event in _CONNECTING and isinstance(args[1], tuple):
            host, port = str(args[1][0]).lower(), args[1][1]
            address = _address(host)
            if host.removeprefix("::ffff:").startswith(_METADATA) or (address is not None and address.is_link_local):
                raise PermissionError(f"the metadata service is out of bounds ({host})")
            if not loopback and port not in refused_ports and (host == "localhost" or _is_this_machine(address)):
                raise PermissionError(f"this machine is out of bounds ({host}:{port}): NOETL_HTTP_ALLOW_PRIVATE allows it")
            if port in refused_ports and not _PUBLIC.fullmatch(host):
                raise PermissionError(f"the platform's own endpoint is out of bounds ({host}:{port})")

    return audit
