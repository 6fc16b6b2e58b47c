"""Tools, and the answers of their calls. They know nothing of the protocol."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from noetl_cli.errors import USAGE, Exit
from noetl_core.values.frozen import frozen
from noetl_core.values.json_schema import problems

Schema = Mapping[str, Any]
PAGE: Final = 20_000
"""The most characters of a text in an answer; the next page follows on request."""
LARGEST: Final = 6 * 1024 * 1024
"""Bytes of the largest call: the limit of the API."""
OFFSET: Final[Schema] = {"type": "integer", "minimum": 0, "description": "`next_offset` of the previous answer: the next page"}


@frozen
class Answer:
    """The answer of a call: JSON data. `failed` marks a failure, for the model that has called."""

    data: Mapping[str, Any]
    failed: bool = False


@frozen
class Call:
    """A call. `authorization` is the header of its HTTP request; None on standard input. `progress` tells the client that the
    call goes on."""

    arguments: Mapping[str, Any]
    authorization: str | None
    idempotency_key: str | None
    progress: Callable[[str], Awaitable[None]]


@frozen
class Tool:
    """A tool. `reads`: it changes nothing."""

    name: str
    description: str
    schema: Schema
    run: Callable[[Call], Awaitable[Answer]]
    reads: bool = False


def inputs(*required: str, **properties: Schema) -> Schema:
    """Return the schema of the inputs of a tool."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def check(arguments: Mapping[str, Any], schema: Schema) -> None:
    """Raise `Exit(2)` if the arguments are too large, or do not match the schema."""
    if len(json.dumps(arguments)) > LARGEST:
        raise Exit(USAGE, f"arguments exceed {LARGEST:,} bytes")
    if found := problems(arguments, schema, "arguments"):
        raise Exit(USAGE, "\n".join(found))


def page(text: str, offset: int, name: str = "text") -> dict[str, Any]:
    """Return the page of a text that begins at `offset`; `next_offset` if more follows."""
    end = offset + PAGE
    more = {"next_offset": end} if end < len(text) else {}
    return {name: text[offset:end], "characters": len(text), **more}
