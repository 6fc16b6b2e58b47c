"""HTTP services that tests ask, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, TypeVar

S = TypeVar("S", bound=HTTPServer)


@contextmanager
def serving(server: S) -> Iterator[S]:
    """Serve until the block ends."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def url_of(server: HTTPServer) -> str:
    """Return the URL of a server that listens on loopback."""
    return f"http://127.0.0.1:{server.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers in one call, and writes no log."""

    def say(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        """Answer; a header's name has underscores for its dashes."""
        self.send_response(status)
        for name, value in {**headers, "Content_Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def told(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


class Healthy(Handler):
    """Answers each request with 200, as the health page of an emulator does."""

    def do_GET(self) -> None:
        self.say()
