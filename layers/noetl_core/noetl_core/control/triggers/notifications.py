"""What lies in the inbox queue, and in queues that triggers read: notifications of S3, events of EventBridge, messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import unquote_plus

from noetl_core.ports import Upload
from noetl_core.values import strict_json
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import from_text, in_microseconds, to_rfc3339

ENVELOPE: Final = frozenset({"id", "source", "detail-type", "detail", "time"})
"""What every event of EventBridge has."""
CREATED: Final = ("aws.s3", "Object Created")
PUT: Final = "ObjectCreated:"
"""What the names of S3's notifications about puts begin with; some emulators write `s3:` before it."""
TEST: Final = "s3:TestEvent"
"""What S3 sends to a queue when a bucket's notifications are set up."""


@frozen
class EventDelivery:
    """An event of EventBridge."""

    kind: ClassVar[str] = "event"
    event: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.event["id"])

    @property
    def at(self) -> int:
        """When it happened (microseconds), as the event says."""
        return _instant(self.event["time"])


@frozen
class QueueDelivery:
    """A message of a queue that triggers read."""

    kind: ClassVar[str] = "queue"
    queue: str
    """The queue's name."""
    id: str
    """SQS's own, which stays the same when the message comes again."""
    event: Mapping[str, Any]
    """`body`, `attributes`, and what SQS says of it: `message_id`, `sent_at`, `queue`; of a FIFO queue `group` and
    `deduplication_id`."""
    at: int
    """When it was sent (microseconds)."""


class NoNotification(ValueError):
    """It is nothing that the inbox queue is for. Who acts: whoever sent it."""


def uploads_in(message: Any) -> list[Upload]:
    """Return the puts in a notification of S3, or in an event about a put. What S3 says of deletions, tags and the like is about
    no put. Raises `NoNotification`."""
    try:
        if is_event(message):
            created = (message["source"], message["detail-type"]) == CREATED
            return [_created(message["detail"], _instant(message["time"]))] if created else []
        if message.get("Event") == TEST:
            return []
        return [_upload(record) for record in message["Records"] if _is_put(record)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoNotification(f"it reads neither as a notification of S3 nor as an event of EventBridge: {error!r}") from None


def is_event(message: Any) -> bool:
    """Return whether a message is an event of EventBridge."""
    return isinstance(message, Mapping) and message.keys() >= ENVELOPE


def queue_delivery(record: Mapping[str, Any]) -> QueueDelivery:
    """Return what a record of SQS brings, as Lambda hands it over. Its body is the value of JSON, or text."""
    attributes = record.get("attributes", {})
    at = int(attributes.get("SentTimestamp", 0)) * 1_000
    queue = str(record["eventSourceARN"]).rpartition(":")[2]
    event = {
        "body": value_of(record["body"]),
        "attributes": dict(_attributes(record.get("messageAttributes", {}))),
        "message_id": record["messageId"],
        "sent_at": to_rfc3339(at),
        "queue": queue,
    }
    if "MessageGroupId" in attributes:
        event["group"] = attributes["MessageGroupId"]
    if "MessageDeduplicationId" in attributes:
        event["deduplication_id"] = attributes["MessageDeduplicationId"]
    return QueueDelivery(queue, record["messageId"], event, at)


def value_of(text: str) -> Any:
    """Return the value of JSON, and of what is no such text the text."""
    try:
        return strict_json.loads(text)
    except ValueError:
        return text


def _attributes(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, attribute in given.items():
        kind = str(attribute.get("dataType", "String")).partition(".")[0]
        text = attribute.get("binaryValue" if kind == "Binary" else "stringValue")
        number = value_of(text) if kind == "Number" and isinstance(text, str) else text
        yield name, number if isinstance(number, int | float | str) else text


def _instant(text: Any) -> int:
    """Return what a text says in microseconds, 0 where it says no instant."""
    try:
        return in_microseconds(from_text(str(text)))
    except (ValueError, OverflowError):
        return 0


def _is_put(record: Mapping[str, Any]) -> bool:
    return str(record.get("eventName", PUT)).removeprefix("s3:").startswith(PUT)


def _upload(record: Mapping[str, Any]) -> Upload:
    s3 = record["s3"]
    told = s3["object"]
    return Upload(
        bucket=str(s3["bucket"]["name"]),
        key=unquote_plus(told["key"]),
        size=int(told.get("size", 0)),
        etag=str(told.get("eTag", "")),
        version_id=told.get("versionId"),
        sequencer=told.get("sequencer"),
        at=_instant(record.get("eventTime")),
        by=str((record.get("userIdentity") or {}).get("principalId", "")),
    )


def _created(detail: Mapping[str, Any], at: int) -> Upload:
    """EventBridge has the key as it is, where a notification has it encoded."""
    told = detail["object"]
    return Upload(
        bucket=str(detail["bucket"]["name"]),
        key=str(told["key"]),
        size=int(told.get("size", 0)),
        etag=str(told.get("etag", "")),
        version_id=told.get("version-id"),
        sequencer=told.get("sequencer"),
        at=at,
        by=str(detail.get("requester", "")),
    )
