"""A service of AWS that answers as it is told, for the tests of requests that are sent without botocore's clients."""

from __future__ import annotations

import json
import socket
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any

import pytest

from tests.contract.aws import environment
from tests.servers import Handler, serving

KEY = {"pk": {"S": "p"}, "sk": {"S": "s"}}


class Table(Handler):
    """Answers with what `answers` has, then with an empty object. It keeps connections open, unless told to close them."""

    protocol_version = "HTTP/1.1"
    server: Served

    def handle(self) -> None:
        self.server.connections += 1
        super().handle()

    def do_POST(self) -> None:
        self.told()
        self.server.requests.append(dict(self.headers.items()))
        self.server.paths.append(self.path)
        answer = self.server.answers.popleft() if self.server.answers else (200, b"{}")
        if answer == "close":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if self.server.together is not None:
            self.server.together.wait(10)
        if answer == "silence":
            self.server.ended.wait(10)
            self.close_connection = True
            return
        status, body = answer
        checksum, self.server.checksum = self.server.checksum or zlib.crc32(body), 0
        self.say(status, body, x_amz_crc32=str(checksum), **self.server.more)


class Served(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Table)
        self.answers: deque[Any] = deque()
        self.requests: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.more: dict[str, str] = {}
        """Further headers of each answer."""
        self.ended = threading.Event()
        self.together: threading.Barrier | None = None
        self.connections = 0
        self.checksum = 0
        """The checksum of the next answer, in place of the correct one; 0 for none."""

    def by_botocore(self) -> list[bool]:
        """Return for each request whether botocore sent it."""
        return ["amz-sdk-invocation-id" in {name.lower() for name in request} for request in self.requests]


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(Served()) as server, environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.server_port}"):
        yield server
        server.ended.set()


def refusal(code: str) -> bytes:
    return json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no"}).encode()
