"""The HTTP service that cases ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from threading import Event
from typing import Any

from tests.llm_server import completion
from tests.servers import Handler, serving, url_of

ENDED = Event()


class Service(Handler):
    """`/status/N` answers with that status, `/slow` after the test, `/rows/N` with N rows, `/echo` what it was told, `/chat` is a
    model that says the last message again, `/mcp` a server whose tool `echo` gives what it is given, anything else `{}`."""

    def answer(self) -> None:
        content = self.told().decode()
        head, _, tail = self.path[1:].partition("/")
        if head == "slow":
            ENDED.wait(30)
        body: object = {}
        if head == "rows":
            body = [{"n": n, "text": "x" * 100} for n in range(int(tail))]
        elif head == "echo":
            body = {"headers": dict(self.headers), "body": content}
        elif head == "chat":
            asked = json.loads(content)
            body = completion(asked, {"content": asked["messages"][-1]["content"]})
        elif head == "mcp":
            asked = json.loads(content or "{}")
            body = {"jsonrpc": "2.0", "id": asked.get("id"), **_tool(asked)}
        text = b"{" if head == "broken" else json.dumps(body).encode()
        with suppress(BrokenPipeError, ConnectionResetError):  # the client has gone
            self.say(int(tail.partition("/")[0]) if head == "status" else 200, text, Content_Type="application/json")

    do_GET = do_POST = do_PUT = answer


def _tool(asked: dict[str, Any]) -> dict[str, object]:
    """Return the answer of an MCP server without sessions."""
    method, params = asked.get("method"), asked.get("params", {})
    arguments = params.get("arguments", {})
    if method == "initialize":
        return {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}}
    if method == "tools/list":
        return {"result": {"tools": [{"name": "echo"}, {"name": "fail"}, {"name": "break"}]}}
    if params.get("name") == "slow":
        ENDED.wait(30)
    if params.get("name") == "echo":
        return {"result": {"content": [{"type": "text", "text": str(arguments.get("text"))}], "structuredContent": arguments}}
    if params.get("name") == "fail":
        return {"result": {"content": [{"type": "text", "text": "it cannot"}], "isError": True}}
    code = arguments.get("code", -32602)
    return {"error": {"code": code, "message": "no"}}


@contextmanager
def service() -> Iterator[str]:
    """Serve until the block ends: the address."""
    ENDED.clear()
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Service)) as server:
        server.daemon_threads = True
        try:
            yield url_of(server)
        finally:
            ENDED.set()
