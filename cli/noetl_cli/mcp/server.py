"""Offers tools over the protocol. `http` has the other transport."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from itertools import count
from typing import Any, Final, Protocol

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from noetl_cli.errors import Exit
from noetl_cli.mcp.tools import Answer, Call, Tool, check
from noetl_core import __version__
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.ports import PortError

log = logging.getLogger(__name__)
Context = ServerRequestContext[Any, Any]
OWN: Final = "noetl"
"""The key of this server's own entries in `_meta` of a call: `{"noetl": {"idempotency_key": "..."}}`."""


class Tools(Protocol):
    """The tools of a server."""

    async def tools(self, authorization: str | None) -> Mapping[str, Tool]: ...


def server(tools: Tools, instructions: str) -> Server[Any]:
    """Return a server of these tools."""

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        try:
            known = await tools.tools(_header(context, "authorization"))
        except Exit as refusal:
            raise MCPError(types.INTERNAL_ERROR, refusal.message) from None
        return types.ListToolsResult(tools=[_described(tool) for tool in known.values()])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = _call(context, params)
        try:
            known = await tools.tools(call.authorization)
            if (tool := known.get(params.name)) is not None:
                check(call.arguments, tool.schema)
                return _result(await tool.run(call))
        except (Exit, PortError) as refusal:
            return _result(Answer({"error": refusal.message if isinstance(refusal, Exit) else str(refusal)}, failed=True))
        except Exception:  # a bug: its log has the traceback, and the client is told that there is one
            log.exception("the call of %s failed", params.name[:100])
            return _result(Answer({"error": "the server has a bug; its log has the traceback"}, failed=True))
        hint = suggest(params.name[:100], known)
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}" + (f" ({hint})" if hint else ""))

    return Server(
        "noetl",
        version=__version__,
        instructions=instructions,
        get_tool_input_schema=lambda name: None,  # called before the caller is known: no header repeats an argument
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(offered: Server[Any]) -> None:
    """Serve the client on standard input and output until it closes them."""
    async with stdio_server() as (received, sent):
        await offered.run(received, sent, offered.create_initialization_options())


def _call(context: Context, params: types.CallToolRequestParams) -> Call:
    own: Any = (context.meta or {}).get(OWN)
    key = own.get("idempotency_key") if isinstance(own, dict) else None
    sent = count(1)

    async def progress(message: str) -> None:
        await context.session.report_progress(next(sent), message=message)

    key = str(key) if key else _header(context, "idempotency-key")
    return Call(params.arguments or {}, _header(context, "authorization"), key, progress)


def _described(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=tool.reads, destructive_hint=not tool.reads)
    return types.Tool(name=tool.name, description=tool.description, input_schema=dict(tool.schema), annotations=hints)


def _result(answer: Answer) -> types.CallToolResult:
    text = types.TextContent(type="text", text=json.dumps(answer.data, ensure_ascii=False, default=str))
    return types.CallToolResult(content=[text], structured_content=dict(answer.data), is_error=answer.failed)


def _header(context: Context, name: str) -> str | None:
    """Return a header of the HTTP request; None on standard input."""
    return None if context.request is None else context.request.headers.get(name)
