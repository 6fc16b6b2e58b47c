"""Faults of tools from other distributions end their task, never the worker."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from noetl_core.engine.outcome import ErrorInfo, Outcome
from noetl_core.expr import Secret
from noetl_core.ports import Forbidden, NotFound, TooLarge, Unavailable
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.calls.event_loop import EventLoop
from noetl_core.tools.invoke import invoke, invoke_evented
from noetl_core.values.result_refs import Altered


class Answers:
    """Answers with whatever it was made with; an exception is raised."""

    kind, inline = "odd", True

    def __init__(self, answer: Any) -> None:
        self.answered = answer

    def run(self, call: ToolCall) -> Any:
        if isinstance(self.answered, Exception):
            raise self.answered
        return self.answered(call) if callable(self.answered) else self.answered

    async def answer(self, call: ToolCall, loop: EventLoop) -> Any:
        await asyncio.sleep(0.001)
        return self.run(call)


class Stores(Answers):
    """It stores what it is given."""

    takes_secrets = False


def on_thread(tool: Answers, call: ToolCall) -> Outcome:
    return invoke(tool, call)


def on_loop(tool: Answers, call: ToolCall) -> Outcome:
    with EventLoop() as loop:
        return loop.run(invoke_evented(tool, call, loop), threading.Event())


@pytest.fixture(params=[on_thread, on_loop])
def asked(request: pytest.FixtureRequest) -> Callable[[Answers, ToolCall], Outcome]:
    way: Callable[[Answers, ToolCall], Outcome] = request.param
    return way


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (None, "unknown", "odd: the tool answered None, which is not an outcome"),
        ({"status": "ok"}, "unknown", "odd: the tool answered {'status': 'ok'}, which is not an outcome"),
        (Outcome("done"), "unknown", "odd: the tool answered Outcome(status='done'"),  # type: ignore[arg-type]
        (Outcome("error"), "unknown", "odd: the tool failed without an error"),
        (Outcome("error", error=ErrorInfo("timeout", False)), "timeout", "False"),  # type: ignore[arg-type]
        (Outcome("error", error=ErrorInfo("boom", "text")), "unknown", "text"),  # type: ignore[arg-type]
    ],
)
def test_an_odd_answer_is_a_failure_that_says_so(
    asked: Callable[[Answers, ToolCall], Outcome], answer: Any, kind: str, message: str
) -> None:
    outcome = asked(Answers(answer), ToolCall("odd", {}))
    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error.kind == kind
    assert outcome.error.message.startswith(message)


@pytest.mark.parametrize(
    ("raised", "kind", "retryable"),
    [
        (BadInput("x"), "schema", False),
        (TooLarge("x"), "limit", False),
        (NotFound("x"), "not_found", False),
        (Forbidden("x"), "auth", False),
        (Altered("1/x"), "storage", False),
        (Unavailable("x"), "storage", None),
        (KeyError("x"), "unknown", None),
    ],
)
def test_an_exception_of_a_tool_becomes_an_outcome(
    asked: Callable[[Answers, ToolCall], Outcome], raised: Exception, kind: str, retryable: bool | None
) -> None:
    error = asked(Answers(raised), ToolCall("odd", {})).error
    assert error is not None and "x" in error.message
    assert (error.kind, error.retryable) == (kind, retryable)


def test_a_tool_gets_secrets_opened_and_its_answer_is_without_them(asked: Callable[[Answers, ToolCall], Outcome]) -> None:
    got = list[Any]()

    def echoes(call: ToolCall) -> Outcome:
        got.append(call.inputs["token"])
        call.log(f"sent {call.inputs['token']}")
        return Outcome.ok({"echo": call.inputs["token"]})

    logged = list[str]()
    outcome = asked(
        Answers(echoes), ToolCall("odd", {"token": Secret("s3cr3t-value")}, log=lambda line, _="": logged.append(line))
    )
    assert got == ["s3cr3t-value"] and outcome.result == {"echo": "***"} and logged == ["sent ***"]


@pytest.mark.parametrize(
    ("secret", "returned", "shown"),
    [
        ({"t": "s3cr3t-value", "b": "x"}, lambda s: s, "***"),
        ({"t": "s3cr3t-value", "b": "x"}, lambda s: {"all": [s], "n": 1}, {"all": ["***"], "n": 1}),
        ([1, 2, 3], lambda s: {"list": s}, {"list": "***"}),
        ({"page": {"id": 7}}, lambda s: s["page"], {"id": 7}),
        ({}, lambda s: s, {}),
        ([], lambda s: [s, []], [[], []]),
    ],
)
def test_a_secret_that_is_returned_as_a_whole_is_hidden_with_its_short_parts(
    asked: Callable[[Answers, ToolCall], Outcome], secret: Any, returned: Callable[[Any], Any], shown: Any
) -> None:
    def echoes(call: ToolCall) -> Outcome:
        return Outcome.ok(returned(json.loads(json.dumps(call.inputs["token"]))))

    assert asked(Answers(echoes), ToolCall("odd", {"token": Secret(secret)})).result == shown


def test_helpers_and_meta_stay_mappings_if_a_secret_equals_them(asked: Callable[[Answers, ToolCall], Outcome]) -> None:
    py = {"exception_type": "ValueError", "message": "x"}
    for secret in ({"py": py}, py):
        answer = Outcome("ok", result=1, helpers={"py": py}, meta={"py": py})
        outcome = asked(Answers(answer), ToolCall("odd", {"token": Secret(secret)}))
        assert isinstance(outcome.helpers, dict) and isinstance(outcome.meta, dict)
        assert "x" not in (str(outcome.helpers["py"]) if secret is py else "")


def test_a_tool_that_stores_its_inputs_refuses_secrets(asked: Callable[[Answers, ToolCall], Outcome]) -> None:
    tool = Stores(Outcome.ok(1))
    assert asked(tool, ToolCall("odd", {"a": 1})).status == "ok"
    error = asked(tool, ToolCall("odd", {"a": Secret("s3cr3t-value")})).error
    assert error is not None and error.kind == "schema" and "refuses secrets" in error.message
