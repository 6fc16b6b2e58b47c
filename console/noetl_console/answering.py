"""The interface behind `/api`, and the routes that pages may not use."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote

WITHHELD = (
    (re.compile(r"^/api/executions/[^/]+/callbacks/?$"), "tokens of callbacks"),
    (re.compile(r"^/api/callbacks/."), "tokens of callbacks"),
    (re.compile(r"^/api/credentials(/|$)"), "credentials"),
)
"""Routes with secrets, which no page needs and no page may contain."""
NAMES = "/api/credentials"
"""The one of them whose names pages get, for forms: GET without a query."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to the API. `path` is not decoded; `query` has no question mark."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer to a page."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Answering(Protocol):
    """The API, wherever it is."""

    name: str

    def answer(self, asked: Asked) -> Answered:
        """Answer one request; never raises. Thread-safe."""
        ...

    def close(self) -> None: ...


class OnRequest:
    """An API that is loaded with the first request, so that nobody waits for it who opens no page."""

    def __init__(self, name: str, load: Callable[[], Answering]) -> None:
        self.name, self._load = name, load
        self._lock = threading.Lock()
        self._api: Answering | None = None

    def answer(self, asked: Asked) -> Answered:
        with self._lock:
            if self._api is None:
                self._api = self._load()
        return self._api.answer(asked)

    def close(self) -> None:
        with self._lock:
            if self._api is not None:
                self._api.close()


def withheld(path: str) -> str:
    """Return the kind of secret for which a route is refused; empty if requests are passed on."""
    return next((what for pattern, what in WITHHELD if pattern.match(unquote(path))), "")


def names_alone(answered: Answered) -> Answered:
    """Return a list of credentials without all but their names."""
    if answered.status != 200:
        return answered
    names = [{"name": each["name"]} for each in json.loads(answered.body)["credentials"]]
    return Answered(200, json.dumps({"credentials": names}).encode(), {"content-type": "application/json"})


def refused(status: int, code: str, message: str) -> Answered:
    """Return a refusal in the format of the API."""
    body = {"error": {"code": code, "message": message, "details": [], "request_id": ""}}
    return Answered(status, json.dumps(body).encode(), {"content-type": "application/json"})
