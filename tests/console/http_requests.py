"""Requests to the console's server as a browser sends them, and as others do."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from noetl_console.answering import Answered, Answering, Asked
from noetl_console.server import Console
from tests.servers import serving

FINE = Answered(200, b'{"status": "ok"}', {"Content-Type": "application/json", "ETag": '"7"', "Server": "other"})


@dataclass
class Recorder:
    """An API that answers everything alike, and keeps what it was asked."""

    name: str = "recorded"
    asked: list[Asked] = field(default_factory=list)
    reply: Answered = FINE

    def answer(self, asked: Asked) -> Answered:
        self.asked.append(asked)
        return self.reply

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: str


@contextmanager
def console(api: Answering) -> Iterator[Console]:
    """A console at a free port."""
    server = Console(api, 0)
    server.daemon_threads = True
    with serving(server):
        yield server


def raw(server: Console, method: str, target: str, headers: dict[str, str], body: bytes | None = None) -> Reply:
    """Return the answer to a request with exactly these headers. `target` is sent unchanged."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return Reply(answer.status, answer.headers, answer.read().decode())
    finally:
        connection.close()


def own(server: Console) -> dict[str, str]:
    """Return the headers that a page of this console sends before signing in."""
    host = f"127.0.0.1:{server.server_port}"
    return {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}


def let_in(server: Console) -> dict[str, str]:
    """The same with the cookie that a ticket gives."""
    url = urlsplit(server.address())
    answer = raw(server, "GET", f"/?{url.query}", {"Host": url.netloc})
    assert answer.status == 303
    return own(server) | {"Cookie": str(answer.headers["Set-Cookie"]).partition(";")[0]}
