"""Answers about the service itself and credentials, and error responses, as typed dictionaries."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

# --- the service ------------------------------------------------------------------------------------------------------------


class Wiring(TypedDict, total=False):
    """The deployment of the service."""

    name: str
    stack: str
    region: str


class Health(TypedDict):
    """The health of the service, and its identity."""

    status: Literal["ok"]
    version: str
    api_version: str
    wiring: Wiring


class Waiting(TypedDict):
    """Messages of one queue."""

    waiting: int
    in_flight: int
    delayed: int


class Backlog(TypedDict):
    """Messages by queue, and dead letters."""

    pools: dict[str, Waiting]
    control: Waiting
    dead_letters: dict[str, int]


class Runtime(Wiring):
    """The pools that run work, and the available kinds."""

    version: str
    kinds: list[str]
    pools: dict[str, dict[str, Any]]


# --- credentials ------------------------------------------------------------------------------------------------------------


class By(TypedDict):
    """The author of a request, and the client: `api`, `cli`, `console`, ..."""

    principal: str
    source: str


class Credential(TypedDict):
    """A credential. `paths` are patterns of the playbooks that may use it, null: all. `data` is its content, for
    callers who may read it."""

    name: str
    type: NotRequired[str]
    description: NotRequired[str]
    fields: NotRequired[list[str]]
    paths: NotRequired[list[str] | None]
    by: NotRequired[By]
    """The author of its current value."""
    data: NotRequired[dict[str, Any]]


class Credentials(TypedDict):
    """The existing credentials."""

    credentials: list[Credential]


class Deleted(TypedDict):
    """A deleted credential."""

    name: str
    deleted: bool


# --- refusals ---------------------------------------------------------------------------------------------------------------


class Detail(TypedDict):
    """An error of a request: location, message and hint. For a playbook, it also has the keys of a diagnostic."""

    loc: str
    message: str
    hint: str
    code: NotRequired[str]
    severity: NotRequired[str]
    page: NotRequired[str | None]
    line: NotRequired[int]
    col: NotRequired[int]


class Refusal(TypedDict):
    """The reason why a request was refused; `request_id` identifies it in the service's log."""

    code: str
    message: str
    details: list[Detail]
    request_id: str


class ErrorBody(TypedDict):
    """The answer to every refused request."""

    error: Refusal
