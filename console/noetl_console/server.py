"""The server of the pages and of `/api`, for one browser on this machine."""

from __future__ import annotations

import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from noetl_console.access import Access
from noetl_console.answering import NAMES, Answered, Answering, Asked, names_alone, refused, withheld
from noetl_console.assets import INDEX, Asset, assets
from noetl_console.following import PATH, Following, with_script

HOST = "127.0.0.1"
PORT = 4680
"""The default port; if it is in use, a free one."""
MAX_BODY = 6 * 1024 * 1024
"""The most bytes of a request: the API's limit."""
CSP = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
        "img-src 'self' data:",  # last, so that the value does not end with a quote: API Gateway puts the whole value in quotes
    )
)
"""Scripts and styles come only from the files here, never inline, and no text becomes markup."""
RETURNED = frozenset({"Content-Type", "Etag", "Retry-After"})
"""The headers of answers that are passed on to pages."""
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOCKED = (
    "This address does not let you in: it works once, and only until `noetl console` ends.\n"
    "For a new address, press Enter where `noetl console` runs, or start it again.\n"
)


class Console(ThreadingHTTPServer):
    """Serves until `shutdown`. `api` answers for `/api`."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, api: Answering, port: int | None = None, following: Following | None = None) -> None:
        """Listen at `port`; by default at the usual port or, if that is in use, at a free one. With `following`, pages show the
        newest execution. Raises `OSError`."""
        try:
            super().__init__((HOST, PORT if port is None else port), Handler)
        except OSError:
            if port is not None:
                raise
            super().__init__((HOST, 0), Handler)
        self.api = api
        self.following = following
        self.assets = assets() if following is None else with_script(assets())
        self.access = Access(self.server_port)

    def address(self) -> str:
        """Return an address that admits a browser once."""
        return f"http://{HOST}:{self.server_port}/?ticket={self.access.ticket()}"

    def graph_address(self, execution_id: str) -> str:
        """Return the address of a graph. Until a browser has been admitted, it admits one."""
        page = f"#/executions/{execution_id}/graph"
        return f"http://{HOST}:{self.server_port}/{page}" if self.access.in_use() else self.address() + page

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of connections that a browser has closed."""


class Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    server: Console
    protocol_version = "HTTP/1.1"
    timeout = 60
    server_version, sys_version = "noetl-console", ""

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self._body()
        if body is None:
            return
        headers = {name.title(): value for name, value in self.headers.items()}
        reason = self.server.access.foreign(self.command, headers)
        url = urlsplit(self.path)
        if reason:
            self._say(HTTPStatus.FORBIDDEN, f"{reason}\n".encode())
        elif url.path == "/" and "ticket" in (query := parse_qs(url.query)):
            self._let_in(query["ticket"][0])
        elif not self.server.access.known(headers):
            self._say(HTTPStatus.UNAUTHORIZED, LOCKED.encode())
        elif url.path.startswith("/api/"):
            self._pass_on(Asked(self.command, url.path, url.query, headers, body))
        elif url.path == PATH and self.server.following is not None:
            self._say(HTTPStatus.OK, self.server.following.text().encode())
        else:
            self._asset(self.server.assets.get(url.path.removeprefix("/") or INDEX))

    def _body(self) -> bytes | None:
        """Read the body of the request; None if the request was refused."""
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdecimal()):
            self.close_connection = True
            self._say(HTTPStatus.BAD_REQUEST, b"a request with a body needs the header Content-Length\n")
            return None
        if int(length) > MAX_BODY:
            self.close_connection = True
            self._send(refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", f"the body exceeds {MAX_BODY} bytes"))
            return None
        return self.rfile.read(int(length))

    def _let_in(self, ticket: str) -> None:
        cookie = self.server.access.redeem(ticket)
        if cookie is None:
            self._say(HTTPStatus.FORBIDDEN, LOCKED.encode())
        else:
            self._say(HTTPStatus.SEE_OTHER, b"", {"Location": "./", "Set-Cookie": cookie})

    def _pass_on(self, asked: Asked) -> None:
        what = withheld(asked.path)
        if (asked.method, asked.path, asked.query) == ("GET", NAMES, ""):
            self._send(names_alone(self.server.api.answer(asked)))
        elif what:
            self._send(refused(HTTPStatus.FORBIDDEN, "forbidden", f"the console's pages may not read {what}"))
        else:
            self._send(self.server.api.answer(asked))

    def _send(self, answered: Answered) -> None:
        headers = {name.title(): value for name, value in answered.headers.items()}
        kept = {name: value for name, value in headers.items() if name in RETURNED}
        self._say(answered.status, answered.body, kept)

    def _asset(self, asset: Asset | None) -> None:
        if asset is None or self.command not in ("GET", "HEAD"):
            self._say(HTTPStatus.NOT_FOUND, b"there is no such file\n")
            return
        headers = {"Content-Type": asset.content_type, "Etag": asset.etag, "Cache-Control": "no-cache"}
        if self.headers.get("If-None-Match") == asset.etag:
            self._say(HTTPStatus.NOT_MODIFIED, b"", headers)
        else:
            self._say(HTTPStatus.OK, asset.body, headers)

    def _say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        fields = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store", **HEADERS, **(headers or {})}
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != HTTPStatus.NOT_MODIFIED:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because addresses contain tickets."""
