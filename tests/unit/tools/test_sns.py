"""`kind: sns` as playbooks use it, over a mocked SNS with a queue that is subscribed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws import rights, sns
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from tests.unit.tools.aws_playbooks import Ran, mocked

ARN = "arn:aws:sns:us-east-1:123456789012:alerts"


@pytest.fixture
def url() -> Iterator[str]:
    with mocked():
        client("sns").create_topic(Name="alerts")
        made: str = client("sqs").create_queue(QueueName="heard")["QueueUrl"]
        client("sns").subscribe(TopicArn=ARN, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:123456789012:heard")
        yield made


def heard(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while got := client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += (json.loads(m["Body"]) for m in got)
    return found


def publish(**inputs: Any) -> Outcome:
    call = ToolCall(
        "sns", {"topic": "alerts", **inputs}, task_run_id="run-1", execution_id="1", timeout_s=inputs.pop("_in", None)
    )
    return invoke(sns.SnsTool(), call)


@pytest.mark.parametrize("topic", ["alerts", ARN])
def test_a_message_is_published_to_a_topic_by_name_or_arn(url: str, topic: str) -> None:
    task = {"kind": "sns", "topic": topic, "subject": "Süß", "message": {"ü": 1}, "attributes": {"a": "x", "n": 1.5}}
    ran = Ran(task)
    (message,) = heard(url)
    assert json.loads(message["Message"]) == {"ü": 1} and message["Subject"] == "Süß"
    assert {k: (v["Type"], v["Value"]) for k, v in message["MessageAttributes"].items()} == {
        "a": ("String", "x"),
        "n": ("Number", "1.5"),
    }
    assert ran.result == {"topic": "alerts", "sent": 1, "message_ids": [message["MessageId"]]}


def test_a_stack_does_not_ask_sts_for_its_account(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rights.ACCOUNT, "123456789012")
    asked: list[Any] = []
    client("sts").meta.events.register("before-call.sts", lambda **request: asked.append(request))
    assert publish(message="x").status == "ok"
    assert asked == [] and len(heard(url)) == 1


def test_many_messages_go_in_as_few_requests_as_they_fit_in(url: str) -> None:
    batches: list[int] = []
    client("sns").meta.events.register(
        "before-parameter-build.sns.PublishBatch", lambda params, **_: batches.append(len(params["PublishBatchRequestEntries"]))
    )
    texts = ["x" * 100_000] * 3 + ["y"] * 12
    assert publish(messages=texts).result["sent"] == 15
    assert batches == [2, 10, 3]
    assert sorted(len(m["Message"]) for m in heard(url)) == sorted(map(len, texts))


def test_a_message_of_a_fifo_topic_is_known_by_the_task_run_and_its_place(url: str) -> None:
    asked: list[Any] = []
    client("sns").create_topic(Name="alerts.fifo", Attributes={"FifoTopic": "true"})
    client("sns").meta.events.register("before-parameter-build.sns.PublishBatch", lambda params, **_: asked.append(params))
    assert publish(topic="alerts.fifo", messages=["a", "b"]).status == publish(topic="alerts.fifo", messages=["a", "b"]).status
    first, again = ([e["MessageDeduplicationId"] for e in params["PublishBatchRequestEntries"]] for params in asked)
    assert first == again and len(set(first)) == 2
    assert {e["MessageGroupId"] for params in asked for e in params["PublishBatchRequestEntries"]} == {"1"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("inputs", "kind", "told"),
    [
        ({"message": ""}, "schema", "must not be empty"),
        ({"message": "x", "topic": "none"}, "not_found", ""),
        ({"message": "x", "topic": "arn:aws:sqs:us-east-1:123456789012:alerts"}, "schema", "a name or an ARN"),
        ({"message": "x", "topic": "a:b"}, "schema", "a name or an ARN"),
        ({"message": "x", "dedup_id": "d"}, "schema", "`dedup_id` is for FIFO topics"),
        ({"message": "x", "attributes": {"a": True}}, "schema", "`attributes`"),
        ({"messages": [*["a"] * 11, "x" * (1024 * 1024 + 1)]}, "limit", "message 11 has"),
        ({"message": "x", "_in": 0}, "timeout", "not done"),
    ],
)
def test_an_invalid_message_fails_with_the_reason_and_is_not_published(
    url: str, inputs: dict[str, Any], kind: str, told: str
) -> None:
    error = publish(**inputs).as_dict()["error"]
    assert error["kind"] == kind and told in error["message"]
    assert heard(url) == []


def test_a_message_that_is_refused_among_others_fails_the_task(url: str) -> None:
    def refuse(parsed: dict[str, Any], **_: Any) -> None:
        parsed["Failed"] = [{"Id": "1", "Code": "InvalidParameter", "SenderFault": True, "Message": "too long"}]

    client("sns").meta.events.register("after-call.sns.PublishBatch", refuse)
    error = publish(messages=["a", "b"]).as_dict()["error"]
    assert (error["kind"], error["retryable"], error["details"]) == ("client_error", False, {"sent": 2, "of": 2})


def test_a_stack_publishes_only_to_topics_that_its_parameter_names(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACK_RESOURCES", "{}")
    monkeypatch.setenv("NOETL_TOOL_TOPICS", "alerts")
    assert publish(message="x", topic=ARN).status == "ok"
    error = publish(message="x", topic="arn:aws:sns:us-east-1:123456789012:other").as_dict()["error"]
    assert error["kind"] == "auth" and "ToolTopics does not name topic `other`" in error["message"]
