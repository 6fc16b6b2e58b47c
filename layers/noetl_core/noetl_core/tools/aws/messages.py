"""Shared by messages to queues, topics and event buses: texts, attributes, FIFO, and batching into requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.tools.actions import optional_text
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed

AT_ONCE: Final = 10
"""The most messages of a request of each of these services."""
Entry = dict[str, Any]


def values(call: ToolCall, one: str, several: str) -> list[Any]:
    """Return the values to send: the list in the input `several`, else the value of `one`. Raises `BadInput`."""
    listed = call.inputs.get(several)
    if listed is None:
        return [call.inputs.get(one)]
    if not isinstance(listed, list):
        raise BadInput(f"`{several}` must be a list")
    return listed


def text_of(message: Any) -> str:
    """Return a message as text: as it is, or as JSON. Raises `BadInput`."""
    body = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False, allow_nan=False)
    if not body:
        raise BadInput("a message must not be empty")
    return body


def attributes_of(call: ToolCall) -> dict[str, Any]:
    """Return the attributes of every message. Raises `BadInput`."""
    found = call.inputs.get("attributes") or {}
    if not isinstance(found, Mapping) or not all(_is_attribute(value) for value in found.values()):
        raise BadInput("`attributes` must be a mapping of names to texts and numbers")
    return {str(k): {"DataType": "String" if isinstance(v, str) else "Number", "StringValue": str(v)} for k, v in found.items()}


def _is_attribute(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def order_of(call: ToolCall, number: int, noun: str, fifo: bool) -> Entry:
    """Return the group and the deduplication id of a message. For FIFO the id is derived from the task run and the message's
    index, so that a task repeated within five minutes sends it once. Raises `BadInput`."""
    group = optional_text(call, "group")
    if fifo:
        mine = sha256(f"{call.task_run_id}/{number}".encode()).hexdigest()
        return {"MessageGroupId": group or call.execution_id, "MessageDeduplicationId": optional_text(call, "dedup_id") or mine}
    if call.inputs.get("dedup_id") is not None:
        raise BadInput(f"`dedup_id` is for FIFO {noun}s")
    return {} if group is None else {"MessageGroupId": group}


def attributes_size(entry: Mapping[str, Any]) -> int:
    """Return the number of bytes that the attributes of a message count."""
    return sum(
        len(f"{name}{value['DataType']}{value['StringValue']}".encode()) for name, value in entry["MessageAttributes"].items()
    )


def batches(
    kind: str, entries: Sequence[Entry], size_of: Callable[[Entry], int], largest: int, together: int | None = None
) -> list[list[Entry]]:
    """Divide the entries into requests, in order. An entry has at most `largest` bytes, a request at most `together`. Raises
    `ToolFailed`."""
    found: list[list[Entry]] = [[]]
    size = 0
    for number, entry in enumerate(entries):
        bytes_ = size_of(entry)
        if bytes_ > largest:
            message = f"{kind}: message {number} has {bytes_:,} bytes, the limit is {largest:,}: store it, and send its reference"
            raise ToolFailed(Outcome.failed("limit", message, retryable=False))
        if found[-1] and (len(found[-1]) == AT_ONCE or size + bytes_ > (together or largest)):
            found.append([])
            size = 0
        found[-1].append(entry)
        size += bytes_
    return [batch for batch in found if batch]


def sent_in(kind: str, answer: Mapping[str, Any], before: int, of: int) -> list[str]:
    """Return the ids of the sent messages in an answer of SQS or SNS; `before` of `of` were sent by earlier requests. Raises
    `ToolFailed` if some were not sent."""
    sent = [one["MessageId"] for one in sorted(answer.get("Successful", ()), key=lambda one: int(one["Id"]))]
    for failed in answer.get("Failed", ()):
        mine = bool(failed.get("SenderFault"))
        message = f"message {failed['Id']} was not sent: {failed.get('Message', failed['Code'])}"
        raise refused(kind, message, failed["Code"], "client_error" if mine else "server_error", before + len(sent), of)
    return sent


def refused(kind: str, message: str, code: str, error: ErrorKind, sent: int, of: int) -> ToolFailed:
    """Return the failure of a task if the service did not accept one of its messages."""
    retryable = error in ("server_error", "rate_limit")
    outcome = Outcome.failed(error, f"{kind}: {message}", retryable=retryable, code=code, details={"sent": sent, "of": of})
    return ToolFailed(outcome)
