"""A guard for MiniStack: only programs on this machine can use it, not web pages in a browser.

MiniStack accepts any request as the user's own, and lets every page read its answers (`Access-Control-Allow-Origin: *`). A web
page could therefore run code on the machine of its visitor: with a plain form or, under a name that resolves to 127.0.0.1, with
any request. The guard refuses requests whose `Host` is the name of another machine, and requests that, according to the browser,
come from a page of another host.

`python -m noetl_infra.guard` is `ministack` with the guard. The environment is MiniStack's own, with `BIND_HOST` and
`GATEWAY_PORT`; `NOETL_STACK_HOSTS` (separated by commas) adds names under which this machine is reached.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib import import_module
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from noetl_core.api.authorization import LOOPBACK
from noetl_infra.environments import contain
from noetl_infra.expressions import remember
from noetl_infra.pollers import hurry
from noetl_infra.server import serve
from noetl_infra.throttle import App, Receive, Scope, Send, Throttled

READ = frozenset({b"host", b"origin", b"sec-fetch-site"})
"""The headers that the guard reads."""
REMEMBERED = 1_000
Headers = tuple[tuple[bytes, bytes], ...]
OURS = frozenset({"same-origin", "same-site", "none"})
"""Values of `Sec-Fetch-Site` for pages of this machine and for typed addresses."""


def refusal(headers: Mapping[str, str], hosts: frozenset[str] = LOOPBACK) -> str:
    """Return why a request with these headers (names in lower case) is refused; empty if it may pass."""
    host = _name(f"//{headers.get('host', '')}")
    if not _is_here(host, hosts) and not _is_address(host):
        return f"Host {headers.get('host', '')[:60]!r} is not this machine"
    origin = headers.get("origin")
    if origin is not None and not _is_here(_name(origin), hosts):
        return f"a page of {origin[:60]!r} has no business here"
    site = headers.get("sec-fetch-site")
    if site is not None and site not in OURS:
        return "a page of another site has no business here"
    return ""


def _name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_here(name: str, hosts: frozenset[str]) -> bool:
    return name in hosts or name.endswith(".localhost")


def _is_address(name: str) -> bool:
    """Return whether a `Host` is an address rather than a name, which somebody else could make resolve to this machine. The stack
    listens only on loopback, so requests with another address were forwarded by a program on this machine, as for containers."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Guarded:
    """An ASGI application that answers only requests without a `refusal`."""

    def __init__(self, app: App, hosts: frozenset[str] = LOOPBACK) -> None:
        self._app, self._hosts = app, hosts
        self._known: dict[Headers, str] = {}
        """Cached results by headers, because programs send the same ones again and again."""

    def _refusal(self, headers: Headers) -> str:
        known = self._known.get(headers)
        if known is None:
            known = refusal({name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}, self._hosts)
            if len(self._known) < REMEMBERED:
                self._known[headers] = known
        return known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        why = ""
        if scope["type"] in ("http", "websocket"):
            why = self._refusal(tuple(header for header in scope["headers"] if header[0].lower() in READ))
        if not why:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            error = {"code": "forbidden", "message": f"the embedded stack serves this machine alone: {why}", "details": []}
            body = json.dumps({"error": error}).encode()
            headers_out = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 403, "headers": headers_out})
            await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Run MiniStack with the guard, protected against overload (`throttle`, `environments`), without some of its waits
    (`pollers`) and repeated checks (`expressions`), and on a faster HTTP server (`server`)."""
    ministack: Any = import_module("ministack.app")
    more = frozenset(name.strip() for name in os.environ.get("NOETL_STACK_HOSTS", "").split(",") if name.strip())
    runtime = import_module("ministack.core.lambda_runtime")
    contain(runtime)
    hurry(import_module("ministack.services.lambda_svc"), runtime)
    remember(import_module("ministack.services.dynamodb"))
    serve(Guarded(Throttled(ministack.app), LOOPBACK | more))


if __name__ == "__main__":
    main()
