"""Routes that answer callbacks by token, and show the tokens to those who may answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from noetl_core.control import callbacks
from noetl_core.control.api.call import BadRequest, Call, Field, Route
from noetl_core.control.api.callers import ANSWERS

ERROR_KEYS = ("kind", "message", "code", "retryable", "details")


HEADER = "noetl-callback-token"


def answer(call: Call) -> dict[str, Any]:
    """The token stands in the path, in a header, or in the body; in the path it is part of a URL, which others may write down."""
    body = call.object()
    said = {"path": call.params.get("token"), "header": call.headers.get(HEADER), "body": body.pop("token", None)}
    tokens = {token for token in said.values() if token}
    if len(tokens) != 1:
        wrong = "says two different tokens" if tokens else "says no token"
        raise BadRequest(f"the request {wrong}", "body.token", "give it once: as `token`, or in the header Noetl-Callback-Token")
    (token,) = tokens
    if body.get("heartbeat") is not None:
        if body != {"heartbeat": True}:
            raise BadRequest("a heartbeat is {heartbeat: true} and nothing else", "body.heartbeat")
        return _reply(callbacks.heartbeat(call.control, token))
    error = _error(body)
    return _reply(callbacks.answer(call.control, token, body.get("data"), error))


def _error(body: dict[str, Any]) -> dict[str, Any] | None:
    status, error = body.get("status", "ok" if "error" not in body else "error"), body.get("error")
    if status not in ("ok", "error"):
        raise BadRequest(f"status is ok or error, not {status!r}", "body.status")
    if status == "ok":
        if error is not None:
            raise BadRequest("an answer with an error has status: error", "body.error")
        return None
    if body.get("data") is not None:
        raise BadRequest("an answer has data or an error", "body.data", "details of an error stand in error.details")
    error = {"message": error} if isinstance(error, str) else {} if error is None else error
    if not isinstance(error, dict):
        raise BadRequest("error is {kind, message, code, retryable, details}, or a text", "body.error")
    for key, kind in {"kind": str, "message": str, "retryable": bool}.items():
        if error.get(key) is not None and type(error[key]) is not kind:
            found = type(error[key]).__name__
            raise BadRequest(f"error.{key} is a JSON {found}; {kind.__name__} is expected", f"body.error.{key}")
    if type(error.get("code")) not in (str, int, type(None)):
        raise BadRequest("error.code is a text or a whole number", "body.error.code")
    for key in error:
        if key not in ERROR_KEYS:
            raise BadRequest(f"unknown key {key!r}", f"body.error.{key}", f"known: {', '.join(ERROR_KEYS)}")
    return error


def _reply(reply: callbacks.Reply) -> dict[str, Any]:
    return {"execution_id": reply.execution_id, "callback": reply.became}


def waiting(call: Call) -> dict[str, Any]:
    return {"callbacks": callbacks.open_callbacks(call.control, call.execution_id)}


ANSWER = {
    "token": Field(str, "the callback's token, unless the header Noetl-Callback-Token or the path says it"),
    "data": Field(object, "the task's result"),
    "status": Field(str, "ok, or error: then the task fails with `error`"),
    "error": Field(object, "{kind, message, code, retryable, details}, or the message"),
    "heartbeat": Field(bool, "true, and nothing else: whoever is to answer is alive"),
}

ROUTES = (
    *(
        Route(
            "POST",
            path,
            summary,
            answer,
            HTTPStatus.ACCEPTED,
            body=ANSWER,
            refuses=(403, 404, 409, 410, 422),
            right=ANSWERS,
        )
        for path, summary in (
            ("/api/callbacks", "Answer a callback, or keep it alive"),
            ("/api/callbacks/{token}", "The same with the token in the path, e.g. from a link"),
        )
    ),
    Route("GET", "/api/executions/{execution_id}/callbacks", "Callbacks that wait, with their tokens", waiting, right=ANSWERS),
)
