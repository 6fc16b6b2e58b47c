"""One request: what it says, checked as it is read; and what a route is."""

from __future__ import annotations

import difflib
import hmac
import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from noetl_core import strict_json
from noetl_core.control.api.callers import RIGHTS, WRITES, Caller, Rights
from noetl_core.control.core import Control
from noetl_core.control.read import MAX_PAGE
from noetl_core.ports import NotFound, Secrets, TooLarge, Unavailable

MAX_BODY = 6 * 1024 * 1024
"""Lambda's synchronous payload limit."""
MAX_TEXT = 1024
"""Bytes of a part of a path or of a query parameter: DynamoDB refuses sort keys over that."""


class BadRequest(ValueError):
    """The request is malformed (HTTP 400). Who acts: the caller."""

    def __init__(self, message: str, loc: str = "body", hint: str = "") -> None:
        super().__init__(message)
        self.details = [{"loc": loc, "message": message, "hint": hint}]


class NoRoute(LookupError):
    """No route has this method and path (HTTP 404). Who acts: the caller."""


class NotAllowed(Exception):
    """The caller may not do that (HTTP 403). Who acts: whoever gives out rights."""


@dataclass(frozen=True, slots=True)
class Service:
    """What the routes stand on; asked for at the first request that needs it: cold starts stay short.

    `facts` are what only the wiring knows (`api/runtime`): where it runs, its pools and their limits.
    """

    control: Callable[[], Control]
    cursor_key: Callable[[], bytes]
    facts: Mapping[str, Any] = field(default_factory=dict)
    secrets: Callable[[], Secrets] | None = None
    """None: credentials are another function's; this one has no way to them."""
    rights: Callable[[Caller, str], bool | None] = field(default_factory=Rights)
    """Whether a caller has a right; None: who let it in does not say."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and a body: JSON, or a text of another type."""

    status: int
    body: Mapping[str, Any] | str
    content_type: str = "application/json"

    def text(self) -> str:
        """The body as it is sent."""
        return self.body if isinstance(self.body, str) else json.dumps(self.body, separators=(",", ":"), default=str)


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
    caller: Caller = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    route: Route | None = None

    @property
    def control(self) -> Control:
        return self.service.control()

    @property
    def execution_id(self) -> str:
        """The execution the path names. Raises `NotFound` for what no execution's id can be."""
        return execution_id(self.params["execution_id"])

    def demand(self, right: str) -> None:
        """Raises `NotAllowed` where the caller is known not to have `right`."""
        if self.service.rights(self.caller, right) is False:
            raise NotAllowed(f"this caller may not {RIGHTS[right]}: the right `{right}` is needed")

    @property
    def registers(self) -> bool:
        """Whether a playbook that comes as text becomes a version of its path: only of a caller who is known to may register."""
        return self.service.rights(self.caller, WRITES) is True

    def check(self, route: Route) -> None:
        """Take `route`. Unknown query parameters, and texts no store could hold, are errors.

        Raises `NotAllowed`, `BadRequest`.
        """
        self.route = route
        if route.right:
            self.demand(route.right)
        for name in self.query:
            if name not in route.query:
                raise BadRequest(f"unknown parameter {name!r}", f"query.{name}", _nearest(name, route.query))
        for kind, texts in (("path", self.params), ("query", self.query)):
            for name, text in texts.items():
                if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT and name not in ("after", "cursor"):
                    raise BadRequest(f"{name} is longer than {MAX_TEXT} bytes", f"{kind}.{name}")
                if not text.isprintable():
                    raise BadRequest(f"{name} has characters that do not print", f"{kind}.{name}")

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

    def object(self) -> dict[str, Any]:
        """The JSON object of the body, checked against the route's `body`; keys that are null count as absent.

        Raises `BadRequest`, with a suggestion for an unknown key.
        """
        value = self.json()
        if not isinstance(value, dict):
            raise BadRequest(f"the body is a JSON {type(value).__name__}; an object is expected")
        assert self.route is not None
        fields = self.route.body or {}
        for key in value:
            if key not in fields:
                raise BadRequest(f"unknown key {key!r}", f"body.{key}", _nearest(key, fields))
        given = {k: v for k, v in value.items() if v is not None}
        for name, known in fields.items():
            if name not in given:
                if known.required:
                    raise BadRequest(f"{name} is missing", f"body.{name}", known.text)
            elif known.kind is not object and type(given[name]) is not known.kind:  # a bool is no int
                found = type(given[name]).__name__
                raise BadRequest(f"{name} is a JSON {found}; {known.kind.__name__} is expected", f"body.{name}", known.text)
            elif known.required and given[name] == "":
                raise BadRequest(f"{name} is empty", f"body.{name}", known.text)
        return given

    def json(self) -> Any:
        """The JSON value of the body, `{}` for an empty one: finite numbers and whole characters only. Raises `BadRequest`."""
        try:
            return strict_json.loads(self.text() or "{}")
        except BadRequest:
            raise
        except ValueError as error:
            raise BadRequest(f"the body is not JSON: {error}") from None

    def argument(self, name: str) -> str | None:
        """A query parameter; an empty one counts as absent."""
        return self.query.get(name) or None

    def choice(self, name: str, known: Sequence[str]) -> str:
        """A query parameter that is one of `known`, the first by default. Raises `BadRequest`."""
        value = self.argument(name) or known[0]
        if value not in known:
            raise BadRequest(f"there is no {name} {value!r}", f"query.{name}", f"known: {', '.join(known)}")
        return value

    def limit(self, default: int, most: int = MAX_PAGE) -> int:
        """The page size asked for. Raises `BadRequest`."""
        text = self.argument("limit")
        if text is None:
            return default
        if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= most:
            raise BadRequest(f"limit is a number from 1 to {most}", "query.limit")
        return int(text)


@dataclass(frozen=True, slots=True)
class Field:
    """A key of a JSON body: its type (`object`: any), what it means, and whether it must be there."""

    kind: type
    text: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path, what it does in words, the status of success, and the function that answers.

    `{name}` in the path is one segment, `{name+}` one or more. `answer` returns the body, or an `Answer` of another status.
    `query` and `body` say what it takes (`body` None: nothing, or a text that `answer` reads itself), `refuses` which statuses
    it answers with beyond those of every route (400, 404 with a name in the path, 413 with a body, 503).
    """

    method: str
    path: str
    summary: str
    answer: Callable[[Call], Mapping[str, Any] | Answer]
    status: int = 200
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Field] | None = None
    refuses: tuple[int, ...] = ()
    right: str = ""
    """What a caller needs, one of `callers.RIGHTS`; none: anybody who may call the API at all."""


def nothing_here() -> NoReturn:
    """In place of a control plane, where there is none. Raises `NoRoute`."""
    raise NoRoute("this function serves credentials alone")


def cursor_key(control: Callable[[], Control]) -> Callable[[], bytes]:
    """The key cursors are signed with: made from the one that the deployment, or the local store, generated for itself.

    It is read when the first cursor is, once per process.
    """

    def key() -> bytes:
        generated = control().callback_key
        if generated is None:
            raise Unavailable("this process has no key to sign cursors with")
        return hmac.digest(generated(), b"noetl cursors", "sha256")

    return key


def execution_id(text: str) -> str:
    """`text`, if it can be an execution's id: a decimal number below 2^63. Raises `NotFound`."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        raise NotFound(f"there is no execution {text}")
    return text


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known: {', '.join(names)}" if names else "none is known here"
