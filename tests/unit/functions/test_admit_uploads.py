"""Admit given a batch of upload notifications: one that takes too long is one, and says so."""

from __future__ import annotations

import json
import time
from types import ModuleType
from typing import Any

import pytest

from noetl_core.ports import Upload
from tests.unit.functions.conftest import Context, Function, lines

pytestmark = pytest.mark.filterwarnings("ignore:No application metrics to publish")


def notified(key: str, received: int = 1, size: int = 10) -> dict[str, Any]:
    told = {"Records": [{"s3": {"bucket": {"name": "inbox"}, "object": {"key": key, "size": size}}}]}
    return {
        "messageId": key,
        "receiptHandle": "r",
        "body": json.dumps(told),
        "attributes": {"ApproximateReceiveCount": str(received)},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:inbox",
    }


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that were taken; `slow` ones do not end by themselves."""
    found: list[str] = []

    def take(_control: Any, upload: Upload, _inbox: Any) -> str:
        until = time.monotonic() + (20 if upload.key == "slow" else 0)
        while time.monotonic() < until:
            time.sleep(0.01)
        found.append(upload.key)
        return "started 1"

    monkeypatch.setattr("noetl_core.control.triggers.uploads.take_upload", take)
    return found


@pytest.fixture
def admit(function: Function, taken: list[str], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The function, loaded when uploads are `taken`, with an inbox that is never read."""
    app = function("admit")
    monkeypatch.setattr(app, "inbox", lambda: None)
    return app


def test_an_upload_that_takes_too_long_leaves_the_others_of_its_batch_their_time(
    admit: ModuleType, taken: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(admit, "LONGEST_S", 0.1)
    answer = admit.handler({"Records": [notified("a"), notified("slow"), notified("b")]}, Context())
    assert taken == ["a", "b"]
    assert answer == {"batchItemFailures": [{"itemIdentifier": "slow"}]}
    (line,) = lines(caplog, "a message failed; it comes again")
    assert "taking upload slow" in line["reason"]


def test_one_that_comes_again_and_a_large_one_have_all_the_time_there_is(
    admit: ModuleType, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    real = admit.in_time

    def noted(call: Any, seconds: float) -> Any:
        limits.append(seconds)
        return real(call, seconds)

    monkeypatch.setattr(admit, "in_time", noted)
    records = [notified("small"), notified("again", received=2), notified("large", size=2 * 10**9)]
    assert admit.handler({"Records": records}, Context()) == {"batchItemFailures": []}
    assert limits == [20, 55, 55]
    assert admit.handler({"Records": [notified("late")]}, Context(left_ms=4_000)) == {
        "batchItemFailures": [{"itemIdentifier": "late"}]
    }
