"""Calls as the worker makes them, and a real HTTP server that misbehaves on request."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from noetl_core.adapters.local.database import MEMORY, Database
from noetl_core.adapters.local.events import SqliteEventStore
from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.registry import ToolRegistry
from noetl_core.worker.values.execution_view import Resolver
from noetl_core.worker.values.inputs import TaskReferences
from tests.databases import postgres
from tests.servers import serving

Run = Callable[..., Outcome]


def kind(outcome: Outcome) -> str:
    """The kind of its error, or `ok`."""
    return outcome.error.kind if outcome.error else "ok"


def message(outcome: Outcome) -> str:
    """Return the message of the outcome's error."""
    return outcome.error.message if outcome.error else ""


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    """Yield the URI of a database of the module."""
    with postgres() as found:
        yield found


@pytest.fixture(scope="session")
def registry() -> ToolRegistry:
    return ToolRegistry()


@pytest.fixture
def store() -> Iterator[LazyTempResultStore]:
    store = LazyTempResultStore()
    yield store
    store.close()


@pytest.fixture
def run(registry: ToolRegistry, store: LazyTempResultStore) -> Run:
    """`run(kind, inputs, spec=..., **fields of ToolCall)` -> outcome."""

    def run(kind: str, inputs: Mapping[str, Any], **fields: Any) -> Outcome:
        options = {
            "execution_id": "1",
            "step": "s",
            "task": "t",
            "task_run_id": "run-1",
            "timeout_s": 20.0,
            "results": store,
            **fields,
        }
        resolve = Resolver(SqliteEventStore(Database(MEMORY)), options["results"], options["execution_id"])
        options.setdefault("references", TaskReferences(options["task"], resolve, 64 * 1024 * 1024))
        return invoke(registry.get(kind), ToolCall(kind, inputs, **options))

    return run


class Server(ThreadingHTTPServer):
    """Remembers requests as `(method, path, headers, body)`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.failures = 0
        self.stopping = threading.Event()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **{k.replace("_", "-"): v for k, v in headers.items()}}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self, value: Any, status: int = 200, **headers: str) -> None:
        self.answer(status, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/count":
            self.count(int(self.headers["Content-Length"]))
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        name = parts.path.strip("/").replace("/", "_").replace("-", "_")
        getattr(self, "on_" + name, self.on_echo)({k: v[-1] for k, v in parse_qs(parts.query).items()}, body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = handle_any

    def on_echo(self, query: dict[str, str], body: bytes) -> None:
        self.json(
            {"method": self.command, "query": query, "body": body.decode("latin-1"), "headers": dict(self.headers)},
            X_Mixed_Case="Yes",
        )

    def on_status(self, query: dict[str, str], body: bytes) -> None:
        self.json({"why": "because" * int(query.get("times", "1"))}, int(query["code"]), Retry_After="7")

    def on_flaky(self, query: dict[str, str], body: bytes) -> None:
        self.server.failures += 1
        self.json({"n": self.server.failures}, 503 if self.server.failures < 3 else 200)

    def on_raw(self, query: dict[str, str], body: bytes) -> None:
        self.answer(200, body, Content_Type=query.get("type", "text/plain"))

    def on_gzip(self, query: dict[str, str], body: bytes) -> None:
        self.answer(200, gzip.compress(b'{"packed": true}'), Content_Type="application/json", Content_Encoding="gzip")

    def on_bomb(self, query: dict[str, str], body: bytes) -> None:
        self.answer(200, gzip.compress(bytes(int(query["size"])), 9), Content_Encoding="gzip")

    def on_truncated_gzip(self, query: dict[str, str], body: bytes) -> None:
        self.answer(200, gzip.compress(b"x" * 1000)[:-9], Content_Encoding="gzip")

    def on_endless(self, query: dict[str, str], body: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        while not self.server.stopping.is_set():
            self.wfile.write(b"x" * 65536)

    def on_large(self, query: dict[str, str], body: bytes) -> None:
        """Answer with `mb` megabytes."""
        piece = b"0123456789abcdef" * 4096
        self.send_response(200)
        self.send_header("Content-Length", str(int(query["mb"]) << 20))
        self.end_headers()
        for _ in range(int(query["mb"]) * 16):
            self.wfile.write(piece)

    def count(self, size: int) -> None:
        """Say how many bytes came, without keeping them."""
        left = size
        while left and (piece := self.rfile.read(min(left, 1 << 16))):
            left -= len(piece)
        self.json({"bytes": size - left})

    def on_drip(self, query: dict[str, str], body: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        while not self.server.stopping.is_set():
            self.wfile.write(b"x")
            time.sleep(0.05)

    def on_silent(self, query: dict[str, str], body: bytes) -> None:
        self.server.stopping.wait()

    def on_hang_up(self, query: dict[str, str], body: bytes) -> None:
        self.close_connection = True

    def on_redirect(self, query: dict[str, str], body: bytes) -> None:
        self.answer(int(query.get("code", "302")), Location=query["to"])

    def on_cookie(self, query: dict[str, str], body: bytes) -> None:
        self.answer(200, Set_Cookie="session=of-someone-else; Path=/")


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as server:
        yield server
        server.stopping.set()
