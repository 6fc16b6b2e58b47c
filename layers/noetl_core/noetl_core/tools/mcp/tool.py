"""`kind: mcp`: calls a tool of an MCP server over streamable HTTP (docs/tools/mcp.md).

Requests go through `tools.http.tool`: its addresses, credentials, time limits and errors. Result of `call`: `{content,
structured, text}`; of `list`: `{tools, count}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.actions import action_of, text
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed
from noetl_core.tools.calls.event_loop import EventLoop
from noetl_core.tools.http.options import MAX_BODY_BYTES
from noetl_core.tools.mcp.connection import OURS, Connection, Server
from noetl_core.tools.mcp.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Reply
from noetl_core.tools.services import ServiceTool, service_auth

DEFAULT_TIMEOUT_S: Final = 300.0
CONNECT_S: Final = 10.0
NOT_FOR_HTTP: Final = frozenset({"base_url"})
"""Fields of a credential that this kind reads."""
TOLD: Final = 500
NAMES: Final = 20
"""Maximum number of tools that an error names."""
_NO_TOOL: Final = re.compile(
    r"unknown tool|tool.{0,200}(not found|does not exist|not exist)|no (such )?tool", re.IGNORECASE | re.DOTALL
)


class McpTool(ServiceTool):
    """Inputs `url`, `auth`, `headers`, and for `action: call` `tool` and `arguments`."""

    kind = "mcp"

    async def answer(self, call: ToolCall, loop: EventLoop) -> Outcome:
        action = action_of(call)
        tool = text(call, "tool") if action == "call" else ""
        arguments = call.inputs.get("arguments")
        if arguments is not None and not isinstance(arguments, Mapping):
            raise BadInput("`arguments` must be a mapping")
        connection = Connection(self._http, read_server(call), call, loop)
        try:
            await connection.open()
            if action == "list":
                tools = await connection.tools()
                outcome = Outcome.ok({"tools": tools, "count": len(tools)})
            else:
                outcome = await _call_tool(connection, tool, arguments or {})
        except ToolFailed as failed:
            outcome = failed.outcome
        await connection.close()
        return outcome


def read_server(call: ToolCall) -> Server:
    """Return the server of a call, and how to call it. Raises `BadInput`."""
    inputs, spec = call.inputs, call.spec
    auth, own = service_auth(call, NOT_FOR_HTTP)
    url = inputs.get("url") or own.get("base_url")
    if not isinstance(url, str):
        raise BadInput("`url` must be the address of the server, or `auth` a credential with a `base_url`")
    headers = inputs.get("headers") or {}
    if not isinstance(headers, Mapping):
        raise BadInput("`headers` must be a mapping")
    for name in headers:
        if str(name).lower() in OURS or str(name).lower().startswith("mcp-"):
            raise BadInput(f"header {str(name)[:60]!r} is the protocol's own: leave it out")
    total = DEFAULT_TIMEOUT_S if call.timeout_s is None else call.timeout_s
    limits = spec.get("timeout")
    timeout = {"connect": CONNECT_S, "read": total, "total": total, **(limits if isinstance(limits, Mapping) else {})}
    options = {name: spec[name] for name in ("verify", "max_response_bytes") if name in spec}
    return Server({"url": url, **auth}, {**options, "timeout": timeout}, headers, _most(spec), total)


def _most(spec: Mapping[str, Any]) -> int:
    most = spec.get("max_response_bytes", MAX_BODY_BYTES)
    return int(most) if isinstance(most, int | float) else MAX_BODY_BYTES  # `http` refuses anything but a number


async def _call_tool(connection: Connection, tool: str, arguments: Mapping[str, Any]) -> Outcome:
    reply = await connection.call_tool(tool, arguments)
    if reply.failure is not None:
        missing = reply.code in (INVALID_PARAMS, METHOD_NOT_FOUND) and await _unknown_tool(connection, tool)
        return missing or reply.failure
    result = _result(reply)
    if reply.result.get("isError") is not True:
        return Outcome.ok(result)
    if _NO_TOOL.search(result["text"][:TOLD]) and (missing := await _unknown_tool(connection, tool)):
        return missing
    message = f"mcp: the tool {tool[:64]} failed: {result['text'][:TOLD] or 'it does not say why'}"
    return Outcome.failed("client_error", message, retryable=False, code="tool_error", details=result)


def _result(reply: Reply) -> dict[str, Any]:
    """Return the result of a call: its content, and the text in it. Raises `ToolFailed`."""
    content = reply.result.get("content", [])
    if not isinstance(content, list) or not all(isinstance(part, Mapping) for part in content):
        raise ToolFailed(Outcome.failed("parse", "mcp: the answer has no list of content", retryable=False))
    texts = [part["text"] for part in content if part.get("type") == "text" and isinstance(part.get("text"), str)]
    return {"content": content, "structured": reply.result.get("structuredContent"), "text": "\n".join(texts)}


async def _unknown_tool(connection: Connection, tool: str) -> Outcome | None:
    """Return the failure of calling a tool that the server does not have, with the nearest name that it has."""
    try:
        names = [str(found.get("name")) for found in await connection.tools()]
    except ToolFailed:  # keep the server's original error
        return None
    if tool in names:
        return None
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    known = f"it has {', '.join(name[:64] for name in names[:NAMES])}{more}" if names else "it has none"
    message = " ".join(filter(None, (f"mcp: the server has no tool {tool[:64]!r}:", suggest(tool, names), known)))
    return Outcome.failed("not_found", message, retryable=False, code="unknown_tool")
