"""`kind: python` with network: the addresses that its code cannot reach, by any system call.

The tasks use the C library and the kernel's calls themselves. Listeners on every address of this machine record what arrives.
"""

from __future__ import annotations

import os
import select
import socket
from errno import EAFNOSUPPORT, EBUSY, EINVAL, ENOSYS, EOPNOTSUPP, EPERM
from pathlib import Path

import pytest

from tests.unit.tools.network_listeners import ALLOWED, CONNECTED, RAW, Listeners, allowed, listeners
from tests.unit.tools.python_calls import Python, lines, linux, python, tool

__all__ = ["allowed", "lines", "listeners", "python", "tool"]
pytestmark = linux

ATTEMPTS = """
STREAM, DATAGRAM, FASTOPEN = socket.SOCK_STREAM, socket.SOCK_DGRAM, 0x20000000
def attempts(host, port, allowed, allowed_port):
    to, elsewhere = packed(host, port), packed(allowed, allowed_port)
    def connected(kind, first=None, *, blocking=False):
        sock = new(host, kind, blocking)
        if first is not None:
            libc.connect(sock.fileno(), first, len(first))
        return sock
    yield "connect", tried(libc.connect, connected(STREAM).fileno(), to, len(to))
    yield "connect and wait", tried(libc.connect, connected(STREAM, blocking=True).fileno(), to, len(to))
    yield "by the kernel's call", tried(libc.syscall, 42 if x86 else 203, connected(STREAM).fileno(), to, len(to))
    sock = connected(STREAM)
    yield "fast open", tried(libc.sendto, sock.fileno(), b"GET / ", 6, FASTOPEN, to, len(to))
    header, keep = message(to)
    yield "fast open, sendmsg", tried(libc.sendmsg, connected(STREAM).fileno(), header, FASTOPEN)
    yield "fast open, sendmmsg", tried(libc.sendmmsg, connected(STREAM).fileno(), header, 1, FASTOPEN)
    sock = connected(STREAM)
    try:
        sock.setsockopt(6, 30, 1)  # TCP_FASTOPEN_CONNECT
        sock.setsockopt(6, 34, 1)  # TCP_FASTOPEN_NO_COOKIE
    except OSError:
        pass
    yield "deferred connect", tried(libc.connect, sock.fileno(), to, len(to))
    libc.send(sock.fileno(), b"x", 1, 0)
    if family_of(host) == socket.AF_INET:
        sock = connected(STREAM, elsewhere)
        unspecified = bytes(16)
        libc.connect(sock.fileno(), unspecified, 16)
        yield "connect anew", tried(libc.connect, sock.fileno(), to, len(to))
        sock = connected(DATAGRAM, elsewhere)
        yield "connect a datagram socket anew", tried(libc.connect, sock.fileno(), to, len(to))
        yield "sendto when connected", tried(libc.sendto, connected(DATAGRAM, elsewhere).fileno(), b"x", 1, 0, to, 16)
        odd = packed(host, port, 0)
        yield "family 0", tried(libc.sendto, connected(DATAGRAM).fileno(), b"x", 1, 0, odd, 16)
        header, keep = message(odd)
        yield "family 0, sendmsg", tried(libc.sendmsg, connected(DATAGRAM).fileno(), header, 0)
    sock = connected(DATAGRAM)
    yield "datagram, connect", tried(libc.connect, sock.fileno(), to, len(to))
    libc.send(sock.fileno(), b"x", 1, 0)
    os.set_blocking(sock.fileno(), True)
    yield "sendto", tried(libc.sendto, sock.fileno(), b"x", 1, 0, to, len(to))
    header, keep = message(to)
    yield "sendmsg", tried(libc.sendmsg, sock.fileno(), header, 0)
    yield "sendmmsg", tried(libc.sendmmsg, sock.fileno(), header, 1, 0)
    both = ctypes.create_string_buffer(message(elsewhere)[0].raw[:64] + header.raw[:64])
    if family_of(host) == family_of(allowed):
        header, keep = message(elsewhere)
        second, keep_too = message(to)
        both = ctypes.create_string_buffer(header.raw[:64] + second.raw[:64])
        sent, _ = tried(libc.sendmmsg, sock.fileno(), both, 2, 0)
        yield "the second of two messages", [sent - 2, 1]
    if family_of(host) == socket.AF_INET:
        for form in ("::ffff:", "::", "64:ff9b::"):
            six = packed(form + host, port)
            yield form, tried(libc.connect, new("::", STREAM).fileno(), six, len(six))
            mapped = new("::", DATAGRAM)
            mapped.setsockopt(41, 26, 0)
            yield form + " datagram", tried(libc.sendto, mapped.fileno(), b"x", 1, 0, six, len(six))
"""


def own_addresses() -> list[str]:
    """Addresses of this machine other than loopback."""
    found = []
    for family, far in ((socket.AF_INET, "192.0.2.200"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            try:
                sock.connect((far, 9))
            except OSError:
                continue
            found.append(str(sock.getsockname()[0]))
    return found


REFUSED = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "224.0.0.1",
]


def all_attempts(python: Python, host: str, port: int, allowed_port: int, code: str = "") -> dict[str, list[int]]:
    code = f"{RAW}{ATTEMPTS}{code}\nresult = dict(attempts({host!r}, {port}, {ALLOWED!r}, {allowed_port}))"
    outcome = python(code, spec={"network": True}, timeout_s=30)
    assert outcome.error is None, outcome.error
    found: dict[str, list[int]] = outcome.result
    return found


@pytest.mark.parametrize("host", [*REFUSED, *own_addresses()])
def test_no_call_reaches_an_address_that_is_out_of_bounds(
    python: Python, listeners: Listeners, allowed: Listeners, host: str
) -> None:
    found = all_attempts(python, host, listeners.port, allowed.port)
    assert len(found) >= 11
    assert {errno for _, errno in found.values()} <= {EPERM, EAFNOSUPPORT, EOPNOTSUPP, EINVAL}, found
    assert {name: result for name, result in found.items() if result[0] >= 0} == {}
    assert listeners.settled() == []


def test_the_port_of_the_runtime_is_refused_where_loopback_is_allowed(
    python: Python, listeners: Listeners, allowed: Listeners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", "1")
    monkeypatch.setenv("AWS_LAMBDA_RUNTIME_API", f"127.0.0.1:{listeners.port}")
    monkeypatch.setenv("NOETL_PYTHON_NETWORK", "1")
    for host in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", *own_addresses()):
        found = all_attempts(python, host, listeners.port, allowed.port)
        assert {name: result for name, result in found.items() if result[0] >= 0} == {}, host
    assert listeners.settled() == []
    assert python(f"{CONNECTED}result = connected('127.0.0.1', {allowed.port})", spec={"network": True}).result == "127.0.0.1"


@pytest.mark.parametrize("seconds", [0.7, pytest.param(4, marks=pytest.mark.nightly)])
def test_an_address_that_changes_while_it_is_checked_is_not_reached(
    python: Python, listeners: Listeners, allowed: Listeners, seconds: float
) -> None:
    """Another thread writes the address of the runtime over the allowed one while the call is judged."""
    code = f"""{RAW}
good, bad = packed({ALLOWED!r}, {allowed.port}), packed("127.0.0.1", {listeners.port})
name = ctypes.create_string_buffer(good, 16)
header, keep = message(good)
ended = False
def change():
    while not ended:
        for address in (bad, good):
            ctypes.memmove(name, address, 16)
            ctypes.memmove(keep[2], address, 16)
threading.Thread(target=change).start()
counts = {{"refused": 0, "made": 0}}
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        kept.clear()
        with new({ALLOWED!r}, kind, True) as sock:
            made = libc.connect(sock.fileno(), name, 16)
            counts["made" if made == 0 else "refused"] += 1
            if kind == socket.SOCK_DGRAM:
                libc.connect(sock.fileno(), bytes(16), 16)
                libc.sendmsg(sock.fileno(), header, 0)
                libc.sendto(sock.fileno(), b"x", 1, 0, name, 16)
ended = True
result = counts
"""
    outcome = python(code, spec={"network": True}, timeout_s=30)
    assert outcome.error is None, outcome.error
    assert outcome.result["refused"] > 0 and outcome.result["made"] > 0, "the address must change meanwhile"
    assert allowed.settled()
    assert listeners.settled() == []


def test_other_sockets_than_those_of_tcp_and_udp_are_refused(python: Python) -> None:
    """By family, kind and protocol: Unix, netlink, vsock, packets, raw ones, SCTP, DCCP, MPTCP, TIPC, SMC, Bluetooth, algorithms."""
    code = f"""{RAW}
wanted = [(1, 1, 0), (1, 2, 0), (1, 5, 0), (16, 3, 0), (40, 1, 0), (40, 2, 0), (17, 3, 768), (2, 3, 255), (2, 3, 1), (2, 2, 1), (10, 2, 58), (10, 3, 255),
          (2, 1, 132), (2, 5, 132), (2, 6, 33), (2, 1, 262), (2, 2, 136), (30, 1, 0), (30, 5, 0), (43, 1, 0), (31, 3, 0), (38, 5, 0),
          (2, 10, 0), (24, 2, 0), (21, 5, 0), (44, 3, 0)]
result = [[wanted[n], tried(libc.socket, *wanted[n])] for n in range(len(wanted))]
pair = (ctypes.c_int * 2)()
for family, kind in ((1, 2), (1, 5), (30, 1), (30, 5), (2, 1)):
    result.append([["pair", family, kind], tried(libc.socketpair, family, kind, 0, pair)])
result.append(["io_uring", tried(libc.syscall, 425, 8, bytes(120))])
result.append(["x32", tried(libc.syscall, 0x40000000 + 41, 2, 1, 0)] if x86 else ["x32", [-1, 1]])
"""
    outcome = python(code, spec={"network": True})
    assert outcome.error is None, outcome.error
    assert [what for what, (value, _) in outcome.result if value >= 0] == []


def test_a_pair_of_sockets_leads_to_no_other_process(python: Python, tmp_path: Path) -> None:
    """Ends of pairs are connected for good; files are not sent on them."""
    name = b"\0noetl-test-" + os.urandom(6).hex().encode()
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        other.bind(name)
        other.listen()
        datagrams.bind(name + b"d")
        code = f"""{RAW}
ours, theirs = socket.socketpair()
to, datagram = [struct.pack("=H", 1) + name for name in ({name!r}, {name + b"d"!r})]
header, keep = message(datagram)
files = struct.pack("=QiiiI", 20, 1, 1, theirs.fileno(), 0)
sending, keep_too = message(b"", control=files)
result = [tried(libc.connect, ours.fileno(), to, len(to)), tried(libc.sendto, ours.fileno(), b"x", 1, 0, datagram, len(datagram)),
          tried(libc.sendmsg, ours.fileno(), sending, 0)]
theirs.close()
result += [tried(libc.connect, ours.fileno(), to, len(to)), tried(libc.sendmsg, ours.fileno(), header, 0)]
"""
        for spec in ({"network": True}, {}):
            outcome = python(code, spec=spec)
            assert outcome.error is None, outcome.error
            assert [result[0] for result in outcome.result[:2]] == [-1, -1], spec
            assert [result[0] for result in outcome.result[3:]] == [-1, -1], spec
        assert python(code, spec={"network": True}).result[2][0] == -1
        assert select.select([other, datagrams], [], [], 0.1)[0] == []


def test_options_that_lead_packets_elsewhere_first_are_refused(python: Python) -> None:
    code = f"""{RAW}
four, six = socket.socket(), socket.socket(socket.AF_INET6)
route = bytes([131, 7, 4, 127, 0, 0, 1, 0])
result = [tried(libc.setsockopt, four.fileno(), 0, 4, route, 8), tried(libc.setsockopt, four.fileno(), 1, 6, struct.pack("i", 1), 4)]
for name in (54, 55, 57, 59, 6):
    result.append(tried(libc.setsockopt, six.fileno(), 41, name, bytes(24), 24))
allowed = tried(libc.setsockopt, four.fileno(), 6, 1, struct.pack("i", 1), 4)
result.append(allowed)
"""
    assert python(code, spec={"network": True}).result == [[-1, 1]] * 7 + [[0, 0]]


def test_processes_are_refused_as_without_network(python: Python) -> None:
    """No program that would connect by itself, no process that would not be filtered, no filter of the task's own that answers."""
    code = f"""{RAW}
import subprocess
def refused(function):
    try:
        function()
    except PermissionError:
        return [-1, 1]
    return [0, 0]
fork, vfork, execve, ptrace, unshare, setns = (57, 58, 59, 101, 272, 308) if x86 else (220, 220, 221, 117, 97, 268)
clone, seccomp, readv, pidfd_open, getfd = (56, 317, 310, 434, 438) if x86 else (220, 277, 270, 434, 438)
program = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FC00000))
fprog = struct.pack("@HP", 1, ctypes.addressof(program))
result = {{
    "bash": refused(lambda: subprocess.run(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9001"])),
    "curl": refused(lambda: os.execv("/usr/bin/curl", ["curl", "http://127.0.0.1:9001"])),
    "fork": tried(libc.fork), "vfork": tried(libc.vfork), "execve": tried(libc.execv, b"/bin/true", None),
    "clone": tried(libc.syscall, clone, 17, 0, 0, 0, 0), "clone with the files": tried(libc.syscall, clone, 0x400 | 17, 0, 0, 0, 0),
    "clone3": tried(libc.syscall, 435, bytes(88), 88),
    "ptrace": tried(libc.syscall, ptrace, 16, os.getppid(), 0, 0), "unshare": tried(libc.syscall, unshare, 0x40000000),
    "setns": tried(libc.syscall, setns, 3, 0), "memory of others": tried(libc.syscall, readv, os.getppid(), 0, 0, 0, 0, 0),
    "pidfd_open": tried(libc.syscall, pidfd_open, os.getppid(), 0), "pidfd_getfd": tried(libc.syscall, getfd, 3, 0, 0),
    "another group for the lender": tried(libc.setpgid, 0, 0), "session": tried(libc.setsid),
    "its own listener": tried(libc.syscall, seccomp, 1, 8, fprog),
}}
"""
    outcome = python(code, spec={"network": True})
    assert outcome.error is None, outcome.error
    assert outcome.result.pop("its own listener") == [-1, EBUSY]
    assert outcome.result.pop("clone3") == [-1, ENOSYS]
    assert {name: result for name, result in outcome.result.items() if result != [-1, EPERM]} == {}


def test_a_filter_that_the_task_adds_opens_nothing(python: Python, listeners: Listeners, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that allows everything, and one that asks a listener that nobody has."""
    monkeypatch.delenv("NOETL_HTTP_ALLOW_PRIVATE", raising=False)
    for action in (0x7FFF0000, 0x7FC00000):
        code = f"""{RAW}
calls = [(0x20, 0, 0, 0), (0x15, 0, 1, 42 if x86 else 203), (6, 0, 0, {action}), (6, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *call) for call in calls))
added = tried(libc.prctl, 22, 2, struct.pack("@HP", len(calls), ctypes.addressof(program)), 0, 0)
to = packed("127.0.0.1", {listeners.port})
result = [added, tried(libc.connect, new("127.0.0.1", 1, True).fileno(), to, 16)[0]]
"""
        assert python(code, spec={"network": True}).result == [[0, 0], -1]
    assert listeners.settled() == []
