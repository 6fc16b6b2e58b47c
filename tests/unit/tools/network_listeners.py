"""Listeners on every address of this machine, and code of tasks that calls the kernel itself."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest

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

CONNECTED = """
import socket
def connected(host, port):
    with socket.create_connection((host, port), 5) as sock:
        return sock.getpeername()[0]
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
