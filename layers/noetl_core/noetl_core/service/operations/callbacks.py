"""Shows and answers callbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from noetl_core.api import question_page
from noetl_core.api.refused import BadRequest, nearest
from noetl_core.api.requests.callbacks import (
    ERROR_TYPES,
    HEADER,
    AnswerCallback,
    AnswerCallbackByLink,
    AnswerQuestion,
    AnswerWait,
    ListCallbacks,
    ListPastAnswers,
    ListWaiting,
    ShowQuestion,
)
from noetl_core.control import callbacks
from noetl_core.ports import NotFound
from noetl_core.service.operations.base import Operations
from noetl_core.values import answer_forms
from noetl_core.views.executions import waiting_callbacks
from noetl_core.views.explain import past_answers

if TYPE_CHECKING:
    from noetl_core.api.shapes.executions import CallbackReply, OpenCallback, OpenCallbacks
    from noetl_core.api.shapes.following import PastAnswers, WaitingCallbacks


@ListCallbacks.answered
def list_callbacks(on: Operations, request: ListCallbacks) -> OpenCallbacks:
    found = callbacks.open_callbacks(on.control(), request.execution_id)
    return {"callbacks": cast("list[OpenCallback]", found)}


@ListWaiting.answered
def list_waiting(on: Operations, request: ListWaiting) -> WaitingCallbacks:
    limit = waiting_callbacks.SHOWN if request.limit is None else request.limit
    return waiting_callbacks.waiting_callbacks(on.control(), on.cursor_key, path=request.path, limit=limit, cursor=request.cursor)


@ListPastAnswers.answered
def list_past_answers(on: Operations, request: ListPastAnswers) -> PastAnswers:
    return past_answers.past_answers(on.control(), request.execution_id, request.wait_id)


@AnswerCallback.answered
def answer_callback(on: Operations, request: AnswerCallback) -> CallbackReply:
    return _by_token(on, request, _token(request.header_token, request.token))


@AnswerCallbackByLink.answered
def answer_callback_by_link(on: Operations, request: AnswerCallbackByLink) -> CallbackReply:
    return _by_token(on, request, _token(request.path_token, request.header_token, request.token))


@ShowQuestion.answered
def show_question(on: Operations, request: ShowQuestion) -> str:
    return _page(on, request.token, f"{request.token}/answer")


@AnswerQuestion.answered
def answer_question(on: Operations, request: AnswerQuestion) -> str:
    """Record the answer of a form. It is refused with a page that says what to do."""
    control, texts = on.control(), question_page.typed(request.form)
    try:
        found = callbacks.question(control, request.token)
        if not found.ready:
            return _page(on, request.token, "answer")
        try:
            data = answer_forms.answer_of(found.asked.get("schema"), texts, request.form.get("decision"))
        except ValueError as error:
            return _page(on, request.token, "answer", texts, [str(error)])
        callbacks.answer(control, request.token, data)
    except callbacks.Answered:
        return question_page.notice("Already answered", "Somebody has already given a different answer to this question.", 409)
    except callbacks.Unfit as unfit:
        return _page(on, request.token, "answer", texts, unfit.wrong)
    except (callbacks.Forged, NotFound, callbacks.Gone):
        return _page(on, request.token, "answer")
    return question_page.notice("Thank you", "Your answer has been recorded. You can close this page.", 200)


def _page(
    on: Operations, token: str, action: str, texts: Mapping[str, str] | None = None, wrong: Sequence[str] = ()
) -> question_page.Page:
    """Return the page of a question, or why there is none."""
    try:
        found = callbacks.question(on.control(), token)
    except callbacks.Forged:
        return question_page.notice(
            "This link is not valid",
            "It may have been cut or changed on its way. Please open it from the message that it came in.",
            403,
        )
    except NotFound:
        return question_page.notice("This question is over", "It was asked long ago, and nothing of it is kept.", 404)
    if found.answered:
        return question_page.notice("Already answered", "This question has been answered. There is nothing left to do.", 410)
    if found.over:
        return question_page.notice("Too late", f"This question no longer waits for an answer: {found.over}.", 410)
    if not found.ready:
        return question_page.notice(
            "Not quite ready", "The question is being prepared. Please open this link again in a moment.", 200
        )
    return question_page.question(found.asked, action, texts, wrong, 422 if wrong else 200)


@AnswerWait.answered
def answer_wait(on: Operations, request: AnswerWait) -> CallbackReply:
    if _is_heartbeat(request):
        return _reply(waiting_callbacks.wait_heartbeat(on.control(), request.execution_id, request.wait_id))
    error = _error(request)
    return _reply(waiting_callbacks.answer_wait(on.control(), request.execution_id, request.wait_id, request.data, error))


def _by_token(on: Operations, request: AnswerCallback | AnswerCallbackByLink, token: str) -> CallbackReply:
    if _is_heartbeat(request):
        return _reply(callbacks.heartbeat(on.control(), token))
    return _reply(callbacks.answer(on.control(), token, request.data, _error(request)))


def _token(*places: str | None) -> str:
    """Return the token, which may be in several places of a request. Raises `BadRequest`."""
    tokens = {token for token in places if token}
    if len(tokens) != 1:
        wrong = "contains two different tokens" if tokens else "contains no token"
        raise BadRequest(f"the request {wrong}", "body.token", f"pass it once: as `token`, or in the header {HEADER}")
    return tokens.pop()


def _is_heartbeat(request: AnswerCallback | AnswerCallbackByLink | AnswerWait) -> bool:
    """Return whether a request is a heartbeat. Raises `BadRequest` if it is an answer too."""
    if request.heartbeat is None:
        return False
    if not request.heartbeat or not (request.data is request.status is request.error is None):
        raise BadRequest("a heartbeat must be {heartbeat: true} and nothing else", "body.heartbeat")
    return True


def _error(request: AnswerCallback | AnswerCallbackByLink | AnswerWait) -> dict[str, Any] | None:
    """Return the error with which an answer fails the task, as `{kind, message, code, retryable, details}`, or None. Raises
    `BadRequest`."""
    error = request.error
    if (request.status or ("ok" if error is None else "error")) == "ok":
        if error is not None:
            raise BadRequest("an answer with an error must have status: error", "body.error")
        return None
    if request.data is not None:
        raise BadRequest("an answer has data or an error, not both", "body.data", "write details of an error in error.details")
    if error is None:
        return {}
    if isinstance(error, str):
        return {"message": error}
    if not isinstance(error, Mapping):
        raise BadRequest("error must be {kind, message, code, retryable, details}, or a text", "body.error")
    for key, value in error.items():
        if key not in ERROR_TYPES:
            raise BadRequest(f"unknown key {key!r}", f"body.error.{key}", nearest(key, ERROR_TYPES))
        if value is not None and ERROR_TYPES[key] and type(value) not in ERROR_TYPES[key]:
            types = " or ".join(t.__name__ for t in ERROR_TYPES[key])
            raise BadRequest(f"error.{key} is a JSON {type(value).__name__}; {types} is expected", f"body.error.{key}")
    return dict(error)


def _reply(reply: callbacks.Reply) -> CallbackReply:
    return {"execution_id": reply.execution_id, "callback": reply.became}
