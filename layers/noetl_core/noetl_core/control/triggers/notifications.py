"""Parses messages of the inbox queue and of queues that triggers read: notifications of S3, events of EventBridge, other
messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import unquote_plus

from noetl_core.ports import Upload
from noetl_core.values import strict_json
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import from_text, in_microseconds, to_rfc3339

ENVELOPE: Final = frozenset({"id", "source", "detail-type", "detail", "time"})
"""Keys that every event of EventBridge has."""
CREATED: Final = ("aws.s3", "Object Created")
PUT: Final = "ObjectCreated:"
"""Prefix of the names of S3's notifications about puts; some emulators write `s3:` before it."""
TEST: Final = "s3:TestEvent"
"""The event that S3 sends to a queue when a bucket's notifications are set up."""


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
        """Return the time of the event (microseconds)."""
        return _instant(self.event["time"])


@frozen
class QueueDelivery:
    """A message of a queue that triggers read."""

    kind: ClassVar[str] = "queue"
    queue: str
    """The queue's name."""
    id: str
    """The id that SQS assigns; it stays the same when the message is repeated."""
    event: Mapping[str, Any]
    """`body`, `attributes`, and metadata of SQS: `message_id`, `sent_at`, `queue`; for a FIFO queue also `group` and
    `deduplication_id`."""
    at: int
    """The time it was sent (microseconds)."""


class NoNotification(ValueError):
    """The message is not for the inbox queue. Who acts: the sender."""


def uploads_in(message: Any) -> list[Upload]:
    """Return the puts in a notification of S3, or in an event about a put.

    Notifications about deletions, tags and the like contain none. Raises `NoNotification`.
    """
    try:
        if is_event(message):
            created = (message["source"], message["detail-type"]) == CREATED
            return [_created(message["detail"], _instant(message["time"]))] if created else []
        if message.get("Event") == TEST:
            return []
        return [_upload(record) for record in message["Records"] if _is_put(record)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoNotification(f"the message is neither a notification of S3 nor an event of EventBridge: {error!r}") from None


def is_event(message: Any) -> bool:
    """Return whether a message is an event of EventBridge."""
    return isinstance(message, Mapping) and message.keys() >= ENVELOPE


def queue_delivery(record: Mapping[str, Any]) -> QueueDelivery:
    """Return the delivery in a record of SQS, as Lambda receives it. Its body is the value of JSON, or text."""
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
    """Return the value of JSON text, or the text itself if it is not JSON."""
    try:
        return strict_json.loads(text)
    except ValueError:
        return text


def _attributes(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, attribute in attributes.items():
        kind = str(attribute.get("dataType", "String")).partition(".")[0]
        text = attribute.get("binaryValue" if kind == "Binary" else "stringValue")
        number = value_of(text) if kind == "Number" and isinstance(text, str) else text
        yield name, number if isinstance(number, int | float | str) else text


def _instant(text: Any) -> int:
    """Return an instant in microseconds; 0 if the text is not an instant."""
    try:
        return in_microseconds(from_text(str(text)))
    except (ValueError, OverflowError):
        return 0


def _is_put(record: Mapping[str, Any]) -> bool:
    return str(record.get("eventName", PUT)).removeprefix("s3:").startswith(PUT)


def _upload(record: Mapping[str, Any]) -> Upload:
    s3 = record["s3"]
    stored = s3["object"]
    return Upload(
        bucket=str(s3["bucket"]["name"]),
        key=unquote_plus(stored["key"]),
        size=int(stored.get("size", 0)),
        etag=str(stored.get("eTag", "")),
        version_id=stored.get("versionId"),
        sequencer=stored.get("sequencer"),
        at=_instant(record.get("eventTime")),
        by=str((record.get("userIdentity") or {}).get("principalId", "")),
    )


def _created(detail: Mapping[str, Any], at: int) -> Upload:
    """Return the upload. EventBridge has the plain key; a notification has it encoded."""
    stored = detail["object"]
    return Upload(
        bucket=str(detail["bucket"]["name"]),
        key=str(stored["key"]),
        size=int(stored.get("size", 0)),
        etag=str(stored.get("etag", "")),
        version_id=stored.get("version-id"),
        sequencer=stored.get("sequencer"),
        at=at,
        by=str(detail.get("requester", "")),
    )
