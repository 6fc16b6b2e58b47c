"""One task's requests to an MCP server over streamable HTTP: negotiation of the revision, the session, the requests.

A server of revision 2025-11-25 or earlier gets `initialize`, and may open a session, which is deleted at the end. A server that
refuses `initialize` with a protocol message gets `server/discover`: from 2026-07-28 on there are no sessions, and each request
states its revision. No tool is called before the revision is known, so none is called twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from noetl_core import __version__
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall, ToolFailed
from noetl_core.tools.calls.event_loop import EventLoop
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.mcp.messages import HEADERS_LACK, METHOD_NOT_FOUND, Reply, header_text, mirrored, read_reply
from noetl_core.values.frozen import frozen

WITH_SESSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions that begin with `initialize`, the newest first."""
WITHOUT: Final = "2026-07-28"
OURS: Final = frozenset({"accept", "content-type", "idempotency-key"})
"""Headers that requests of the protocol have, beside those that begin with `Mcp-`."""
MAX_PAGES: Final = 100
GOODBYE_S: Final = 5.0
"""The longest that deleting a session may take."""
LEAST_SECRET: Final = 16
"""From this length on the id of a session counts as unguessable, and is masked like a secret."""
MAX_LINES: Final = 100
LINE: Final = 1_000
_META: Final = "io.modelcontextprotocol/"
_CLIENT: Final = {"name": "noetl", "version": __version__}
_REFUSES: Final = frozenset({200, 400, 404, 405})
"""HTTP statuses of a server that does not know `initialize`."""


@frozen
class Server:
    """A server and how to call it: `inputs` and `spec` are those of `http`."""

    inputs: Mapping[str, Any]
    spec: Mapping[str, Any]
    headers: Mapping[str, str]
    max_bytes: int
    total_s: float


class Connection:
    """One task's requests to one server, within one time limit. Methods raise `ToolFailed`, and the exceptions of `HttpTool`."""

    def __init__(self, http: HttpTool, server: Server, call: ToolCall, loop: EventLoop) -> None:
        self._http, self._server, self._call, self._loop = http, server, call, loop
        self._deadline = time.monotonic() + server.total_s
        self._number = self._lines = 0
        self._revision = self._session = ""
        self._can_ask = True

    async def open(self) -> None:
        """Find out how the server is to be called."""
        failed = await self._initialize()
        if failed is None:
            return
        if failed.code is None or failed.status not in _REFUSES:
            raise _raised(failed)
        self._revision = WITHOUT
        found = await self._post("server/discover")
        if found.failure is not None:
            raise _raised(failed)
        self._check(found.result.get("supportedVersions"), (WITHOUT,))

    async def close(self) -> None:
        """Delete the session, if there is one and time for it. Nothing depends on it: servers forget sessions themselves."""
        left = min(self._deadline - time.monotonic(), GOODBYE_S)
        if not self._session or not self._can_ask or self._call.cancelled.is_set() or left <= 0:
            return
        headers = {**self._server.headers, "MCP-Protocol-Version": self._revision, "Mcp-Session-Id": self._session}
        headers["Idempotency-Key"] = f"{self._call.task_run_id}-{self._call.attempt}-end"
        self._session = ""
        await self._http.answer(self._request({"method": "DELETE", "headers": headers}, left), self._loop)

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Reply:
        """Return the result of calling a tool; an unknown tool is a reply, too."""
        params = {"name": name, "arguments": arguments}
        reply = await self._reply("tools/call", params)
        if self._revision != WITHOUT or reply.status != 400 or reply.code not in HEADERS_LACK:
            return reply
        schemas = {tool.get("name"): tool.get("inputSchema") for tool in await self.tools()}
        headers = mirrored(schemas.get(name), arguments)
        return await self._reply("tools/call", params, headers) if headers else reply

    async def tools(self) -> list[Mapping[str, Any]]:
        """Return the server's description of its tools, all pages."""
        found: list[Mapping[str, Any]] = []
        cursor, left = None, self._server.max_bytes
        for _ in range(MAX_PAGES):
            reply = await self._reply("tools/list", {} if cursor is None else {"cursor": cursor})
            if reply.failure is not None:
                raise _raised(reply)
            tools = reply.result.get("tools")
            if not isinstance(tools, list) or not all(isinstance(tool, Mapping) for tool in tools):
                raise ToolFailed(Outcome.failed("parse", "mcp: the answer has no list of tools", retryable=False))
            found += tools
            left -= len(json.dumps(tools))
            cursor = reply.result.get("nextCursor")
            if not cursor:
                return found
            if left < 0:
                break
        message = f"mcp: the list of tools goes beyond {MAX_PAGES} pages, or `spec.max_response_bytes`"
        raise ToolFailed(Outcome.failed("limit", message, retryable=False))

    async def _initialize(self) -> Reply | None:
        """Begin a session, if the server gives one; return the reply that refuses it."""
        self._revision = self._session = ""
        reply = await self._post("initialize", {"protocolVersion": WITH_SESSIONS[0], "capabilities": {}, "clientInfo": _CLIENT})
        if reply.failure is not None:
            return reply
        revision = reply.result.get("protocolVersion")
        self._check([revision], WITH_SESSIONS)
        self._revision = str(revision)
        self._session = reply.headers.get("mcp-session-id", "")
        if len(self._session) >= LEAST_SECRET:
            self._call.conceal([self._session])
        confirmation = await self._post("notifications/initialized", notify=True)
        if confirmation.failure is not None:
            raise _raised(confirmation)
        return None

    async def _reply(self, method: str, params: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request; once more in a new session if the server has ended this one."""
        reply = await self._post(method, params, headers or {})
        if not self._session or reply.status != 404 or reply.code == METHOD_NOT_FOUND:
            return reply
        self._call.log("the server has ended the session: beginning another", "stderr")
        failed = await self._initialize()
        if failed is not None:
            raise _raised(failed)
        return await self._post(method, params, headers or {})

    async def _post(
        self, method: str, params: Mapping[str, Any] | None = None, more: Mapping[str, str] | None = None, *, notify: bool = False
    ) -> Reply:
        self._number += 1
        number, call = self._number, self._call
        own = call.task_run_id if method == "tools/call" else f"{call.task_run_id}-{call.attempt}-{number}"
        headers = {
            **self._server.headers,
            **(more or {}),
            "Accept": "application/json, text/event-stream",
            "Idempotency-Key": own,
        }
        body: dict[str, Any] = (
            {"jsonrpc": "2.0", "method": method} if notify else {"jsonrpc": "2.0", "id": number, "method": method}
        )
        if params:
            body["params"] = params
        if self._revision:
            headers["MCP-Protocol-Version"] = self._revision
        if self._session:
            headers["Mcp-Session-Id"] = self._session
        if self._revision == WITHOUT:
            headers["Mcp-Method"] = method
            if "name" in (params or {}):
                headers["Mcp-Name"] = header_text(str((params or {})["name"]))
            about = {"protocolVersion": WITHOUT, "clientInfo": _CLIENT, "clientCapabilities": {}}
            body["params"] = {**(params or {}), "_meta": {_META + name: value for name, value in about.items()}}
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise ToolFailed(Outcome.failed("timeout", f"mcp: no time is left for {method}"))
        answered = await self._http.answer(self._request({"method": "POST", "headers": headers, "json": body}, left), self._loop)
        if answered.error is not None and answered.error.kind in ("cancelled", "timeout", "connection"):
            self._can_ask = False
        if notify and answered.error is None:
            return Reply()
        return read_reply(answered, number, self._notice)

    def _request(self, inputs: Mapping[str, Any], left: float) -> ToolCall:
        return replace(
            self._call, kind="http", inputs={**self._server.inputs, **inputs}, spec=self._server.spec, timeout_s=left
        )  # fmt: skip

    def _notice(self, message: Mapping[str, Any]) -> None:
        """Write the server's log messages into the task's log."""
        params = message.get("params")
        params = params if isinstance(params, Mapping) else {}
        self._lines += 1
        if self._lines > MAX_LINES:
            return
        if "id" in message:
            self._call.log(f"the server asks for {str(message['method'])[:64]}, which is not answered", "stderr")
        elif message["method"] == "notifications/message":
            data = params.get("data")
            text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            self._call.log(f"{str(params.get('level'))[:16]}: {text[:LINE]}")

    @staticmethod
    def _check(versions: Any, known: tuple[str, ...]) -> None:
        """Raise unless the server speaks one of the revisions `known`."""
        theirs = [str(one)[:32] for one in versions[:10]] if isinstance(versions, list) else []
        if not set(theirs) & set(known):
            message = f"mcp: the server speaks revision {', '.join(theirs) or '(none)'} of the protocol, and this kind {known[0]}"
            raise ToolFailed(Outcome.failed("unsupported", message, retryable=False))


def _raised(reply: Reply) -> ToolFailed:
    assert reply.failure is not None
    return ToolFailed(reply.failure)
