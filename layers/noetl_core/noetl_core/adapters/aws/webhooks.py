"""Signed requests to webhooks, forwarded through the inbox queue. The message of a large one refers to the results bucket."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from noetl_core.adapters.aws.clients import client, errors_of
from noetl_core.adapters.aws.queue import MAX_MESSAGE
from noetl_core.ports import ResultStore, WebhookDelivery

WEBHOOK, STORED = "noetl_webhook", "stored"
FOLDER = "hooks"
"""Prefix of large requests in the results bucket."""


class SqsWebhookSink:
    """`WebhookSink` over SQS. `queue` is the URL of the inbox queue."""

    def __init__(self, queue: str, results: ResultStore) -> None:
        self._queue, self._results = queue, results

    def forward(self, delivery: WebhookDelivery) -> None:
        fields = {"path": delivery.path, "name": delivery.name, "id": delivery.id, "at": delivery.at}
        message = json.dumps({WEBHOOK: {**fields, "event": delivery.event}}, separators=(",", ":"))
        if len(message) > MAX_MESSAGE:
            body = json.dumps(delivery.event, separators=(",", ":")).encode()
            mark = sha256(json.dumps(fields).encode() + body).hexdigest()
            stored = self._results.put(f"{FOLDER}/{mark}.json", body)["key"]
            message = json.dumps({WEBHOOK: {**fields, STORED: stored}})
        with errors_of("hand on a webhook"):
            client("sqs").send_message(QueueUrl=self._queue, MessageBody=message)


def read_webhook(message: Any, results: ResultStore) -> WebhookDelivery | None:
    """Return the request in a message of the inbox queue; None for any other message. Raises `NotFound` if the stored request is
    gone, `Unavailable`."""
    if not isinstance(message, dict) or set(message) != {WEBHOOK}:
        return None
    fields = message[WEBHOOK]
    event = fields["event"] if "event" in fields else json.loads(results.get(fields[STORED]))
    return WebhookDelivery(fields["path"], fields["name"], fields["id"], event, fields["at"])
