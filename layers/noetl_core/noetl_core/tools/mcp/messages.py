"""The messages of the Model Context Protocol as values: JSON-RPC, alone or in an event stream, and the meanings of its errors."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Final

from noetl_core.engine.outcome import ErrorInfo, ErrorKind, Outcome
from noetl_core.tools.http.request import HEADER_NAME
from noetl_core.values import strict_json
from noetl_core.values.frozen import frozen

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
HEADERS_LACK: Final = frozenset({-32020, -32001})
"""The headers are not those that the request must have; the second number is that of drafts of the revision."""
_UNSUPPORTED: Final = frozenset({-32022, -32021, -32042})
"""Another revision, a client capability, a person at an address: not supported here."""
_MALFORMED: Final = frozenset({-32700, -32600})
_BY_STATUS: Final = frozenset({"auth", "rate_limit", "timeout", "server_error"})
"""Kinds of error that the HTTP status describes better than the message in the body."""
TOLD: Final = 500
_LINES: Final = re.compile("\r\n|\n|\r")
_CODE: Final = re.compile(r'"code"\s*:\s*(-?\d{1,9})')
_PLAIN: Final = re.compile(r"(?! )[\x20-\x7e]+(?<! )")

Notice = Callable[[Mapping[str, Any]], None]
"""Handles a message that came before the answer."""


@frozen
class Reply:
    """The reply to one request: a result, or a failure."""

    result: Mapping[str, Any] = field(default_factory=dict)
    failure: Outcome | None = None
    status: int | None = None
    code: int | None = None
    """The number of a JSON-RPC error."""
    headers: Mapping[str, str] = field(default_factory=dict)


def read_reply(answered: Outcome, number: int, notice: Notice) -> Reply:
    """Return the reply in the answer of `http` to request `number`; `notice` gets other messages of it."""
    if answered.error is not None:
        return _refused(answered)
    status, headers, data = (answered.result[name] for name in ("status", "headers", "data"))
    try:
        streamed = headers.get("content-type", "").lower().startswith("text/event-stream")
        messages = _streamed(str(data or "")) if streamed else data if isinstance(data, list) else [data]
        answer = _answer(messages, number, notice)
    except ValueError as error:
        return Reply(
            failure=_failed("parse", f"the answer is not a message of the protocol: {error}", retryable=False), status=status
        )
    if answer is None and streamed:
        failure = _failed("connection", "the event stream ended without an answer", code="stream_ended")
        return Reply(failure=failure, status=status, headers=headers)
    if answer is None:
        failure = _failed("parse", "the answer is not that of an MCP server: is `url` the address of one?", retryable=False)
        return Reply(failure=failure, status=status, headers=headers)
    if answer.get("error") is not None:
        return _reply_of(_error_of(answer["error"]), status, headers)
    result = answer.get("result")
    if not isinstance(result, Mapping):
        return Reply(failure=_failed("parse", "the answer has no result", retryable=False), status=status, headers=headers)
    if result.get("resultType", "complete") != "complete":
        message = f"the server requires a reply that this kind does not support: {str(result['resultType'])[:64]}"
        return Reply(failure=_failed("unsupported", message, retryable=False), status=status, headers=headers)
    return Reply(result, None, status, None, headers)


def events(text: str) -> Iterator[str]:
    """Yield the data of each event of a stream, including the received part of an event that is cut off."""
    held: list[str] = []
    for line in _LINES.split(text.removeprefix("\ufeff")):
        name, _, value = line.partition(":")
        if name == "data":
            held.append(value.removeprefix(" "))
        elif not line and held:
            yield "\n".join(held)
            held = []
    if held:
        yield "\n".join(held)


def header_text(value: str) -> str:
    """Return a value as headers of the protocol have it: as it is, or in Base64."""
    if _PLAIN.fullmatch(value) and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def mirrored(schema: Any, arguments: Any) -> dict[str, str]:
    """Return the headers in which arguments must also be sent, according to a tool's schema (`x-mcp-header`)."""
    found: dict[str, str] = {}
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not isinstance(arguments, Mapping):
        return found
    for name, about in properties.items():
        value, header = arguments.get(name), about.get("x-mcp-header") if isinstance(about, Mapping) else None
        if isinstance(header, str) and HEADER_NAME.fullmatch(header) and isinstance(value, str | int):
            found[f"Mcp-Param-{header}"] = header_text(str(value).lower() if isinstance(value, bool) else str(value))
        else:
            found |= mirrored(about, value)
    return found


def _failed(kind: ErrorKind, message: str, *, retryable: bool | None = None, code: str | int | None = None) -> Outcome:
    return Outcome.failed(kind, f"mcp: {message}", retryable=retryable, code=code)


def _streamed(text: str) -> list[Any]:
    """Return the messages of an event stream. An incomplete event at the end is left out. Raises `ValueError`."""
    found = [event for event in events(text) if event]  # servers begin a stream with an empty event
    messages: list[Any] = []
    for n, event in enumerate(found):
        try:
            message = strict_json.loads(event)
        except ValueError:
            if n == len(found) - 1 and not text.endswith(("\n", "\r")):
                break
            raise
        messages += message if isinstance(message, list) else [message]
    return messages


def _answer(messages: list[Any], number: int, notice: Notice) -> Mapping[str, Any] | None:
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        if "method" in message:
            notice(message)
        elif message.get("id") == number or (message.get("id") is None and "error" in message):
            return message
    return None


@frozen
class _RpcError:
    code: int
    message: str
    data: Any = None


def _error_of(error: Any) -> _RpcError:
    fields = error if isinstance(error, Mapping) else {}
    code = fields.get("code")
    data = fields.get("data")
    return _RpcError(code if isinstance(code, int) else 0, str(fields.get("message") or "no reason given")[:TOLD], data)


def _reply_of(error: _RpcError, status: int | None, headers: Mapping[str, str]) -> Reply:
    kind: ErrorKind = "server_error"
    retryable: bool | None = False if error.code in _MALFORMED else None
    if error.code == METHOD_NOT_FOUND:
        kind, retryable = "not_found", False
    elif error.code == INVALID_PARAMS:
        kind, retryable = "schema", False
    elif error.code in _UNSUPPORTED:
        kind, retryable = "unsupported", False
    details = None if error.data is None else {"data": error.data}
    failure = Outcome.failed(kind, f"mcp: {error.message}", retryable=retryable, code=error.code, details=details)
    return Reply(failure=failure, status=status, code=error.code, headers=headers)


def _refused(answered: Outcome) -> Reply:
    """Return the reply of a request with an HTTP error: the message in its body, if there is one."""
    error = answered.error
    assert error is not None
    details = dict(error.details) if isinstance(error.details, Mapping) else {}
    http = answered.helpers.get("http", {})
    status = http.get("status")
    if "retry_after" in http:
        details["retry_after"] = http["retry_after"]
    failed = Outcome("error", error=replace(error, message=f"mcp: {error.message}", details=details or None))
    rpc_error = _rpc_error(str(details.get("body", "")))
    if rpc_error is None:
        return Reply(failure=failed, status=status)
    if error.kind in _BY_STATUS:
        changed = replace(_info(failed), message=f"mcp: {rpc_error.message}")
        return Reply(failure=replace(failed, error=changed), status=status, code=rpc_error.code)
    return _reply_of(rpc_error, status, {})


def _info(failed: Outcome) -> ErrorInfo:
    assert failed.error is not None
    return failed.error


def _rpc_error(body: str) -> _RpcError | None:
    """Return the JSON-RPC error of a body, which may be cut off."""
    try:
        found = json.loads(body)
    except ValueError:
        code = _CODE.search(body) if '"jsonrpc"' in body else None
        return _RpcError(int(code[1]), body[:TOLD]) if code else None
    if isinstance(found, Mapping) and "jsonrpc" in found and isinstance(found.get("error"), Mapping):
        return _error_of(found["error"])
    return None
