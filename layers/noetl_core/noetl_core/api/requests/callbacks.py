"""Operations that show and answer callbacks: by token, or by execution and wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from noetl_core.api.fields import ExecutionId, Field, number
from noetl_core.api.request import HTML, Caller, Http, Operation, Request
from noetl_core.api.requests.executions import EXECUTION, Cursor
from noetl_core.api.rights import ANSWERS, READS
from noetl_core.values.request_bounds import MAX_PAGE

if TYPE_CHECKING:
    from noetl_core.api.shapes import executions as executions_shapes
    from noetl_core.api.shapes import following as following_shapes

PAGES: Final = (403, 404, 409, 410, 422)
"""Statuses of pages that explain why a link is not valid."""
HEADER: Final = "Noetl-Callback-Token"
ERROR_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "kind": (str,),
    "message": (str,),
    "code": (str, int),
    "retryable": (bool,),
    "details": (),
}
"""Keys of an error and their types (none: any)."""
_NAMES: Final = {str: "string", int: "integer", bool: "boolean"}
_NULL: Final = {"type": "null"}
ERROR_SCHEMA: Final = {
    "anyOf": [
        {
            "type": "object",
            "properties": {
                key: {"anyOf": [*({"type": _NAMES[t]} for t in types), _NULL]} if types else {}
                for key, types in ERROR_TYPES.items()
            },
            "additionalProperties": False,
        },
        {"type": "string"},
        _NULL,
    ]
}
Data = Annotated[Any, "the task's result"]
Status = Annotated[Literal["ok", "error"] | None, "ok, or error: then the task fails with `error`"]
Error = Annotated[Any, Field("{kind, message, code, retryable, details}, or the message alone", schema=ERROR_SCHEMA)]
Heartbeat = Annotated[bool | None, "true, without data, status or error: the answerer is alive"]
BodyToken = Annotated[str | None, f"the callback's token, unless the header {HEADER} or the path contains it"]
HeaderToken = Annotated[str | None, Field("as `token` in the body", HEADER, place="header")]


class AnswerCallback(Request["executions_shapes.CallbackReply"]):
    """Answer a callback, or keep it alive."""

    http = Http("POST", "/api/callbacks", ANSWERS, HTTPStatus.ACCEPTED, (403, 404, 409, 410, 422), body="Answer")
    _: KW_ONLY
    data: Data = None
    status: Status = None
    error: Error = None
    heartbeat: Heartbeat = None
    token: BodyToken = None
    header_token: HeaderToken = None


class AnswerCallbackByLink(Request["executions_shapes.CallbackReply"]):
    """Answer a callback, or keep it alive, with the token in the path, e.g. from a link."""

    http = Http(
        "POST", "/api/callbacks/{token}", ANSWERS, HTTPStatus.ACCEPTED, (403, 404, 409, 410, 422), body="Answer", optional=True
    )
    path_token: Annotated[str, Field("the callback's token", "token", place="path")]
    _: KW_ONLY
    data: Data = None
    status: Status = None
    error: Error = None
    heartbeat: Heartbeat = None
    token: Annotated[
        str | None, Field(f"the callback's token, unless the header {HEADER} or the path contains it", place="body")
    ] = None
    header_token: HeaderToken = None


class ShowQuestion(Request[str]):
    """The question of a callback as a page with its form, for people who open the link `callback.url`. It changes nothing."""

    http = Http("GET", "/api/callbacks/{token}", ANSWERS, also=PAGES, media=(HTML,))
    token: Annotated[str, "the callback's token"]

    def success(self, answer: Any) -> int:
        return int(answer.status)

    def content_type(self) -> str:
        return HTML


class AnswerQuestion(Request[str]):
    """Answer a callback with the form of its page."""

    http = Http("POST", "/api/callbacks/{token}/answer", ANSWERS, also=PAGES, media=(HTML,))
    token: Annotated[str, "the callback's token"]
    form: Annotated[Mapping[str, str], Field("the fields of the page's form", place="form")]

    success = ShowQuestion.success
    content_type = ShowQuestion.content_type


class AnswerWait(Request["executions_shapes.CallbackReply"]):
    """Answer a waiting callback, or keep it alive, without its token."""

    http = Http("POST", f"{EXECUTION}/callbacks/{{wait_id}}", ANSWERS, HTTPStatus.ACCEPTED, (410,), body="Said", optional=True)
    execution_id: ExecutionId
    wait_id: Annotated[str, "the `wait_id` of the callback"]
    _: KW_ONLY
    data: Data = None
    status: Status = None
    error: Error = None
    heartbeat: Heartbeat = None


class ListCallbacks(Request["executions_shapes.OpenCallbacks"]):
    """Waiting callbacks of an execution, with their tokens."""

    http = Http("GET", f"{EXECUTION}/callbacks", right=ANSWERS)
    execution_id: ExecutionId


class ListWaiting(Request["following_shapes.WaitingCallbacks"]):
    """Waiting callbacks of all executions, without their tokens."""

    http = Http("GET", "/api/callbacks", right=READS)
    _: KW_ONLY
    status: Annotated[Literal["waiting"], "`waiting` is the only value"] = "waiting"
    path: Annotated[str | None, "only callbacks of this playbook"] = None
    limit: Annotated[int | None, number("approximate maximum number; callbacks of one execution stay together", 1, MAX_PAGE)] = (
        None
    )
    cursor: Cursor = None


class ListPastAnswers(Request["following_shapes.PastAnswers"]):
    """Outcomes of earlier answers to a waiting callback, in past executions of the playbook."""

    http = Http("GET", f"{EXECUTION}/past-answers", right=READS)
    execution_id: ExecutionId
    wait_id: Annotated[str, "the `wait_id` of the callback"]


class CallbacksApi(Caller):
    """Methods that show and answer callbacks."""

    callbacks = Operation(ListCallbacks)
    past_answers = Operation(ListPastAnswers)

    def waiting_callbacks(
        self, *, path: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> following_shapes.WaitingCallbacks:
        """Return a page of the waiting callbacks of all executions, without their tokens."""
        return self.call(ListWaiting(path=path, limit=limit, cursor=cursor))

    def answer_wait(
        self, execution_id: str, wait_id: str, data: Any = None, error: Mapping[str, Any] | str | None = None
    ) -> executions_shapes.CallbackReply:
        """Answer a waiting callback, by its execution and `wait_id`."""
        return self.call(AnswerWait(execution_id, wait_id, data=data, error=error, status=_status(error)))

    def wait_heartbeat(self, execution_id: str, wait_id: str) -> executions_shapes.CallbackReply:
        """Keep a waiting callback alive."""
        return self.call(AnswerWait(execution_id, wait_id, heartbeat=True))

    def answer_callback(
        self, token: str, data: Any = None, error: Mapping[str, Any] | str | None = None
    ) -> executions_shapes.CallbackReply:
        """Answer a callback by its token."""
        return self.call(AnswerCallback(token=token, data=data, error=error, status=_status(error)))

    def callback_heartbeat(self, token: str) -> executions_shapes.CallbackReply:
        """Keep a callback alive by its token."""
        return self.call(AnswerCallback(token=token, heartbeat=True))


def _status(error: object) -> Literal["error"] | None:
    return None if error is None else "error"
