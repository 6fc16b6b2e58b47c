"""The HTTP server of the embedded stack: uvicorn, with httptools and uvloop.

MiniStack (1.5.33) is an ASGI application that serves all requests in one thread. Its own server, hypercorn, parses HTTP in
Python (h11), which took a third of that thread's time (`python bench/floor.py`).

uvicorn writes the head of an answer and its body one after the other. The first write took a quarter of the thread's time, and
wakes a client that then waits for the second. Here both are one write.
"""

from __future__ import annotations

import asyncio
import os
import resource
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from noetl_infra.throttle import App

KEEP_ALIVE_S = 75
"""Seconds for which an idle connection is kept, as MiniStack's own server keeps it."""
SHUTDOWN_S = 1
"""Seconds that requests in progress may take when the stack is stopped."""


SMALL = 16 * 1024
"""Bytes that are copied rather than written on their own. Larger parts reach the transport at once, which limits its buffer."""


class OneWrite:
    """A transport that writes together what is written within one round of the event loop, as long as it is `SMALL`."""

    def __init__(self, transport: Any) -> None:
        self._transport, self._parts = transport, list[bytes]()

    def write(self, data: bytes) -> None:
        if sum(map(len, self._parts)) + len(data) > SMALL:
            self._flush()
            self._transport.write(data)
            return
        if not self._parts:
            asyncio.get_running_loop().call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():  # the client may have gone
            self._transport.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Protocol(HttpToolsProtocol):
    """The server's side of a connection."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(OneWrite(transport))  # type: ignore[arg-type]  # it has all that the protocol calls


def serve(app: App) -> None:
    """Serve MiniStack's application at `BIND_HOST` and `GATEWAY_PORT` until a signal ends it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each connection and each function's process has some
    uvicorn.run(
        app,
        host=os.environ["BIND_HOST"],
        port=int(os.environ["GATEWAY_PORT"]),
        loop="uvloop",
        http=Protocol,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,  # the application sends what AWS sends
        date_header=False,
        access_log=False,
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
