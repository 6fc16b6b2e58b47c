"""Notifications of S3, events of EventBridge and messages of queues, as Lambda hands them over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_core.control.triggers.notifications import EventDelivery, NoNotification, is_event, queue_delivery, uploads_in
from noetl_core.ports import Upload
from noetl_core.values.instants import to_rfc3339

EVENT = {
    "version": "0",
    "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
    "detail-type": "Object Created",
    "source": "aws.s3",
    "account": "111122223333",
    "time": "2026-11-22T18:43:48Z",
    "region": "us-west-1",
    "resources": ["arn:aws:s3:::scans"],
    "detail": {
        "version": "0",
        "bucket": {"name": "scans"},
        "object": {"key": "in/a b+c.csv", "size": 5, "etag": "b1946", "version-id": "v1", "sequencer": "00617"},
        "request-id": "N4N7",
        "reason": "PutObject",
    },
}
NOTIFIED = {
    "eventVersion": "2.1",
    "eventSource": "aws:s3",
    "eventTime": "2026-11-22T18:43:48.000Z",
    "eventName": "ObjectCreated:Put",
    "s3": {
        "bucket": {"name": "scans"},
        "object": {"key": "in/a+b%2Bc.csv", "size": 5, "eTag": "b1946", "versionId": "v1", "sequencer": "00617"},
    },
}
AT = 1795373028000000


def test_s3_and_eventbridge_notifications_give_the_same_upload() -> None:
    put = Upload("scans", "in/a b+c.csv", 5, "b1946", "v1", "00617", AT)
    assert uploads_in({"Records": [NOTIFIED]}) == uploads_in(EVENT) == [put]
    assert to_rfc3339(AT).startswith("2026-11-22T18:43:48")


def test_other_events_are_about_no_put() -> None:
    assert is_event(EVENT)
    assert uploads_in({**EVENT, "detail-type": "Object Deleted"}) == []
    assert uploads_in({**EVENT, "source": "my.s3", "detail": "whatever"}) == []
    assert uploads_in({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "scans"}) == []


@pytest.mark.parametrize("name", ["ObjectRemoved:Delete", "ObjectTagging:Put", "ObjectAcl:Put", "ObjectRestore:Completed"])
def test_s3_notifications_of_other_kinds_are_not_uploads(name: str) -> None:
    assert uploads_in({"Records": [{**NOTIFIED, "eventName": name}]}) == []
    assert uploads_in({"Records": [{**NOTIFIED, "eventName": f"s3:{name}"}, NOTIFIED]}) == uploads_in({"Records": [NOTIFIED]})


@pytest.mark.parametrize("name", ["ObjectCreated:Copy", "s3:ObjectCreated:CompleteMultipartUpload"])
def test_a_put_has_several_names(name: str) -> None:
    assert uploads_in({"Records": [{**NOTIFIED, "eventName": name}]}) == uploads_in({"Records": [NOTIFIED]})


@pytest.mark.parametrize(
    "message",
    [
        "text",
        None,
        5,
        [],
        {},
        {"Records": 5},
        {"Records": [{"s3": {}}]},
        {"Records": [5]},
        {**EVENT, "detail": {}},
        {k: v for k, v in EVENT.items() if k != "detail"},
        {"Type": "Notification", "Message": json.dumps({"Records": [NOTIFIED]})},
    ],
    ids=lambda message: str(message)[:40],
)
def test_a_malformed_notification_raises_no_notification(message: Any) -> None:
    with pytest.raises(NoNotification):
        uploads_in(message)


def test_an_event_delivery_has_the_time_of_its_event() -> None:
    assert (EventDelivery(EVENT).id, EventDelivery(EVENT).at) == (EVENT["id"], AT)
    assert EventDelivery({**EVENT, "time": "whenever"}).at == 0


def record(body: str, attributes: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "messageId": "059f36b4",
        "body": body,
        "attributes": {"SentTimestamp": "1795373028000", "ApproximateReceiveCount": "2", **more},
        "messageAttributes": attributes or {},
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:orders.fifo",
    }


def test_a_queue_message_has_its_body_attributes_and_sqs_metadata() -> None:
    attributes = {
        "shop": {"dataType": "String", "stringValue": "berlin"},
        "total": {"dataType": "Number", "stringValue": "12.5"},
        "count": {"dataType": "Number.int", "stringValue": "12"},
        "odd": {"dataType": "Number", "stringValue": "NaN"},
        "raw": {"dataType": "Binary", "binaryValue": "/wA="},
    }
    taken = queue_delivery(
        record(json.dumps({"order": 7}), attributes, MessageGroupId="g", MessageDeduplicationId="d", AWSTraceHeader="t")
    )
    assert (taken.queue, taken.id, taken.at) == ("orders.fifo", "059f36b4", AT)
    assert taken.event == {
        "body": {"order": 7},
        "attributes": {"shop": "berlin", "total": 12.5, "count": 12, "odd": "NaN", "raw": "/wA="},
        "message_id": "059f36b4",
        "sent_at": "2026-11-22T18:43:48.000000Z",
        "queue": "orders.fifo",
        "group": "g",
        "deduplication_id": "d",
    }


@pytest.mark.parametrize("body", ["plain text", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 500])
def test_a_body_that_is_no_json_is_text(body: str) -> None:
    assert queue_delivery(record(body)).event["body"] == body
