"""Routes that answer callbacks by token, and show the tokens to those who may answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Path
from pydantic import Field, WithJsonSchema

from noetl_core.client import following_shapes, shapes
from noetl_core.control.api.callers import ANSWERS, READS
from noetl_core.control.api.parameters import ExecutionId, Flag, JsonBody, Limit, Text, asked
from noetl_core.control.api.resolver import Resolver
from noetl_core.control.operations import ERROR_TYPES
from noetl_core.control.refusals import BadRequest

HEADER = "Noetl-Callback-Token"
WaitId = Annotated[str, Path(description="the `wait_id` of the callback")]


TYPES = {str: "string", int: "integer", bool: "boolean"}
NULL = {"type": "null"}
ERROR_OBJECT = {
    "type": "object",
    "properties": {
        key: {"anyOf": [*({"type": TYPES[t]} for t in types), NULL]} if types else {} for key, types in ERROR_TYPES.items()
    },
    "additionalProperties": False,
}


class Said(JsonBody):
    """The answer to a callback, or a heartbeat."""

    data: Any = Field(default=None, description="the task's result")
    status: Literal["ok", "error"] | None = Field(default=None, description="ok, or error: then the task fails with `error`")
    error: Annotated[Any, WithJsonSchema({"anyOf": [ERROR_OBJECT, {"type": "string"}, NULL]})] = Field(
        default=None, description="{kind, message, code, retryable, details}, or the message"
    )
    heartbeat: Flag | None = Field(default=None, description="true, and nothing else: whoever is to answer is alive")

    def failure(self) -> Any:
        """The error it fails the task with; None: it does not. Raises `BadRequest` where it says two things at once."""
        if (self.status or ("ok" if self.error is None else "error")) == "ok":
            if self.error is not None:
                raise BadRequest("an answer with an error has status: error", "body.error")
            return None
        if self.data is not None:
            raise BadRequest("an answer has data or an error", "body.data", "details of an error stand in error.details")
        return {} if self.error is None else self.error

    @property
    def beats(self) -> bool:
        """Whether it is a heartbeat. Raises `BadRequest` where it says more."""
        if self.heartbeat is None:
            return False
        if not self.heartbeat or self.model_fields_set - {"token"} != {"heartbeat"}:
            raise BadRequest("a heartbeat is {heartbeat: true} and nothing else", "body.heartbeat")
        return True


class Answer(Said):
    """The answer to a callback, or a heartbeat."""

    token: Text | None = Field(default=None, description=f"the callback's token, unless the header {HEADER} or the path says it")


EMPTY = Answer()
NOTHING = Said()


def one_token(*said: str | None) -> str:
    """The token that a request says in one place or several. In a path it is part of a URL, which others may write down. Raises
    `BadRequest`."""
    tokens = {token for token in said if token}
    if len(tokens) != 1:
        wrong = "says two different tokens" if tokens else "says no token"
        raise BadRequest(f"the request {wrong}", "body.token", f"give it once: as `token`, or in the header {HEADER}")
    return tokens.pop()


Token = Annotated[str | None, Header(alias=HEADER, description="as `token` in the body")]


def add(app: Resolver) -> None:
    """Add them."""
    operations = app.service.operations
    told: dict[str, Any] = {"right": ANSWERS, "status": HTTPStatus.ACCEPTED, "refuses": (403, 404, 409, 410, 422)}

    def answered(token: str, body: Answer) -> Any:
        if body.beats:
            return operations.callback_heartbeat(token)
        return operations.answer_callback(token, body.data, body.failure())

    @app.operation("POST", "/api/callbacks", "Answer a callback, or keep it alive", shapes.CallbackReply, **told)
    def answer_callback(body: Annotated[Answer, Body()], header: Token = None) -> Any:
        return answered(one_token(header, body.token), body)

    @app.operation(
        "POST", "/api/callbacks/{token}", "The same with the token in the path, e.g. from a link", shapes.CallbackReply, **told
    )
    def answer_callback_by_link(
        token: Annotated[str, Path(description="the callback's token")],
        body: Annotated[Answer, Body()] = EMPTY,
        header: Token = None,
    ) -> Any:
        return answered(one_token(token, header, body.token), body)

    @app.operation(
        "GET",
        "/api/executions/{execution_id}/callbacks",
        "Callbacks that wait, with their tokens",
        shapes.OpenCallbacks,
        right=ANSWERS,
    )
    def list_callbacks(execution_id: ExecutionId) -> Any:
        return operations.callbacks(execution_id)

    @app.operation(
        "GET",
        "/api/callbacks",
        "Callbacks that wait, over all executions, without their tokens",
        following_shapes.WaitingCallbacks,
        right=READS,
    )
    def list_waiting(
        status: Annotated[Literal["waiting"], asked("those that wait; there are no others")] = "waiting",
        path: Annotated[str | None, asked("of this playbook")] = None,
        limit: Annotated[Limit | None, asked("about so many; those of one execution stay together")] = None,
        cursor: Annotated[str | None, asked("go on after the page that gave this cursor")] = None,
    ) -> Any:
        return operations.waiting_callbacks(path=path, limit=limit, cursor=cursor)

    @app.operation(
        "POST",
        "/api/executions/{execution_id}/callbacks/{wait_id}",
        "Answer a callback that waits, or keep it alive, without its token",
        shapes.CallbackReply,
        right=ANSWERS,
        status=HTTPStatus.ACCEPTED,
        refuses=(410, 422),
    )
    def answer_wait(execution_id: ExecutionId, wait_id: WaitId, body: Annotated[Said, Body()] = NOTHING) -> Any:
        if body.beats:
            return operations.wait_heartbeat(execution_id, wait_id)
        return operations.answer_wait(execution_id, wait_id, body.data, body.failure())
