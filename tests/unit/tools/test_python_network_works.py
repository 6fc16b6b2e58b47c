"""`kind: python` with network: calls to allowed addresses work as without a sandbox."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from tests.unit.tools.network_listeners import ALLOWED, RAW, Listeners, allowed, listeners
from tests.unit.tools.python_calls import Python, failure, lines, linux, python, tool

__all__ = ["allowed", "lines", "listeners", "python", "tool"]
pytestmark = linux


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
    """Opens sockets from Python, and one from C (`libpq`)."""
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


@pytest.mark.nightly
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
