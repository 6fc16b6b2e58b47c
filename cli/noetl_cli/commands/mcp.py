"""`noetl mcp`: registered playbooks as tools of MCP clients, and tools for assistants that write playbooks."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from noetl_cli.app import On, Store, app
from noetl_cli.errors import USAGE, Exit, Stopped, say

if TYPE_CHECKING:
    from noetl_cli.mcp.callers import LocalCallers, StackCallers

INSTRUCTIONS = (
    "Tools that run workflows (executions). An answer has the execution's id. If its status is neither completed nor failed,"
    " noetl_execution waits for the end. If the answer has waiting_for, a person's answer is needed: ask the user, never decide"
    " yourself."
)


@app.command()
def mcp(
    on: On = None,
    store: Store = None,
    http: Annotated[
        int | None, typer.Option(help="Serve streamable HTTP on this port of this machine", metavar="PORT", min=0, max=65535)
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Also accept this host name, for a proxy with TLS in front of the port", metavar="HOST"),
    ] = None,
    wait: Annotated[float, typer.Option(help="Seconds that a call waits for the end of its execution", metavar="S", min=0)] = 50,
    no_answers: Annotated[bool, typer.Option("--no-answers", help="Do not let clients answer callbacks")] = False,
    author: Annotated[
        bool, typer.Option("--author", help="Serve tools for writing playbooks in the current folder instead")
    ] = False,
) -> None:
    """Serve registered playbooks as tools of MCP clients, on standard input and output (default: of the local store)."""
    if find_spec("mcp") is None:
        raise Exit(USAGE, "the MCP SDK is missing: pip install 'noetl-serverless[mcp]'")
    if author:
        if http is not None or on is not None:
            raise Exit(USAGE, "--author serves only the client that starts this process: leave out --http and --on")
        _serve_author(store)
        return
    from noetl_cli.mcp.callers import callers  # 400 ms: needed only to serve

    offered = callers(on, store, http=http is not None)
    try:
        _serve(offered, http, name, wait, answers=not no_answers)
    except Stopped as stopped:
        raise Exit(stopped.code) from None
    finally:
        offered.close()


def _serve(offered: LocalCallers | StackCallers, port: int | None, name: str | None, wait_s: float, *, answers: bool) -> None:
    """Serve until the client closes standard input, or a signal ends the process."""
    import anyio  # 700 ms, with the next four: needed only to serve

    from noetl_cli.mcp import http
    from noetl_cli.mcp.callers import LocalCallers
    from noetl_cli.mcp.executions import Executions
    from noetl_cli.mcp.server import serve_stdio, server

    serving = server(Executions(offered, wait_s=wait_s, answers=answers), INSTRUCTIONS)
    if port is None:
        say("a client is expected on standard input; Ctrl-C ends" if sys.stdin.isatty() else "")
        anyio.run(serve_stdio, serving)
        return
    sock = http.listening(port)
    at = sock.getsockname()[1]
    token = offered.token() if isinstance(offered, LocalCallers) else "the caller's token of the API"
    say(f"http://{http.HOST}:{at}{http.PATH} serves the playbooks of {offered.name}; Ctrl-C ends\nAuthorization: Bearer {token}")
    anyio.run(http.serve, http.app(serving, at, name, offered.admits), sock)


def _serve_author(store: str | None) -> None:
    import anyio  # 700 ms, with the next two: needed only to serve

    from noetl_cli.mcp.authoring import INSTRUCTIONS as ABOUT
    from noetl_cli.mcp.authoring import authoring
    from noetl_cli.mcp.server import serve_stdio, server

    with authoring(store) as tools:
        anyio.run(serve_stdio, server(tools, ABOUT))
