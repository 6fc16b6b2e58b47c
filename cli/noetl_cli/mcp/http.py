"""Serves MCP clients over streamable HTTP, on a port of this machine.

A request is judged by itself: there are no sessions that one caller opens and another one uses. It must name this server in
`Host`, come from no other page (`Origin`), and carry a token.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from noetl_cli.errors import USAGE, Exit
from noetl_cli.mcp.tools import LARGEST

HOST: Final = "127.0.0.1"
PATH: Final = "/mcp"


def app(offered: Server[Any], port: int, name: str | None, admits: Callable[[str | None], bool]) -> ASGIApp:
    """Return the application at `port`. `name` is the host's name at a proxy in front of it."""
    here = [f"{host}:{port}" for host in (HOST, "localhost", "[::1]")]
    own = [name, f"{name}:443"] if name else []
    settings = TransportSecuritySettings(
        allowed_hosts=[*here, *own],
        allowed_origins=[*(f"http://{host}" for host in here), *(f"https://{host}" for host in own)],
    )
    inner = offered.streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, transport_security=settings, max_request_body_size=LARGEST
    )

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not admits(Headers(scope=scope).get("authorization")):
            refusal = PlainTextResponse("Authorization: Bearer TOKEN is missing or wrong\n", 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
        else:
            await inner(scope, receive, send)

    return guarded


def listening(port: int) -> socket.socket:
    """Return a socket that listens at `port` of this machine. Raises `Exit(2)`."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise Exit(USAGE, f"cannot listen on port {port}: {error.strerror}") from None


async def serve(application: ASGIApp, sock: socket.socket) -> None:
    """Serve until a signal ends the process."""
    config = uvicorn.Config(application, log_level="warning", access_log=False, timeout_graceful_shutdown=2, lifespan="on")
    await uvicorn.Server(config).serve(sockets=[sock])
