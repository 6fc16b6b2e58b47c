"""Asks over Lambda: what each failure of the call is to the worker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError

from noetl_core.adapters.aws import asks
from noetl_core.engine.records import Ask, Command
from noetl_core.log.codec import encode_ask, encode_command
from noetl_core.ports import AskFailed

ASK = Ask("a", "7", "r1", 1, 0, "w", "default", 2, 1)
COMMAND = Command("7", "r2", "next", 0, "first", 3, "sha256:x", claim={"worker": "w", "ask": "a", "until": 5})


def called(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[tuple[Any, ...]]:
    """Let the function answer, or raise; return the calls from now on."""
    asked: list[tuple[Any, ...]] = []

    def invoke(*arguments: Any) -> Any:
        asked.append(arguments)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(asks, "invoke", invoke)
    return asked


def body(data: Any) -> tuple[bytes, bool]:
    return json.dumps(data).encode(), False


def test_an_answer_is_a_command_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = called(monkeypatch, body({"v": 1, "command": encode_command(COMMAND)}))
    assert asks.LambdaAsks("arn:ask:live").ask(ASK) == COMMAND
    ((function, payload, seconds),) = asked
    assert (function, json.loads(payload), seconds) == ("arn:ask:live", encode_ask(ASK), asks.ANSWER_S)
    called(monkeypatch, body({"v": 1, "command": None}))
    assert asks.LambdaAsks("f").ask(ASK) is None


def client_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code}}, "Invoke")


@pytest.mark.parametrize(
    ("answer", "reason", "may_be_done"),
    [
        (client_error("TooManyRequestsException"), "throttled", False),
        (client_error("AccessDeniedException"), "refused", False),
        (client_error("ResourceNotFoundException"), "refused", False),
        (ConnectTimeoutError(endpoint_url="x"), "unreachable", False),
        (EndpointConnectionError(endpoint_url="x"), "unreachable", False),
        (ReadTimeoutError(endpoint_url="x"), "late", True),
        (OSError("reset"), "lost", True),
        ((b"{}", True), "failed", True),
        ((b"not json", False), "old", False),
        (body({"v": 1, "command": "[]"}), "old", False),
        (body([]), "old", False),
    ],
    ids=[
        "throttled",
        "denied",
        "no function",
        "connect timeout",
        "no connection",
        "read timeout",
        "reset",
        "unhandled error",
        "no json",
        "a text for a command",
        "a list",
    ],
)
def test_a_failed_ask_says_why_and_whether_it_may_be_done(
    monkeypatch: pytest.MonkeyPatch, answer: Any, reason: str, may_be_done: bool
) -> None:
    called(monkeypatch, answer)
    with pytest.raises(AskFailed) as failed:
        asks.LambdaAsks("f").ask(ASK)
    assert (failed.value.reason, failed.value.may_be_done) == (reason, may_be_done)
