"""One request: what it says, checked as it is read; and what a route is."""

from __future__ import annotations

import difflib
import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl_core.control.core import Control
from noetl_core.control.read import MAX_PAGE
from noetl_core.ports import TooLarge

MAX_BODY = 6 * 1024 * 1024
"""Lambda's synchronous payload limit."""


class BadRequest(ValueError):
    """The request is malformed (HTTP 400). Who acts: the caller."""

    def __init__(self, message: str, loc: str = "body", hint: str = "") -> None:
        super().__init__(message)
        self.details = [{"loc": loc, "message": message, "hint": hint}]


class NoRoute(LookupError):
    """No route has this method and path (HTTP 404). Who acts: the caller."""


@dataclass(frozen=True, slots=True)
class Service:
    """What the routes stand on. `control` is asked for at the first request: cold starts stay short."""

    control: Callable[[], Control]
    cursor_key: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and a JSON body."""

    status: int
    body: Mapping[str, Any]


@dataclass(slots=True)
class Call:
    """A request. Header names are in lower case; `params` are the parts of the path that its route names."""

    service: Service
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    base64: bool = False
    request_id: str = ""
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def control(self) -> Control:
        return self.service.control()

    @property
    def execution_id(self) -> str:
        return self.params["execution_id"]

    def text(self) -> str:
        """The body. Raises `BadRequest`, `TooLarge`."""
        try:
            text = b64decode(self.body).decode() if self.base64 else self.body
            size = len(text.encode())
        except ValueError as error:  # not base64, or not UTF-8
            raise BadRequest(f"the body is not text: {error}") from None
        if size > MAX_BODY:
            raise TooLarge(f"the body exceeds {MAX_BODY} bytes")
        return text

    def object(self, *keys: str) -> dict[str, Any]:
        """The JSON object of the body; unknown keys are errors with a suggestion."""
        try:
            value = json.loads(self.text() or "{}", parse_constant=_no_number)
        except BadRequest:
            raise
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"the body is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise BadRequest(f"the body is a JSON {type(value).__name__}; an object is expected")
        for key in value:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(keys)}"
                raise BadRequest(f"unknown key {key!r}", f"body.{key}", hint)
        return value

    def argument(self, name: str) -> str | None:
        """A query parameter; an empty one counts as absent."""
        return self.query.get(name) or None

    def limit(self, default: int) -> int:
        """The page size asked for."""
        text = self.argument("limit")
        if text is None:
            return default
        if not text.isdecimal() or not 1 <= int(text) <= MAX_PAGE:
            raise BadRequest(f"limit is a number from 1 to {MAX_PAGE}", "query.limit")
        return int(text)


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path, what it does in words, the status of success, and the function that answers.

    `{name}` in the path is one segment, `{name+}` one or more. `answer` returns the body, or an `Answer` of another status.
    """

    method: str
    path: str
    summary: str
    answer: Callable[[Call], Mapping[str, Any] | Answer]
    status: int = 200


def _no_number(text: str) -> None:
    raise BadRequest(f"{text} is not JSON: numbers are finite")
