"""Admit function: the HTTP API, and deliveries by queues: uploads, events, signed requests to webhooks, messages."""

from __future__ import annotations

from noetl_core.adapters.aws.functions.cold_start import imported

# isort: split
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.utilities.batch import process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.adapters.aws.functions.concurrent_calls import in_time
from noetl_core.adapters.aws.functions.invocation import LoggedBatch, TimeLeft
from noetl_core.adapters.aws.functions.telemetry import traced
from noetl_core.adapters.aws.inbox import PARTS_FROM
from noetl_core.adapters.aws.webhooks import read_webhook
from noetl_core.control.triggers.deliveries import Deliveries, Delivery, UploadDelivery
from noetl_core.control.triggers.notifications import (
    EventDelivery,
    NoNotification,
    is_event,
    queue_delivery,
    uploads_in,
    value_of,
)
from noetl_core.control.triggers.uploads import is_of_a_path, take_upload
from noetl_core.engine.statuses import MAX_ATTEMPTS
from noetl_core.ports import Deadline, NotFound, OutOfTime, TriggerRecord
from noetl_core.runtime.control_wiring import MESSAGE, control, control_until, inbox, left_messages, marks, results
from noetl_core.service.api_service import api_of

logger = Logger()
metrics = Metrics()
taking = LoggedBatch(logger, lambda record: {"message_id": record.message_id, "queue": _queue_of(record)})
api = api_of(control)
SPARE_S = 5
"""Seconds reserved in the invocation to report unprocessed messages."""
LONGEST_S = 20
"""Maximum time for one delivery while others of its batch wait, unless it is a large upload, which must be copied.

A redelivery may use all remaining time.
"""
left = TimeLeft(None, SPARE_S)
triggers: Sequence[TriggerRecord] | None = None
"""The triggers that take deliveries, read once per invocation that needs them."""


class EndsProcesses(Exception):
    """A message whose evaluation has killed processes is not evaluated again. Who acts: the operator, at the dead letters."""


@logger.inject_lambda_context(correlation_id_path=correlation_paths.API_GATEWAY_REST)
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """Handle an API request, or a batch of messages."""
    global left, triggers
    suspects = left_messages()
    if "Records" in event:
        left, triggers = TimeLeft(context, SPARE_S), None
        event["Records"].sort(
            key=lambda record: record["messageId"] in suspects
        )  # the others are done if it kills this process too
        return process_partial_response(event=event, record_handler=_handle_record, processor=taking, context=context)
    answer = api.resolve(event, context)
    logger.info("answered", extra={**api.access(event), "status": answer["statusCode"]})
    return answer


def _handle_record(record: SQSRecord) -> None:
    received = int(record.attributes.approximate_receive_count or 1)
    if record.message_id in left_messages() and received > MAX_ATTEMPTS:
        raise EndsProcesses(
            f"the evaluation of message {record.message_id} has killed processes; the message becomes a dead letter"
        )
    with marks().mark(MESSAGE + record.message_id):
        take_all(record, first=received == 1)


def take_all(record: SQSRecord, *, first: bool) -> None:
    """Take the deliveries of a record; the first time, each small one gets only a part of the time left."""
    for delivery in _deliveries(record):
        if left.seconds <= 0:
            raise TimeoutError("no time was left for this delivery in this invocation")
        short = first and not (isinstance(delivery, UploadDelivery) and delivery.upload.size > PARTS_FROM)
        named = _log_fields(delivery)
        try:
            outcome = in_time(partial(_take, delivery), min(LONGEST_S, left.seconds) if short else left.seconds)
        except OutOfTime as late:
            raise TimeoutError(f"taking {' '.join(named.values())}: {late}") from late
        logger.info("taken", extra={**named, "outcome": outcome})


def _deliveries(record: SQSRecord) -> list[Delivery]:
    """Return the deliveries of a message. An unreadable message of the inbox queue is logged and dropped, because no retry
    helps."""
    if _queue_of(record) != os.environ.get("INBOX_QUEUE", _queue_of(record)):
        return [queue_delivery(record.raw_event)]
    message = value_of(record.body)
    try:
        webhook = read_webhook(message, results())
        if webhook is not None:
            return [webhook]
        found: list[Delivery] = [EventDelivery(message)] if is_event(message) else []
        return found + [UploadDelivery(upload, inbox()) for upload in uploads_in(message)]
    except (NoNotification, NotFound) as error:
        logger.error("a message is unreadable", extra={"message_id": record.message_id, "reason": str(error)})
        return []


def _take(delivery: Delivery, deadline: Deadline) -> str:
    global triggers
    bucket = os.environ.get("INBOX_BUCKET", "")
    with control_until(deadline) as control:
        if isinstance(delivery, UploadDelivery) and is_of_a_path(delivery.upload, bucket):
            return take_upload(control, delivery.upload, delivery.inbox)
        deliveries = Deliveries(control, bucket)
        if triggers is None and deliveries.needs_all(delivery):
            triggers = control.triggers.delivery_triggers()
        done = deliveries.take(delivery, triggers)
    return ", ".join(f"{one.result} {one.execution_id or one.reason}" for one in done) or "nothing takes it"


def _log_fields(delivery: Delivery) -> dict[str, str]:
    """Return the fields that identify a delivery in the log, never its content."""
    if isinstance(delivery, UploadDelivery):
        return {"what": "upload", "key": delivery.upload.key}
    return {"what": delivery.kind, "id": delivery.id}


def _queue_of(record: SQSRecord) -> str:
    return record.event_source_arn.rpartition(":")[2]


imported()
