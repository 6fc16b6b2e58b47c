"""`kind: python` with network: which addresses its code reaches, by any system call, and what works as without a sandbox.

The tasks use the C library and the kernel's calls themselves. Listeners on every address of this machine record what arrives.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from errno import EAFNOSUPPORT, EBUSY, EINVAL, ENOSYS, EOPNOTSUPP, EPERM
from pathlib import Path
from typing import Any

import pytest

from noetl_core.tools.python.tool import NO_FILTER
from noetl_core.tools.sandbox import socket_broker
from tests.unit.tools.python_calls import Python, descendants, failure, lines, linux, processes, python, tool

__all__ = ["lines", "python", "tool"]
pytestmark = linux

ALLOWED = "127.0.0.9"
"""An address of this machine that the tests allow, beside those that they do not."""

RAW = """
import ctypes, os, platform, socket, struct, threading, time
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
def tried(function, *args):
    result = function(*args)
    return [result, ctypes.get_errno() if result < 0 else 0]
def packed(host, port, family=None):
    if ":" in host:
        return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + socket.inet_pton(socket.AF_INET6, host) + bytes(4)
    family = socket.AF_INET if family is None else family
    return struct.pack("=H", family) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)
def family_of(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET
kept = []
def new(host, kind, blocking=False):
    sock = socket.socket(family_of(host), kind)
    sock.setblocking(blocking)
    kept.append(sock)
    return sock
def message(name, data=b"x", control=b""):
    data = ctypes.create_string_buffer(data, len(data))
    pieces = ctypes.create_string_buffer(struct.pack("=QQ", ctypes.addressof(data), len(data)))
    to = ctypes.create_string_buffer(name, max(len(name), 1))
    more = ctypes.create_string_buffer(control, max(len(control), 1))
    parts = (ctypes.addressof(to) if name else 0, len(name), 0, ctypes.addressof(pieces), 1,
             ctypes.addressof(more) if control else 0, len(control), 0, 0)
    header = ctypes.create_string_buffer(struct.pack("=QIIQQQQiI", *parts) + bytes(8))
    return header, (data, pieces, to, more)
"""

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


class Listeners:
    """Sockets of TCP and UDP on one port of every address of this machine, and what reached them."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self.arrived: list[str] = []
        self.port = self._listen()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _listen(self) -> int:
        """Listen on a port that is free for both protocols: that of a stream may be taken for datagrams."""
        for _ in range(50):
            stream = self._bound(socket.SOCK_STREAM, 0)
            port = int(stream.getsockname()[1])
            try:
                datagrams = self._bound(socket.SOCK_DGRAM, port)
            except OSError:
                stream.close()
                continue
            stream.listen()
            self._sockets += [stream, datagrams]
            return port
        raise OSError("no port is free for both protocols")

    @staticmethod
    def _bound(kind: int, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET6, kind)
        try:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.bind(("::", port))
        except OSError:
            sock.close()
            raise
        return sock

    def _watch(self) -> None:
        while not self._ended.is_set():
            for sock in select.select(self._sockets, [], [], 0.02)[0]:
                if sock.type == socket.SOCK_STREAM:
                    peer, _ = sock.accept()
                    self.arrived.append(f"connection to {peer.getsockname()[0]}")
                    peer.close()
                else:
                    self.arrived.append(f"datagram from {sock.recvfrom(100)[1][0]}")

    def settled(self) -> list[str]:
        """Return the messages that arrived so far. A message to itself marks the end."""
        last = "::ffff:127.0.0.55"
        with socket.socket() as stream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            for sock in (stream, datagrams):
                sock.bind(("127.0.0.55", 0))
            stream.connect(("127.0.0.55", self.port))
            datagrams.sendto(b"", ("127.0.0.55", self.port))
            deadline = time.monotonic() + 30
            while sum(last in what for what in self.arrived) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.005)
        return [what for what in self.arrived if last not in what]

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for sock in self._sockets:
            sock.close()


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    found = Listeners()
    yield found
    found.close()


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listeners]:
    """A listener that the policy allows, with `ALLOWED`."""
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", f"{ALLOWED}/32")
    found = Listeners()
    yield found
    found.close()


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


CONNECTED = """
import socket
def connected(host, port):
    with socket.create_connection((host, port), 5) as sock:
        return sock.getpeername()[0]
"""


def test_an_address_that_changes_while_it_is_checked_is_not_reached(
    python: Python, listeners: Listeners, allowed: Listeners
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
until = time.monotonic() + 2
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


# --- what works ---------------------------------------------------------------------------------------------------------------


def test_a_connection_to_an_allowed_address_works_by_every_call(python: Python, allowed: Listeners) -> None:
    code = f"""{RAW}
host, port = {ALLOWED!r}, {allowed.port}
to = packed(host, port)
with socket.socket() as sock:
    sock.settimeout(5)
    sock.connect((host, port))
    peer = sock.getpeername()
with socket.socket() as sock:
    sock.setblocking(False)
    started = sock.connect_ex((host, port))
    import select
    select.select([], [sock], [], 5)
    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
with socket.socket() as sock:
    direct = tried(libc.connect, sock.fileno(), to, len(to))
    again = tried(libc.connect, sock.fileno(), to, len(to))
mapped = packed("::ffff:" + host, port)
with socket.socket(socket.AF_INET6) as sock:
    six = tried(libc.connect, sock.fileno(), mapped, len(mapped))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    header, keep = message(to, b"three")
    plain, keep_too = message(b"", b"five!")
    datagrams = [sock.sendto(b"one", (host, port)), sock.sendmsg([b"t", b"wo"], [], 0, (host, port)), tried(libc.sendmmsg, sock.fileno(), header, 1, 0)]
    written = struct.unpack("=I", header.raw[56:60])[0]
    sock.connect((host, port))
    datagrams += [sock.send(b"four"), tried(libc.sendmsg, sock.fileno(), plain, 0)]
result = [peer, started, error, direct, again, six, datagrams, written]
"""
    outcome = python(code, spec={"network": True})
    assert outcome.error is None, outcome.error
    peer, started, error, direct, again, six, datagrams, written = outcome.result
    assert peer == [ALLOWED, allowed.port]
    assert (started, error, direct, again, six) == (115, 0, [0, 0], [-1, 106], [0, 0])
    assert (datagrams, written) == ([3, 3, [1, 0], 4, [5, 0]], 5)
    arrived = allowed.settled()
    assert sorted(arrived) == [f"connection to ::ffff:{ALLOWED}"] * 4 + ["datagram from ::ffff:127.0.0.1"] * 5


def test_errors_are_those_of_the_kernel(python: Python, allowed: Listeners) -> None:
    with socket.socket() as closed:
        closed.bind((ALLOWED, 0))
        port = closed.getsockname()[1]
        code = f"""{RAW}
to = packed({ALLOWED!r}, {port})
sock = socket.socket()
with open("file", "wb") as file:
    result = [tried(libc.connect, sock.fileno(), to, len(to)), tried(libc.connect, 200, to, len(to)),
              tried(libc.connect, file.fileno(), to, len(to)), tried(libc.connect, sock.fileno(), to, 3),
              tried(libc.connect, sock.fileno(), ctypes.c_void_p(8), 16), tried(libc.connect, sock.fileno(), to, 4000),
              tried(libc.connect, sock.fileno(), ctypes.c_void_p(-4096), 16), tried(libc.sendmsg, sock.fileno(), ctypes.c_void_p(8), 0)]
"""
        refused, none, file, short, bad, long, high, message = [errno for _, errno in python(code, spec={"network": True}).result]
    assert (refused, none, file, bad, high, message) == (111, 9, 88, 14, 14, 14)
    assert short in (22, 97) and long == 22


ASYNC = """
import asyncio
async def main():
    reader, writer = await asyncio.open_connection({host!r}, {port})
    pieces = [bytes([n]) * 100_000 for n in range(30)]
    writer.writelines(pieces)
    await writer.drain()
    writer.write_eof()
    back = await reader.read()
    writer.close()
    return [len(back), back == b"".join(pieces)]
"""


def echo(ready: list[int], connections: int) -> threading.Thread:
    """Echo the received bytes of `connections` connections, on the allowed address."""
    listener = socket.socket()
    listener.bind((ALLOWED, 0))
    listener.listen()
    ready.append(listener.getsockname()[1])

    def serve() -> None:
        with listener:
            for _ in range(connections):
                peer, _ = listener.accept()
                with peer:
                    data = bytearray()
                    while piece := peer.recv(1 << 16):
                        data += piece
                    peer.sendall(data)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_asyncio_connects_and_sends_much(python: Python, allowed: Listeners) -> None:
    ports: list[int] = []
    server = echo(ports, 1)
    assert python(ASYNC.format(host=ALLOWED, port=ports[0]), spec={"network": True}, timeout_s=30).result == [3_000_000, True]
    server.join()


def test_a_long_message_is_sent_in_parts(python: Python, allowed: Listeners) -> None:
    ports: list[int] = []
    server = echo(ports, 1)
    code = f"""
import socket
sock = socket.create_connection(({ALLOWED!r}, {ports[0]}))
data = bytes(range(256)) * 20_000
sent = 0
parts = 0
while sent < len(data):
    sent += sock.sendmsg([data[sent : sent + 1_000_000], data[sent + 1_000_000 :]])
    parts += 1
sock.shutdown(socket.SHUT_WR)
back = bytearray()
while piece := sock.recv(1 << 20):
    back += piece
result = [parts > 1, back == data]
"""
    assert python(code, spec={"network": True}, timeout_s=30).result == [True, True]
    server.join()


@pytest.mark.parametrize("client", ["urllib.request", "httpx", "aiohttp", "psycopg"])
def test_libraries_connect_to_allowed_addresses_and_to_no_others(
    python: Python, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    """Those of Python, and one in C (`libpq`)."""
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", f"{ALLOWED}/32")
    listener = socket.socket()
    listener.bind(("0.0.0.0", 0))
    listener.listen()
    port = listener.getsockname()[1]
    arrived: list[str] = []

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                arrived.append(peer.getsockname()[0])
                peer.recv(1000)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    thread = threading.Thread(target=serve)
    thread.start()
    code = {
        "urllib.request": "import urllib.request\ndef get(host): return urllib.request.urlopen(f'http://{host}:{port}/', timeout=5).read().decode()",
        "httpx": "import httpx\ndef get(host): return httpx.get(f'http://{host}:{port}/').text",
        "aiohttp": """
import aiohttp, asyncio
async def fetched(url):
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()
def get(host): return asyncio.run(fetched(f"http://{host}:{port}/"))""",
        "psycopg": """
import psycopg
def get(host):
    try:
        psycopg.connect(f"host={host} port={port} sslmode=disable connect_timeout=5")
    except psycopg.OperationalError as error:
        if "unexpected" in str(error) or "expected authentication" in str(error) or "closed the connection" in str(error):
            return "ok"
        raise""",
    }[client]
    code = f"port = {port}\n{code}\nresult = get(host)"
    try:
        outcome = python(code, spec={"network": True}, timeout_s=30, host=ALLOWED)
        assert outcome.error is None, outcome.error
        assert outcome.result == "ok"
        assert arrived == [ALLOWED]
        assert failure(python(code, spec={"network": True}, timeout_s=30, host="127.0.0.1")) == "python"
        assert arrived == [ALLOWED]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


class NameServer(threading.Thread):
    """Answers every question for an IPv4 address with `ALLOWED`, others with nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((ALLOWED, 0))
        self.port = self.sock.getsockname()[1]
        self.questions = 0

    def run(self) -> None:
        while True:
            question, sender = self.sock.recvfrom(512)
            if not question:
                return
            self.questions += 1
            end = question.index(0, 12) + 5
            is_a = question[end - 4 : end - 2] == b"\0\1"
            head = question[:2] + b"\x81\x80" + struct.pack("!HHHH", 1, int(is_a), 0, 0)
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + socket.inet_aton(ALLOWED) if is_a else b""
            self.sock.sendto(head + question[12:end] + answer, sender)

    def end(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", (ALLOWED, self.port))
        self.join()
        self.sock.close()


def test_names_are_resolved_by_the_c_library(python: Python, allowed: Listeners) -> None:
    """With its own calls (`connect`, `sendmmsg`), to the name servers of this machine. Their port cannot be chosen: the resolver of
    the task's C library is told another."""
    server = NameServer()
    server.start()
    code = f"""
import ctypes, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.__res_init()
libc.__res_state.restype = ctypes.POINTER(ctypes.c_char * 512)
state = libc.__res_state().contents
struct.pack_into("=i", state, 16, 1)
state[20:36] = struct.pack("=H", 2) + struct.pack("!H", {server.port}) + socket.inet_aton({ALLOWED!r}) + bytes(8)
found = socket.getaddrinfo("somewhere.example", {allowed.port}, type=socket.SOCK_STREAM)
result = [[entry[4][0] for entry in found], socket.create_connection(("somewhere.example", {allowed.port}), 5).getpeername()]
"""
    try:
        outcome = python(code, spec={"network": True}, timeout_s=30)
    finally:
        server.end()
    assert outcome.error is None, outcome.error
    assert outcome.result == [[ALLOWED], [ALLOWED, allowed.port]]
    assert server.questions >= 2


# --- kernels and processes ----------------------------------------------------------------------------------------------------


def test_on_lambda_network_takes_a_kernel_that_can_refuse_addresses(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")
    monkeypatch.setenv("NOETL_PYTHON_NETWORK", "1")
    assert python("result = 1", spec={"network": True}).result == 1
    monkeypatch.setattr("noetl_core.tools.python.tool.can_broker", lambda: False)
    outcome = python("result = 2", spec={"network": True})
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message, outcome.error.retryable) == ("auth", NO_FILTER, False)


def test_elsewhere_such_a_kernel_leaves_refusing_to_python(
    python: Python, listeners: Listeners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOETL_HTTP_ALLOW_PRIVATE", raising=False)
    monkeypatch.setattr("noetl_core.tools.python.tool.can_broker", lambda: False)
    code = f"{CONNECTED}result = connected('127.0.0.1', {listeners.port})"
    assert "this machine is out of bounds" in str(python(code, spec={"network": True}).error)
    by_c = f"{RAW}to = packed('127.0.0.1', {listeners.port})\nresult = tried(libc.connect, new('127.0.0.1', 1, True).fileno(), to, 16)"
    assert python(by_c, spec={"network": True}).result == [0, 0]


LISTENED_TO = """
import ctypes, os, struct, sys
from noetl_core.tools.sandbox.system_calls import CALLS
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
program = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000))
listener = libc.syscall(CALLS["seccomp"], 1, 8, struct.pack("@HP", 1, ctypes.addressof(program)))
assert listener >= 0
from noetl_core.tools.base import ToolCall
from noetl_core.tools.python.tool import PythonTool
tool = PythonTool()
for code, spec in (("import socket; result = str(socket.socket().type)", {"network": True}), ("result = 1", {})):
    outcome = tool.run(ToolCall("python", {"code": code}, spec))
    print(outcome.result, outcome.error and outcome.error.message, sep=";")
tool.close()
"""


@pytest.mark.parametrize("on_lambda", [False, True])
def test_where_the_kernel_refuses_the_filter_network_is_refused_on_lambda(on_lambda: bool) -> None:
    """As in a container whose manager listens to system calls itself: a process has one listener only."""
    env = {**os.environ, "NOETL_PYTHON_NETWORK": "1", **({"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001"} if on_lambda else {})}
    done = subprocess.run([sys.executable, "-c", LISTENED_TO], capture_output=True, text=True, check=False, env=env)
    with_network, without = done.stdout.splitlines()
    assert without == "1;None", done.stderr
    if on_lambda:
        assert with_network.startswith("None;") and "cannot keep this task away from the runtime's port" in with_network
    else:
        assert with_network == f"{socket.SOCK_STREAM};None"


def test_the_processes_of_a_task_end_with_it(python: Python, tool: Any) -> None:
    """By itself, by its timeout, by a signal, and when it closes whatever it has open."""
    python("result = 1")
    server = tool._ready()._fork_server._process.pid
    before = descendants(server)
    endings = [
        "import os; os._exit(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import time; time.sleep(60)",
        "import os; os.closerange(0, 256)",
        "import ctypes, os; ctypes.CDLL(None).prctl(1, 0, 0, 0, 0); os._exit(4)",
    ]
    for code in endings:
        assert python(code, spec={"network": True}, timeout_s=1).error is not None
    deadline = time.monotonic() + 5
    while len(descendants(server)) > len(before) + 4:  # one runner may wait, with its broker and its lender
        assert time.monotonic() < deadline
        time.sleep(0.05)
    zombies = [p for p in descendants(server) if Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"]
    assert zombies == []


def test_a_task_that_interferes_with_its_broker_gains_nothing(python: Python, listeners: Listeners, allowed: Listeners) -> None:
    """It floods the lender's socket, takes the broker's requests from it, closes it, and floods the broker with calls and threads."""
    code = f"""{RAW}
to, good = packed("127.0.0.1", {listeners.port}), packed({ALLOWED!r}, {allowed.port})
open_files = [int(n) for n in os.listdir("/proc/self/fd") if int(n) > 2 and os.path.exists(f"/proc/self/fd/{{n}}")]
result = {{"files": len(open_files)}}
unix = []
for n in open_files:
    found = socket.socket(fileno=os.dup(n))
    if found.type == socket.SOCK_SEQPACKET:
        unix.append(found)
        number = n
    else:
        found.detach()
(lender,) = unix
def many(function, seconds):
    threads = [threading.Thread(target=function, args=(time.monotonic() + seconds,)) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
outcomes = set()
def refused(until):
    while time.monotonic() < until:
        sock = new("127.0.0.1", 1)
        kept.clear()
        outcomes.add(tuple(tried(libc.connect, sock.fileno(), to, 16)))
        sock.close()
many(refused, 1)
def flood(until):
    while time.monotonic() < until:
        try:
            lender.send(b"F" * 60_000, socket.MSG_DONTWAIT)
        except OSError:
            pass
def steal(until):
    while time.monotonic() < until:
        try:
            lender.recv(100, socket.MSG_DONTWAIT)
        except OSError:
            pass
for disturb in (flood, steal):
    other = threading.Thread(target=many, args=(disturb, 1))
    other.start()
    many(refused, 0.5)
    other.join()
result["refused"] = sorted(outcomes)
sock = new({ALLOWED!r}, 1, True)
result["after"] = tried(libc.connect, sock.fileno(), good, 16)
lender.close()
os.close(number)
result["closed"] = tried(libc.connect, new("127.0.0.1", 1).fileno(), to, 16)[0]
"""
    outcome = python(code, spec={"network": True}, timeout_s=60)
    assert outcome.error is None, outcome.error
    assert all(value == -1 for value, _ in outcome.result["refused"])
    assert outcome.result["files"] == 2, "the socket to the worker, and that of the lender"
    assert outcome.result["after"] == [0, 0], "the task's own doing ends with it"
    assert outcome.result["closed"] == -1
    assert listeners.settled() == []
    assert python("result = 1", spec={"network": True}).result == 1


def test_the_broker_holds_nothing_of_a_task_open(python: Python, allowed: Listeners) -> None:
    """A connection ends for the other side when the task closes it, not when the task ends."""
    listener = socket.socket()
    listener.bind((ALLOWED, 0))
    listener.listen()
    listener.settimeout(30)
    code = f"""
import socket
first, second = [socket.create_connection(({ALLOWED!r}, {listener.getsockname()[1]})) for _ in range(2)]
first.sendmsg([b"hello"])
first.close()
result = second.recv(1)[:0].decode()
"""
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(python(code, spec={"network": True}, timeout_s=60)))
    thread.start()
    (first, _), (second, _) = listener.accept(), listener.accept()
    with first, second, listener:
        first.settimeout(30)
        assert first.recv(100) == b"hello"
        assert first.recv(100) == b""
    thread.join()
    assert outcomes[0].error is None


def test_nothing_of_the_runner_can_be_reached_by_another_process(python: Python) -> None:
    """It stays as closed as one without network: its memory is the broker's, and it cannot be traced."""
    code = "import ctypes, os\nresult = [ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), os.getpid()]"
    assert python(code, spec={"network": True}).result[0] == 0


def test_a_process_that_is_not_dumpable_opens_its_own_memory() -> None:
    """As a user without rights, for whom it must be dumpable for a moment; afterwards it is as closed as before."""
    from noetl_core.tools.sandbox import confine

    pid = os.fork()
    if not pid:
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            confine.not_dumpable()
            try:
                os.close(os.open("/proc/self/mem", os.O_RDWR))
                os._exit(1)
            except PermissionError:
                os.close(confine.open_own_memory())
            os._exit(int(confine._libc.prctl(3, 0, 0, 0, 0)))
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_worker_that_is_killed_leaves_nothing_of_a_task_with_network() -> None:
    code = """
import os, signal
from noetl_core.tools.base import ToolCall
from noetl_core.tools.python.tool import PythonTool
from tests.unit.tools.python_calls import descendants
tool = PythonTool()
assert tool.run(ToolCall("python", {"code": "result = 1"}, {"network": True})).result == 1
print(*descendants(os.getpid()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.split()
    assert len(said) == 4, "the fork server, the runner, its broker and its lender"
    deadline = time.monotonic() + 5
    while any(int(pid) in processes() for pid in said):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_calls_that_the_broker_cannot_read_get_an_error(allowed: Listeners) -> None:
    """Whatever the arguments are, the broker answers."""
    import random

    choice = random.Random(7)
    memory = os.open("/proc/self/mem", os.O_RDWR)
    from noetl_core.tools.sandbox.addresses import Addresses
    from noetl_core.tools.sandbox.system_calls import CALLS

    assert CALLS is not None
    values = [0, 1, 2, 16, 1 << 31, (1 << 32) - 1, 1 << 47, (1 << 63) - 1, (1 << 64) - 1]
    failures = 0
    for _ in range(2000):
        with socket.socket(socket.AF_INET, choice.choice([socket.SOCK_STREAM, socket.SOCK_DGRAM])) as sock:
            arguments = [choice.choice(values) for _ in range(6)]
            call = socket_broker._Call(
                sock, CALLS[choice.choice(["connect", "sendto", "sendmsg", "sendmmsg"])], arguments, memory, Addresses()
            )
            try:
                call.make()
            except OSError:
                failures += 1
    os.close(memory)
    assert failures > 1000


def test_rules_are_kept_as_json() -> None:
    from noetl_core.tools.network.addresses import AddressPolicy
    from noetl_core.tools.sandbox.addresses import Addresses

    rules = AddressPolicy(refused_endpoints=frozenset({("127.0.0.1", 9001)})).as_rules()
    assert Addresses.from_plain(json.loads(json.dumps(rules.as_plain()))).rules == rules.rules
