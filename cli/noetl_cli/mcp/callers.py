"""The operations of the API with the rights of the caller.

A server of standard input and output belongs to the one who has started it, and has the rights of a command line in the same
place. Over HTTP each request has the rights of its own token; the server's environment lends it none.
"""

from __future__ import annotations

import hmac
import threading
from pathlib import Path

from noetl_cli.backends.local import LocalBackend
from noetl_cli.backends.local_store import IN_MEMORY, default_store
from noetl_cli.backends.opening import api_url
from noetl_cli.backends.stack import StackBackend, own_token
from noetl_cli.errors import UNREACHABLE, USAGE, Exit
from noetl_console.carrying import Carrier
from noetl_core.adapters.local.home import private_folder
from noetl_core.adapters.local.keys import file_key
from noetl_core.api.request import Answer, Request
from noetl_core.api.requests import Api
from noetl_core.runtime.local import LocalWiring


class LocalCallers(Api):
    """The local store, and its operations, one at a time. HTTP requests carry a token, made of the key `mcp.key` beside it: other
    users of this machine reach the port, and the store knows no users."""

    name = "local"

    def __init__(self, store: str | None) -> None:
        if store == IN_MEMORY:
            raise Exit(USAGE, "this server needs a store in a file: give --store FILE, or leave --store out")
        self._store = store or default_store()
        private_folder(Path(self._store).parent)
        self._backend, self._lock = LocalBackend(self._store), threading.Lock()
        self._carrier = Carrier(lambda: LocalWiring(self._store))
        self._key = file_key(Path(self._store).parent / "mcp.key")

    def api(self, authorization: str | None) -> Api:
        """Return the operations for a caller; `authorization` is the header of an HTTP request."""
        return self

    def call(self, request: Request[Answer]) -> Answer:
        with self._lock:
            return self._backend.api.call(request)

    def token(self) -> str:
        """Return the token of HTTP requests."""
        return self._key().hex()

    def admits(self, authorization: str | None) -> bool:
        """Return whether an HTTP request with this header is answered at all."""
        return hmac.compare_digest(bearer(authorization).encode(), self.token().encode())

    def carry(self, execution_id: str) -> None:
        """Have an execution carried out, if nobody else does it."""
        self._carrier.carry(execution_id)

    def close(self) -> None:
        self._carrier.close()
        with self._lock:
            self._backend.close()


class StackCallers:
    """A stack. Its API judges each token; a request without one is refused here, because the client would sign it with the AWS
    credentials of this process."""

    name = "stack"

    def __init__(self, url: str | None, *, http: bool) -> None:
        self._url = api_url(url)
        self._http = http

    def api(self, authorization: str | None) -> Api:
        """Return the operations for a caller. Raises `Exit`."""
        if not self._http:
            return StackBackend(self._url, own_token()).api
        token = bearer(authorization)
        if not token:
            raise Exit(UNREACHABLE, "the request has no token: Authorization: Bearer TOKEN")
        return StackBackend(self._url, token).api

    def admits(self, authorization: str | None) -> bool:
        return bool(bearer(authorization))

    def carry(self, execution_id: str) -> None:
        """Do nothing: the stack does."""

    def close(self) -> None:
        """Do nothing: there are no resources."""


Callers = LocalCallers | StackCallers


def callers(on: str | None, store: str | None, *, http: bool) -> Callers:
    """Return the callers of `--on`. Raises `Exit`."""
    if on in (None, "local"):
        return LocalCallers(store)
    return StackCallers(None if on == "stack" else on, http=http)


def bearer(authorization: str | None) -> str:
    """Return the token of the header `Authorization`; empty if it has none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
