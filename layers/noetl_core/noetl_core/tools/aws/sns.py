"""`kind: sns`: publishes messages (docs/tools/sns.md)."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.actions import action_of, optional_text, text
from noetl_core.tools.aws import messages, rights
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import errors_of
from noetl_core.tools.aws.rights import TOPICS
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.stopping import stopper

MAX_BYTES: Final = 1024 * 1024
"""The most bytes of a message, if the topic's `MaximumMessageSize` allows it."""
TOGETHER: Final = 256 * 1024
"""The most bytes of several messages in one request, on every topic."""
ARN_PARTS: Final = 6


class SnsTool:
    """Inputs `topic`, and `message` or `messages` with their `subject`, `attributes`, `group` and `dedup_id`."""

    kind = "sns"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        action_of(call)
        topic, subject = text(call, "topic"), optional_text(call, "subject")
        name = topic_name(topic)
        rights.check(TOPICS, name)
        entries = [_entry(call, name, n, message) for n, message in enumerate(messages.values(call, "message", "messages"))]
        if subject is not None:
            entries = [{**entry, "Subject": subject} for entry in entries]
        batches = messages.batches(call.kind, entries, _size, MAX_BYTES, TOGETHER)
        sent: list[str] = []
        stop = stopper(call)
        with errors_of(call.kind, TOPICS, name):
            arn, region = _address(topic, optional_text(call, "region"))
            for batch in batches:
                stop()
                answer = client("sns", region).publish_batch(TopicArn=arn, PublishBatchRequestEntries=batch)
                sent += messages.sent_in(call.kind, answer, len(sent), len(entries))
        return Outcome.ok({"topic": name, "sent": len(sent), "message_ids": sent})


def topic_name(topic: str) -> str:
    """Return the name of a topic that is given as a name or an ARN. Raises `BadInput`."""
    parts = topic.split(":")
    of_sns = topic.startswith("arn:") and len(parts) == ARN_PARTS and parts[2] == "sns"
    if not parts[-1] or not (of_sns or len(parts) == 1):
        raise BadInput(f"`topic` must be a name or an ARN, not {topic[:80]!r}")
    return parts[-1]


def _address(topic: str, region: str | None) -> tuple[str, str | None]:
    """Return the ARN of a topic and its Region: SNS identifies topics only by ARN."""
    if topic.startswith("arn:"):
        return topic, region or topic.split(":")[3]
    meta = client("sns", region).meta
    account = os.environ.get(rights.ACCOUNT) or _account(client("sts", region))
    return f"arn:{meta.partition}:sns:{meta.region_name}:{account}:{topic}", region


@lru_cache(maxsize=4)
def _account(sts: Any) -> str:
    """Return the account of the caller's own credentials."""
    return str(sts.get_caller_identity()["Account"])


def _entry(call: ToolCall, topic: str, number: int, message: Any) -> messages.Entry:
    """Return one message in SNS's form."""
    return {
        "Id": str(number),
        "Message": messages.text_of(message),
        "MessageAttributes": messages.attributes_of(call),
        **messages.order_of(call, number, "topic", topic.endswith(".fifo")),
    }


def _size(entry: messages.Entry) -> int:
    return len(f"{entry['Message']}{entry.get('Subject', '')}".encode()) + messages.attributes_size(entry)
