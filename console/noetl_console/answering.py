"""What the server asks for `/api`, and what it does not pass on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote

WITHHELD = (
    (re.compile(r"^/api/executions/[^/]+/callbacks/?$"), "tokens of callbacks"),
    (re.compile(r"^/api/callbacks/."), "tokens of callbacks"),
    (re.compile(r"^/api/credentials(/|$)"), "credentials"),
)
"""Routes that no page needs and that hand out, or take, what must not be in one."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for the API. `path` is as it was written, `query` without its question mark."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a page is answered."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Answering(Protocol):
    """The API, wherever it is."""

    name: str

    def answer(self, asked: Asked) -> Answered:
        """Answer one request; never raises. Several threads call it."""
        ...

    def close(self) -> None: ...


def withheld(path: str) -> str:
    """What a route would hand out that pages are not given; empty: it is passed on."""
    return next((what for pattern, what in WITHHELD if pattern.match(unquote(path))), "")


def refused(status: int, code: str, message: str) -> Answered:
    """A refusal in the words of the API."""
    said = {"error": {"code": code, "message": message, "details": [], "request_id": ""}}
    return Answered(status, json.dumps(said).encode(), {"content-type": "application/json"})
