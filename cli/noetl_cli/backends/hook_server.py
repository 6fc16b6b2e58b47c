"""Webhooks of the local store, over HTTP on this machine only: a signed request starts its playbook before it is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from noetl_core.adapters.local.rates import LocalRequestRates
from noetl_core.control.triggers.deliveries import Deliveries
from noetl_core.control.triggers.hooks import MAX_BODY, ROUTE, TOO_LARGE, Answer, Hooks
from noetl_core.control.triggers.validation import why_it_cannot_start
from noetl_core.ports import ReadsSecrets, WebhookDelivery
from noetl_core.runtime.local import LocalWiring

HOST: Final = "127.0.0.1"
PATIENCE_S: Final = 30
LINGER_S: Final = 2
LINGER_BYTES: Final = 16 * MAX_BODY
"""Bytes of an oversized body that are read after the answer. Most senders read no answer before they have sent everything."""
ELSEWHERE: Final = (
    f"this address accepts only webhooks, with POST {ROUTE}PATH/NAME; `noetl` and `noetl console` read the local store directly"
)
"""Without authentication of the sender, any web page in a browser on this machine could start playbooks here."""


@dataclass(frozen=True, slots=True)
class _Starts:
    """`WebhookSink`: the execution is admitted here and run by the process that serves the store."""

    deliveries: Deliveries

    def forward(self, delivery: WebhookDelivery) -> None:
        self.deliveries.take(delivery)


class HookServer(ThreadingHTTPServer):
    """Answers requests to webhooks."""

    daemon_threads = True

    def __init__(self, wiring: LocalWiring, secrets: ReadsSecrets, port: int) -> None:
        super().__init__((HOST, port), _Handler)
        control = wiring.control
        check, about = partial(why_it_cannot_start, control), control.catalog.about
        sink, rates = _Starts(Deliveries(control)), LocalRequestRates()
        self.hooks = Hooks(control.triggers.trigger, secrets, sink, wiring.clock, about, check, rates)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}{ROUTE}"


class _Handler(BaseHTTPRequestHandler):
    server: HookServer
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        self._say(_refused(HTTPStatus.NOT_FOUND, "not_found", ELSEWHERE))

    do_DELETE = do_PUT = do_PATCH = do_HEAD = do_OPTIONS = do_GET

    def do_POST(self) -> None:
        address = urlsplit(self.path).path
        path, _, name = address.removeprefix(ROUTE).rpartition("/")
        length = self.headers.get("Content-Length", "")
        bare = length.lstrip("0") or length[-1:]  # Python does not parse numbers of thousands of digits
        if not address.startswith(ROUTE):
            answer = _refused(HTTPStatus.NOT_FOUND, "not_found", ELSEWHERE)
        elif not (length.isascii() and length.isdecimal()):
            answer = _refused(HTTPStatus.LENGTH_REQUIRED, "malformed", "the header Content-Length must say how long the body is")
        elif len(bare) > len(str(MAX_BODY)) or int(bare) > MAX_BODY:
            self._say(_refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", TOO_LARGE))
            self._linger()
            return
        else:
            body = self.rfile.read(int(bare))
            answer = self.server.hooks.answer(unquote(path), unquote(name), dict(self.headers.items()), body)
        self._say(answer)

    def _say(self, answer: Answer) -> None:
        body = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _linger(self) -> None:
        """Discard the remaining data of the sender for a while, and close the connection."""
        self.close_connection = True
        self.connection.settimeout(LINGER_S)
        left = LINGER_BYTES
        with suppress(OSError):
            self.wfile.flush()
            while left > 0 and (part := self.rfile.read1(min(left, MAX_BODY))):
                left -= len(part)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the process that serves the store reports what is started."""


@contextmanager
def serving(server: HookServer) -> Iterator[None]:
    """Answer requests until the block ends."""
    Thread(target=server.serve_forever, name="hooks", daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _refused(status: HTTPStatus, code: str, message: str) -> Answer:
    return Answer(status, {"error": {"code": code, "message": message, "details": []}})
