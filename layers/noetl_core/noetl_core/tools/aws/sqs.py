"""`kind: sqs`: sends messages (docs/tools/sqs.md)."""

from __future__ import annotations

from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.actions import action_of, optional_text, seconds, text
from noetl_core.tools.aws import messages, rights
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import errors_of
from noetl_core.tools.aws.rights import QUEUES
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.stopping import stopper

MAX_BYTES: Final = 1024 * 1024
"""The most bytes of a message, and of all messages of one request."""


class SqsTool:
    """Inputs `queue`, and `message` or `messages` with their `attributes`, `delay`, `group` and `dedup_id`."""

    kind = "sqs"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        action_of(call)
        name, owner = parse_queue(text(call, "queue"))
        rights.check(QUEUES, name)
        values = messages.values(call, "message", "messages")
        entries = [_entry(call, name, n, message) for n, message in enumerate(values)]
        with errors_of(call.kind, QUEUES, name):
            url = url_of(name, owner, optional_text(call, "region"))
            sent = _send(call, url, entries)
        return Outcome.ok({"queue": name, "sent": len(sent), "message_ids": sent})


def parse_queue(queue: str) -> tuple[str, str]:
    """Return the name of a queue, and its account if a URL or an ARN states it. Raises `BadInput`."""
    parts = queue.split(":") if queue.startswith("arn:") else queue.rstrip("/").split("/")
    if not parts[-1] or (len(parts) == 1 and ":" in queue):
        raise BadInput(f"`queue` must be a name, a URL or an ARN, not {queue[:80]!r}")
    return parts[-1], parts[-2] if len(parts) > 1 and parts[-2].isdecimal() else ""


def url_of(name: str, owner: str, region: str | None = None) -> str:
    """Look up the URL by the name, because a URL from an author must not be called."""
    found: str = client("sqs", region).get_queue_url(QueueName=name, **({"QueueOwnerAWSAccountId": owner} if owner else {}))[
        "QueueUrl"
    ]
    return found


def _entry(call: ToolCall, queue: str, number: int, message: Any) -> messages.Entry:
    """Return one message in SQS's form."""
    fifo = queue.endswith(".fifo")
    delay = seconds(call, "delay")
    if fifo and delay is not None:
        raise BadInput("a FIFO queue delays all of its messages or none: leave `delay` out")
    return {
        "Id": str(number),
        "MessageBody": messages.text_of(message),
        "MessageAttributes": messages.attributes_of(call),
        **messages.order_of(call, number, "queue", fifo),
        **({} if delay is None else {"DelaySeconds": round(delay)}),
    }


def _send(call: ToolCall, url: str, entries: list[messages.Entry]) -> list[str]:
    """Send all messages, in order, in as few requests as possible; return their ids."""
    sent: list[str] = []
    stop = stopper(call)
    sqs = client("sqs", optional_text(call, "region"))
    for batch in messages.batches(call.kind, entries, _size, MAX_BYTES):
        stop()
        answer = sqs.send_message_batch(QueueUrl=url, Entries=batch)
        sent += messages.sent_in(call.kind, answer, len(sent), len(entries))
    return sent


def _size(entry: messages.Entry) -> int:
    return len(entry["MessageBody"].encode()) + messages.attributes_size(entry)


__all__ = ["SqsTool", "parse_queue", "url_of"]
