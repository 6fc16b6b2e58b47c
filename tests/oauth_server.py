"""A service with OAuth 2.0: it gives access tokens, and answers who has one."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlsplit

from tests.servers import Handler, url_of

CLIENT = {"client_id": "my-client", "client_secret": "cl1ent-s3cret-word"}


class OAuthServer(ThreadingHTTPServer):
    """Issues tokens at `/token`, and answers `/api...` to holders of a valid one."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.lock = threading.Lock()
        self.token_requests: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str]] = []
        """Path and `Authorization` of each call."""
        self.valid: set[str] = set()
        self.answer: dict[str, Any] = {}
        """Keys that are added to the answers with tokens."""
        self.refuse: tuple[int, Any] | None = None
        """The answer to token requests instead; None: a token."""
        self.takes = True
        """False: no token opens anything."""
        self.uploads: list[bytes] = []
        """The bodies sent to `/upload`. It needs no token, and neither does `/export.csv`."""
        self.busy = 0
        """The remaining 429 answers of `/busy`, which needs no token."""

    @property
    def base(self) -> str:
        return url_of(self)

    def revoke(self) -> None:
        """Take no token that was given so far."""
        self.valid.clear()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


class _Handler(Handler):
    server: OAuthServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._any()

    def do_POST(self) -> None:
        self._any()

    def _any(self) -> None:
        body = self.told()
        if urlsplit(self.path).path == "/token":
            self._token(body)
        else:
            self._call(body)

    def _json(self, value: Any, status: int = 200) -> None:
        self.say(status, json.dumps(value).encode(), Content_Type="application/json")

    def _token(self, body: bytes) -> None:
        server = self.server
        if "json" in (self.headers.get("Content-Type") or ""):
            fields = json.loads(body)
        else:
            fields = {name: values[-1] for name, values in parse_qs(body.decode()).items()}
        fields |= {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()}
        authorization = self.headers.get("Authorization") or ""
        who: dict[str, Any] = dict(fields)
        if authorization.startswith("Basic "):
            client, _, secret = b64decode(authorization[6:]).decode().partition(":")
            who |= {"client_id": unquote_plus(client), "client_secret": unquote_plus(secret)}
        with server.lock:
            server.token_requests.append({**fields, "authorization": authorization, "method": self.command})
            number = len(server.token_requests)
            if server.refuse is not None:
                self._json(server.refuse[1], server.refuse[0])
            elif any(who.get(name) != value for name, value in CLIENT.items()):
                client_secret = who.get("client_secret")
                self._json({"error": "invalid_client", "error_description": f"{client_secret} is not the secret"}, 401)
            else:
                token = f"acc3ss-t0ken-{number}-of-the-server"
                server.valid.add(token)
                self._json({"access_token": token, "token_type": "Bearer", "expires_in": 3600, **server.answer})

    def _call(self, body: bytes) -> None:
        server = self.server
        authorization = self.headers.get("Authorization") or ""
        if self.path == "/export.csv":
            self.say(200, b"a,b\n1,2\n", Content_Type="text/csv")
            return
        if self.path == "/upload":
            server.uploads.append(body)
            self.say()
            return
        if self.path == "/busy":
            server.calls.append((self.path, authorization))
            server.busy -= 1
            self.say(429 if server.busy >= 0 else 200, b"", Retry_After="1")
            return
        with server.lock:
            server.calls.append((self.path, authorization))
            known = server.takes and authorization.removeprefix("Bearer ") in server.valid
        if not known:
            self._json({"why": f"{authorization} is not valid"}, 401)
        else:
            self._json({"path": self.path, "token": authorization, "body": body.decode("utf-8", "replace")})
