"""`kind: sqs`: sends messages (docs/tools/sqs.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.actions import action_of, optional_text, seconds, text
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import errors_of
from noetl_core.tools.aws.rights import QUEUES
from noetl_core.tools.aws.stopping import stopper
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed

MAX_BYTES: Final = 1024 * 1024
"""Of a message, and of all messages of one request."""
AT_ONCE: Final = 10


class SqsTool:
    """Inputs `queue`, and `message` or `messages` with their `attributes`, `delay`, `group` and `dedup_id`."""

    kind = "sqs"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        action_of(call)
        name, owner = named(text(call, "queue"))
        rights.check(QUEUES, name)
        several = call.inputs.get("messages")
        if several is not None and not isinstance(several, list):
            raise BadInput("`messages` must be a list")
        given = [call.inputs.get("message")] if several is None else several
        entries = [_entry(call, name, n, message) for n, message in enumerate(given)]
        with errors_of(call.kind, QUEUES, name):
            url = url_of(name, owner, optional_text(call, "region"))
            sent = _send(call, url, entries)
        return Outcome.ok({"queue": name, "sent": len(sent), "message_ids": sent})


def named(queue: str) -> tuple[str, str]:
    """Return the name of a queue and its account, if a URL or an ARN says it. Raises `BadInput`."""
    parts = queue.split(":") if queue.startswith("arn:") else queue.rstrip("/").split("/")
    if not parts[-1] or (len(parts) == 1 and ":" in queue):
        raise BadInput(f"`queue` must be a name, a URL or an ARN, not {queue[:80]!r}")
    return parts[-1], parts[-2] if len(parts) > 1 and parts[-2].isdecimal() else ""


def url_of(name: str, owner: str, region: str | None = None) -> str:
    """Ask for the URL by the name: an address that somebody wrote is not asked."""
    found: str = client("sqs", region).get_queue_url(QueueName=name, **({"QueueOwnerAWSAccountId": owner} if owner else {}))[
        "QueueUrl"
    ]
    return found


def _entry(call: ToolCall, queue: str, number: int, message: Any) -> dict[str, Any]:
    """Return one message as SQS takes it. That of a FIFO queue is known by the task run and its place: a task that is repeated
    within five minutes sends it once."""
    body = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False, allow_nan=False)
    if not body:
        raise BadInput("a message of SQS is never empty")
    entry: dict[str, Any] = {"Id": str(number), "MessageBody": body, "MessageAttributes": _attributes(call)}
    delay, group = seconds(call, "delay"), optional_text(call, "group")
    if queue.endswith(".fifo"):
        if delay is not None:
            raise BadInput("a FIFO queue delays all of its messages or none: leave `delay` out")
        mine = sha256(f"{call.task_run_id}/{number}".encode()).hexdigest()
        entry |= {"MessageGroupId": group or call.execution_id, "MessageDeduplicationId": optional_text(call, "dedup_id") or mine}
    else:
        if call.inputs.get("dedup_id") is not None:
            raise BadInput("`dedup_id` is for FIFO queues")
        entry |= {} if group is None else {"MessageGroupId": group}
        entry |= {} if delay is None else {"DelaySeconds": round(delay)}
    return entry


def _attributes(call: ToolCall) -> dict[str, Any]:
    given = call.inputs.get("attributes") or {}
    if not isinstance(given, Mapping) or not all(_is_attribute(value) for value in given.values()):
        raise BadInput("`attributes` must be a mapping of names to texts and numbers")
    return {str(k): {"DataType": "String" if isinstance(v, str) else "Number", "StringValue": str(v)} for k, v in given.items()}


def _is_attribute(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _send(call: ToolCall, url: str, entries: list[dict[str, Any]]) -> list[str]:
    """Send all messages, in order, in as few requests as they fit in; return their ids."""
    sent: list[str] = []
    stop = stopper(call)
    sqs = client("sqs", optional_text(call, "region"))
    for batch in _batches(entries):
        stop()
        answer = sqs.send_message_batch(QueueUrl=url, Entries=batch)
        sent += [one["MessageId"] for one in sorted(answer.get("Successful", ()), key=lambda one: int(one["Id"]))]
        for failed in answer.get("Failed", ()):
            told = f"sqs: message {failed['Id']} was not sent: {failed.get('Message', failed['Code'])}"
            details = {"sent": len(sent), "of": len(entries)}
            mine = bool(failed.get("SenderFault"))
            raise ToolFailed(
                Outcome.failed(
                    "client_error" if mine else "server_error", told, retryable=not mine, code=failed["Code"], details=details
                )
            )
    return sent


def _batches(entries: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for entry in entries:
        bytes_ = _size(entry)
        if bytes_ > MAX_BYTES:
            message = (
                f"sqs: message {entry['Id']} has {bytes_:,} bytes, SQS takes {MAX_BYTES:,}: store it, and send its reference"
            )
            raise ToolFailed(Outcome.failed("limit", message, retryable=False))
        if batch and (len(batch) == AT_ONCE or size + bytes_ > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += bytes_
    if batch:
        yield batch


def _size(entry: Mapping[str, Any]) -> int:
    attributes = entry["MessageAttributes"].items()
    return len(entry["MessageBody"].encode()) + sum(
        len(f"{name}{v['DataType']}{v['StringValue']}".encode()) for name, v in attributes
    )


__all__ = ["SqsTool", "named", "url_of"]
