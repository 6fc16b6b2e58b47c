"""`kind: sqs` as playbooks use it, over a mocked SQS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws import sqs
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from tests.unit.tools.aws_playbooks import Ran, mocked


@pytest.fixture
def url() -> Iterator[str]:
    with mocked():
        yield client("sqs").create_queue(QueueName="orders")["QueueUrl"]


def received(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while (
        got := client("sqs")
        .receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"])
        .get("Messages")
    ):
        found += got
    return found


def send(**inputs: Any) -> Outcome:
    return invoke(sqs.SqsTool(), ToolCall("sqs", {"queue": "orders", **inputs}, task_run_id="run-1", execution_id="1"))


@pytest.mark.parametrize("queue", ["orders", "{{ workload.url }}", "arn:aws:sqs:us-east-1:123456789012:orders"])
def test_a_message_is_sent_to_a_queue_by_name_url_or_arn(url: str, queue: str) -> None:
    task = {"kind": "sqs", "queue": queue, "message": {"ü": 1}, "attributes": {"a": "x", "n": 1.5}}
    ran = Ran(task, payload={"url": url})
    (message,) = received(url)
    assert json.loads(message["Body"]) == {"ü": 1}
    assert {k: (v["DataType"], v["StringValue"]) for k, v in message["MessageAttributes"].items()} == {
        "a": ("String", "x"),
        "n": ("Number", "1.5"),
    }
    assert ran.result == {"queue": "orders", "sent": 1, "message_ids": [message["MessageId"]]}


def test_many_messages_go_in_as_few_requests_as_they_fit_in(url: str) -> None:
    batches: list[int] = []
    client("sqs").meta.events.register(
        "before-parameter-build.sqs.SendMessageBatch", lambda params, **_: batches.append(len(params["Entries"]))
    )
    texts = ["x" * 400_000] * 3 + ["y"] * 12
    assert send(messages=texts).result["sent"] == 15
    assert sum(batches) == 15 and batches == [2, 10, 3]
    assert sorted(len(m["Body"]) for m in received(url)) == sorted(map(len, texts))


def test_a_fifo_queue_takes_a_task_that_is_repeated_once(url: str) -> None:
    fifo = client("sqs").create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    assert send(queue="orders.fifo", messages=["a", "b"]).status == send(queue="orders.fifo", messages=["a", "b"]).status == "ok"
    sent = received(fifo)
    assert [m["Body"] for m in sent] == ["a", "b"]
    assert {m["Attributes"]["MessageGroupId"] for m in sent} == {"1"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("inputs", "kind", "told"),
    [
        ({"message": ""}, "schema", "must not be empty"),
        ({"message": "x", "queue": "none"}, "not_found", ""),
        ({"message": "x", "queue": "http://"}, "schema", ""),
        ({"message": "x", "dedup_id": "d"}, "schema", "`dedup_id` is for FIFO queues"),
        ({"message": "x", "queue": "orders.fifo", "delay": 1}, "schema", "a FIFO queue delays"),
        ({"message": "x", "delay": 901}, "schema", "`delay`"),
        ({"message": "x", "attributes": {"a": [1]}}, "schema", "`attributes`"),
        ({"messages": ["a", "x" * (1024 * 1024 + 1)]}, "limit", "message 1 has"),
    ],
)
def test_a_message_that_cannot_be_sent_fails_with_the_reason(url: str, inputs: dict[str, Any], kind: str, told: str) -> None:
    error = send(**inputs).as_dict()["error"]
    assert error["kind"] == kind and told in error["message"]


def test_a_message_that_is_refused_among_others_fails_the_task(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(parsed: dict[str, Any], **_: Any) -> None:
        parsed["Failed"] = [{"Id": "1", "Code": "InternalError", "SenderFault": False, "Message": "busy"}]

    client("sqs").meta.events.register("after-call.sqs.SendMessageBatch", refuse)
    error = send(messages=["a", "b"]).as_dict()["error"]
    assert (error["kind"], error["retryable"], error["details"]) == ("server_error", True, {"sent": 2, "of": 2})


def test_a_queue_url_of_the_author_is_used_for_its_name_only(url: str) -> None:
    """The queue's name alone leads to the URL of a request."""
    assert send(queue="http://169.254.169.254/123456789012/orders", message="x").status == "ok"
    assert len(received(url)) == 1


def test_a_message_that_is_too_large_stops_those_before_it(url: str) -> None:
    assert send(messages=[*["a"] * 11, "x" * (1024 * 1024 + 1)]).as_dict()["error"]["kind"] == "limit"
    assert received(url) == []
