"""A server that counts connections, and calls of the HTTP client that share them."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.calls.event_loop import EventLoop, LoopTask
from noetl_core.tools.http.client import IDLE_S, Connections, HttpClient
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke_evented
from noetl_core.tools.network.addresses import AddressPolicy
from tests.servers import serving

from .conftest import kind


class Server(ThreadingHTTPServer):
    """Answers once `together` requests are there at the same time; counts connections and what is there at once."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.barrier = threading.Barrier(1)
        self.connections = 0
        self.paths: Counter[str] = Counter()
        self.closes = False

    def together(self, many: int) -> None:
        self.barrier = threading.Barrier(many, timeout=20)

    def get_request(self) -> tuple[Any, Any]:
        self.connections += 1
        return super().get_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up, and waits that are broken off, are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.paths[self.path] += 1
        self.server.barrier.wait()
        body = b"x" * (100_000 if self.path == "/large" else 2)
        self.send_response(500 if self.path == "/large" else 200)
        if self.path == "/redirect":
            self.send_header("Location", "/elsewhere")
        if self.server.closes:
            self.send_header("Connection", "close")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as server:
        yield server
        server.barrier.abort()


@pytest.fixture
def tool() -> Iterator[HttpTool]:
    tool = HttpTool(AddressPolicy(allow_private=True))
    yield tool
    tool.close()


class Limited(Protocol):
    """Makes a tool and its client of at most `most` connections, each idle for at most `idle_s`."""

    def __call__(self, most: int, idle_s: float = IDLE_S) -> tuple[HttpTool, HttpClient]: ...


@pytest.fixture
def limited() -> Iterator[Limited]:
    with ExitStack() as closes:

        def make(most: int, idle_s: float = IDLE_S) -> tuple[HttpTool, HttpClient]:
            client = HttpClient(AddressPolicy(allow_private=True), most, idle_s)
            tool = HttpTool(client=client)
            closes.callback(tool.close)
            return tool, client

        yield make


def sockets(client: HttpClient) -> list[socket.socket]:
    """The open sockets of a client, on the loop that the last run used."""
    with EventLoop() as loop:
        kept = loop.kept(client, lambda: pytest.fail("the client has sent nothing"))
    assert isinstance(kept, Connections)
    return kept.open_sockets()


def base(server: Server, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{server.server_port}"


def calls(tool: HttpTool, *urls: str, **spec: Any) -> list[Outcome]:
    """The outcomes of calls that are all begun before any is waited for, on this thread."""
    spec = {"retry": 1, **spec}
    with EventLoop() as loop:
        tasks = [loop.start(invoke_evented(tool, ToolCall("http", {"url": url}, spec, timeout_s=20), loop)) for url in urls]
        while loop:
            loop.turn(0.5)
    return [outcome_of(task) for task in tasks]


def outcome_of(task: LoopTask) -> Outcome:
    if task.error is not None:
        raise task.error
    outcome: Outcome = task.result
    return outcome


def kinds(outcomes: list[Outcome]) -> Counter[str]:
    return Counter(map(kind, outcomes))
