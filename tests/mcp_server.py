"""A fake MCP server over streamable HTTP: with and without sessions, answering as JSON or as an event stream."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

from tests.servers import Handler, serving, url_of

Tool = Callable[[dict[str, Any]], "dict[str, Any]"]
"""Takes the arguments. Returns the result of the call, or `{error: ...}` of JSON-RPC."""
HEADER_MISMATCH, NO_SUCH_REVISION = -32020, -32022


def text(*texts: str, **more: Any) -> dict[str, Any]:
    """A result with parts of text."""
    return {"content": [{"type": "text", "text": one} for one in texts], **more}


@dataclass
class McpServer:
    """A fake MCP server, with the requests that it received."""

    url: str = ""
    tools: dict[str, Tool] = field(
        default_factory=lambda: {"echo": lambda arguments: text(json.dumps(arguments), structuredContent=arguments)}
    )
    schemas: dict[str, Any] = field(default_factory=dict)
    stream: bool = False
    """Answers are event streams."""
    sessions: bool = True
    modern: bool = False
    """It speaks 2026-07-28 alone: no `initialize`, no sessions."""
    revision: str = "2025-11-25"
    mirrors: dict[str, str] = field(default_factory=dict)
    """Headers that must repeat an argument."""
    page: int = 100
    before: list[dict[str, Any]] = field(default_factory=list)
    """Messages that an event stream has before the answer."""
    broken: Callable[[dict[str, Any]], tuple[int, bytes, dict[str, str]] | None] = lambda body: None
    """An answer that is none of the protocol, in place of that of a method."""
    token: str = ""
    alive: set[str] = field(default_factory=set)
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    wait: threading.Event = field(default_factory=threading.Event)

    @property
    def methods(self) -> list[str]:
        return [body.get("method", "DELETE") for body in self.asked]

    def expire(self) -> None:
        """End every session."""
        self.alive.clear()

    def result(self, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        """The result of a request, or `{error: ...}`."""
        method, params = body["method"], body.get("params", {})
        if method == "initialize":
            return {
                "protocolVersion": self.revision,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            }
        if method == "server/discover":
            return {"resultType": "complete", "supportedVersions": [self.revision], "capabilities": {"tools": {}}}
        if method == "tools/list":
            names = sorted(self.tools)
            start = int(params.get("cursor", 0))
            tools = [
                {"name": n, "inputSchema": self.schemas.get(n, {"type": "object"})} for n in names[start : start + self.page]
            ]
            return {"tools": tools} | ({"nextCursor": str(start + self.page)} if start + self.page < len(names) else {})
        if method != "tools/call":
            return {"error": {"code": -32601, "message": f"no method {method}"}}
        if params["name"] not in self.tools:
            return {"error": {"code": -32602, "message": f"Unknown tool: {params['name']}"}}
        return self.tools[params["name"]](params.get("arguments", {}))

    def refused(self, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, dict[str, Any]] | None:
        """The status and the error of a request that is not as the revision has it."""
        method, params = body["method"], body.get("params", {})
        if self.token and headers.get("authorization") != f"Bearer {self.token}":
            return 401, {"code": -32000, "message": "who are you?"}
        if self.modern:
            about = params.get("_meta", {})
            want = {"mcp-method": method, "mcp-protocol-version": about.get("io.modelcontextprotocol/protocolVersion")}
            want |= {"mcp-name": params["name"]} if method == "tools/call" else {}
            arguments = params.get("arguments", {})
            want |= {f"mcp-param-{h.lower()}": str(arguments[n]) for n, h in self.mirrors.items() if n in arguments}
            if any(headers.get(name) != value for name, value in want.items()):
                return 400, {"code": HEADER_MISMATCH, "message": "Header mismatch"}
            return None
        if method == "server/discover":
            return 400, {"code": -32600, "message": "Bad Request: Missing session ID"}
        if self.sessions and method != "initialize" and headers.get("mcp-session-id") not in self.alive:
            return 404, {"code": -32600, "message": "Session not found"}
        return None


@contextmanager
def mcp_server(**how: Any) -> Iterator[McpServer]:
    """Serve until the block ends."""

    class Endpoint(Handler):
        def do_POST(self) -> None:
            body = json.loads(self.told())
            headers = {name.lower(): value for name, value in self.headers.items()}
            told.asked.append(body)
            told.headers.append(headers)
            with suppress(BrokenPipeError, ConnectionResetError):  # the client has gone
                self.reply(body, headers)

        def reply(self, body: dict[str, Any], headers: dict[str, str]) -> None:
            assert "application/json" in headers["accept"] and "text/event-stream" in headers["accept"]
            broken = told.broken(body)
            if broken is not None:
                status, content, more = broken
                self.say(status, content, **more)
                return
            refused = told.refused(body, headers)
            if refused is not None:
                message = {"jsonrpc": "2.0", "id": body.get("id"), "error": refused[1]}
                self.say(refused[0], json.dumps(message).encode(), Content_Type="application/json")
                return
            if "id" not in body:
                self.say(202)
                return
            result = told.result(body, headers)
            session_headers: dict[str, str] = {}
            if body["method"] == "initialize" and told.sessions:
                session_headers["Mcp_Session_Id"] = f"session-{len(told.asked):012d}"
                told.alive.add(session_headers["Mcp_Session_Id"])
            message = {"jsonrpc": "2.0", "id": body["id"], **(result if "error" in result else {"result": result})}
            if not told.stream:
                self.say(200, json.dumps(message).encode(), Content_Type="application/json", **session_headers)
                return
            lines = ["id: 0", "data:", "", ": hello", ""]
            for one in (*told.before, message):
                lines += ["event: message", *(f"data: {line}" for line in json.dumps(one, indent=1).split("\n")), ""]
            self.say(200, "\r\n".join([*lines, ""]).encode(), Content_Type="text/event-stream; charset=utf-8", **session_headers)

        def do_DELETE(self) -> None:
            told.asked.append({})
            told.headers.append({name.lower(): value for name, value in self.headers.items()})
            told.alive.discard(self.headers.get("Mcp-Session-Id", ""))
            self.say(405 if told.modern else 200)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with serving(Server(("127.0.0.1", 0), Endpoint)) as server:
        told = McpServer(f"{url_of(server)}/mcp", **how)
        try:
            yield told
        finally:
            told.wait.set()
