"""`kind: lambda`: what is asked of Lambda, and what its answers become. The answers are botocore's stubs."""

from __future__ import annotations

import io
import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.stub import ANY, Stubber

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import Forbidden
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.functions import LambdaTool, function_name
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.invoke import invoke
from tests.contract.aws import environment


@pytest.fixture
def stub() -> Iterator[Stubber]:
    with environment(), Stubber(client("lambda", None, 60)) as stubbed:
        yield stubbed


def call(**inputs: Any) -> Outcome:
    return invoke(
        LambdaTool(), ToolCall("lambda", {"function": "f", **inputs}, timeout_s=30, task_run_id="run", execution_id="1")
    )


def answers(stub: Stubber, payload: bytes, status: int = 200, **more: Any) -> None:
    stub.add_response(
        "invoke",
        {"StatusCode": status, "Payload": io.BytesIO(payload), **more},
        {"FunctionName": ANY, "InvocationType": ANY, "Payload": ANY, "ClientContext": ANY} if status == 200 else None,
    )


def test_a_function_gets_its_payload_and_the_task_run_and_its_answer_is_the_result(stub: Stubber) -> None:
    asked: dict[str, Any] = {}
    client("lambda", None, 60).meta.events.register(
        "provide-client-params.lambda.Invoke", lambda params, **_: asked.update(params)
    )
    answers(stub, b'{"ok": [1]}', ExecutedVersion="3")
    assert call(payload={"ü": 1}).result == {"status": 200, "payload": {"ok": [1]}, "version": "3"}
    assert json.loads(asked["Payload"]) == {"ü": 1}
    custom = json.loads(b64decode(asked["ClientContext"]))["custom"]
    assert custom == {"noetl_execution_id": "1", "noetl_task_run_id": "run"}


def test_an_event_invocation_does_not_wait_for_an_answer(stub: Stubber) -> None:
    answers(stub, b"", 202)
    assert call(invocation="event").result == {"status": 202, "payload": None, "version": None}


@pytest.mark.parametrize(
    ("payload", "code", "told"),
    [
        (b'{"errorMessage": "no stock", "errorType": "Empty"}', "Empty", "lambda: f failed: no stock"),
        (b"not json", "Unhandled", "lambda: f failed: Unhandled"),
        (b'"text"', "Unhandled", "lambda: f failed: Unhandled"),
    ],
)
def test_a_function_that_fails_fails_the_task(stub: Stubber, payload: bytes, code: str, told: str) -> None:
    answers(stub, payload, FunctionError="Unhandled")
    error = call().as_dict()["error"]
    assert (error["kind"], error["retryable"], error["code"], error["message"]) == ("server_error", False, code, told)


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("ResourceNotFoundException", "not_found", False),
        ("TooManyRequestsException", "rate_limit", True),
        ("AccessDeniedException", "auth", False),
        ("ServiceException", "server_error", True),
    ],
)
def test_an_error_of_lambda_becomes_an_outcome_with_its_kind(stub: Stubber, code: str, kind: str, retryable: bool) -> None:
    stub.add_client_error("invoke", code, http_status_code=500 if code == "ServiceException" else 400)
    error = call().as_dict()["error"]
    assert (error["kind"], error["retryable"]) == (kind, retryable)


def test_a_payload_over_lambdas_limit_is_not_sent(stub: Stubber) -> None:
    assert call(payload="x" * (1024 * 1024), invocation="event").as_dict()["error"]["kind"] == "limit"


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("f", "f"),
        ("f:live", "f"),
        ("arn:aws:lambda:us-east-1:123456789012:function:f", "f"),
        ("arn:aws:lambda:us-east-1:123456789012:function:f:live", "f"),
    ],
)
def test_a_function_name_is_taken_without_arn_and_qualifier(function: str, name: str) -> None:
    assert function_name(function) == name


@pytest.mark.parametrize("right", ["function", "123456789012", "us-east-1"])
def test_the_invoked_function_is_the_one_whose_right_was_checked(
    right: str, stub: Stubber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lambda reads `function:x` and `123456789012:x` as the function `x`."""
    monkeypatch.setenv("STACK_RESOURCES", '{"functions": ["noetl-admit"]}')
    monkeypatch.setenv("NOETL_TOOL_FUNCTIONS", "*")
    stub.add_response(
        "invoke",
        {"StatusCode": 200, "Payload": io.BytesIO(b"1")},
        {"FunctionName": right, "Qualifier": "noetl-admit", "InvocationType": ANY, "Payload": ANY, "ClientContext": ANY},
    )
    assert call(function=f"{right}:noetl-admit").result["payload"] == 1


@pytest.mark.parametrize(
    "function", [":f", "a:b:c", "f:", "arn:aws:lambda:us-east-1:123456789012:layer:f", "a/../b", "f\n", "us-east-1:1:f"]
)
def test_text_that_names_no_function_is_refused(function: str) -> None:
    with pytest.raises(BadInput):
        function_name(function)


def test_the_engines_own_functions_are_closed_by_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACK_RESOURCES", '{"functions": ["noetl-admit"]}')
    monkeypatch.setenv("NOETL_TOOL_FUNCTIONS", "*")
    for function in ("noetl-admit", "noetl-admit:live", "arn:aws:lambda:us-east-1:123456789012:function:noetl-admit"):
        assert "the engine's own" in call(function=function).as_dict()["error"]["message"]
    with pytest.raises(Forbidden):
        rights.check(rights.FUNCTIONS, "noetl-admit")
