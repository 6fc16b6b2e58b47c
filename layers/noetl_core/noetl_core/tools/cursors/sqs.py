"""`cursor: {kind: sqs}`: messages of a queue. A claim receives them; their visibility timeout is extended while their frame runs,
and they are deleted when its results are committed.

A claim of SQS cannot be repeated. Messages that a worker received and did not record become visible again after `lease_s`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from noetl_core.dsl.numbers import LEASE, QUEUE_WAIT, BadNumber, in_range
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import errors_of
from noetl_core.tools.aws.sqs import parse_queue, url_of
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed
from noetl_core.tools.cursors.base import Claimed, ClaimIds, Inputs, Row, Settlement
from noetl_core.values.strict_json import check, parsed

KIND: Final = "cursor.sqs"
BATCH: Final = 10
"""The most entries of an SQS request or answer."""
GONE: Final = frozenset(
    {"ReceiptHandleIsInvalid", "InvalidParameterValue", "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight"}
)
"""SQS's error codes for a message that is no longer hidden for this receiver."""


class SqsCursor:
    """Claims messages. Fields `queue` (name or URL), `wait_s` and `failed` (`delete`; otherwise they return to the queue)."""

    kind = KIND
    fills = False

    def __init__(self, fields: Mapping[str, Any]) -> None:
        queue = fields.get("queue")
        if not isinstance(queue, str) or not queue.strip("/ "):
            raise BadInput("`cursor.queue` must be the name or the URL of a queue")
        try:
            self._wait_s = int(in_range(fields.get("wait_s", 1), QUEUE_WAIT, "`cursor.wait_s`"))
        except BadNumber as error:
            raise BadInput(str(error)) from None
        self._queue = {"queue": queue.strip()}
        self._delete_failed = fields.get("failed") == "delete"

    def claim(self, ids: ClaimIds, limit: int, lease_s: float) -> Inputs:
        return {**self._queue, "action": "receive", "limit": min(limit, BATCH), "hide_s": int(lease_s), "wait_s": self._wait_s}

    def claimed(self, result: Any) -> Claimed:
        return Claimed([Row(message["id"], message, handle) for message, handle in result])

    def renew(self, ids: ClaimIds, rows: Sequence[Row], key_type: str | None, lease_s: float) -> Sequence[Inputs]:
        return [
            {**self._queue, "action": "hide", "entries": part, "hide_s": int(min(lease_s, LEASE.high))} for part in _entries(rows)
        ]

    def held(self, result: Any, rows: Sequence[Row]) -> Collection[str]:
        return frozenset(result)

    def settle(self, ids: ClaimIds, settlement: Settlement, key_type: str | None) -> Sequence[Inputs]:
        over = [*settlement.done, *(settlement.failed if self._delete_failed else ())]
        deleted = [{**self._queue, "action": "delete", "entries": part} for part in _entries(over)]
        # Failed messages stay hidden for the rest of their lease, because this loop would receive visible ones again.
        visible = [{**self._queue, "action": "hide", "entries": part, "hide_s": 0} for part in _entries(settlement.released)]
        return [*deleted, *visible]


def _entries(rows: Sequence[Row]) -> Iterator[list[list[str]]]:
    for start in range(0, len(rows), BATCH):
        yield [[row.key, row.handle or ""] for row in rows[start : start + BATCH]]


class SqsCalls:
    """Carries out the cursor's requests to SQS. It is not a kind for tasks."""

    kind = KIND
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        inputs = call.inputs
        name, owner = parse_queue(str(inputs["queue"]))
        rights.check(rights.QUEUES, name)
        with errors_of(KIND, rights.QUEUES, name):
            sqs = client("sqs")
            url = url_of(name, owner)
            if inputs["action"] == "receive":
                return Outcome.ok(_received(sqs, url, inputs))
            if inputs["action"] == "delete":
                _refused(sqs.delete_message_batch(QueueUrl=url, Entries=[_entry(n, e) for n, e in enumerate(inputs["entries"])]))
                return Outcome.ok([])
            entries = [{**_entry(n, e), "VisibilityTimeout": inputs["hide_s"]} for n, e in enumerate(inputs["entries"])]
            lost = _refused(sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries))
            return Outcome.ok([key for n, (key, _) in enumerate(inputs["entries"]) if n not in lost])


def _received(sqs: Any, url: str, inputs: Mapping[str, Any]) -> list[list[Any]]:
    answer = sqs.receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=inputs["limit"],
        VisibilityTimeout=inputs["hide_s"],
        WaitTimeSeconds=inputs["wait_s"],
        AttributeNames=["All"],
        MessageAttributeNames=["All"],
    )
    return [[_message(found), found["ReceiptHandle"]] for found in answer.get("Messages", ())]


def _message(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in the form of an iteration's item."""
    attributes = found.get("MessageAttributes", {})
    system = found.get("Attributes", {})
    return {
        "id": found["MessageId"],
        "body": found["Body"],
        "json": _parsed(found["Body"]),
        "attributes": {name: value.get("StringValue") for name, value in attributes.items()},
        "received": int(system.get("ApproximateReceiveCount", 1)),
    }


def _parsed(body: str) -> Any:
    """Return the value of JSON text; null if it is not JSON or cannot be recorded, because senders are not trusted."""
    try:
        value = parsed(body.encode())
        check(value)
    except ValueError:
        return None
    return value


def _entry(number: int, entry: Sequence[str]) -> dict[str, Any]:
    return {"Id": str(number), "ReceiptHandle": entry[1]}


def _refused(answer: Mapping[str, Any]) -> set[int]:
    """Return the entries of messages that no longer belong to this receiver. Raises `ToolFailed` for any other failure."""
    lost = set()
    for failed in answer.get("Failed", ()):
        if failed.get("Code") not in GONE:
            message = f"{KIND}: {failed.get('Message') or failed.get('Code')}"
            raise ToolFailed(
                Outcome.failed("server_error", message, retryable=not failed.get("SenderFault"), code=failed.get("Code"))
            )
        lost.add(int(failed["Id"]))
    return lost
