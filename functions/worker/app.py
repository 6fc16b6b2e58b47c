"""Worker function: one command per message. A message is deleted only after its run has ended or suspended
(docs/architecture.md, "The way of one step")."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.aws.invocation import LoggedBatch
from noetl_core.adapters.aws.queue import about_command, read_command
from noetl_core.observe.telemetry import traced
from noetl_core.worker.service import Handled
from noetl_core.worker_wiring import results, worker

logger = Logger()
metrics = Metrics()
processor = LoggedBatch(logger, lambda record: about_command(record.body))
SPARE_MS = 10_000
"""What is kept of the invocation for the last commit."""
RETRY_AFTER_S = 30
"""When a command that raised an error is tried again."""
deadline = 0


@logger.inject_lambda_context
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """Handle a batch of commands."""
    global deadline
    deadline = time.time_ns() // 1000 + max(1_000, context.get_remaining_time_in_millis() - SPARE_MS) * 1000
    return process_partial_response(event=event, record_handler=_command, processor=processor, context=context)


def _command(record: SQSRecord) -> None:
    try:
        command = read_command(record.body, results())
        handled: Handled = worker().handle(command, deadline)
    except Exception:
        _hand_back(record, RETRY_AFTER_S)
        raise
    logger.info(
        "handled",
        extra={
            "execution_id": command.execution_id,
            "step": command.step,
            "run": command.run_id,
            "became": handled.kind,
            "because": handled.reason,
        },
    )
    metrics.add_metric(
        f"Commands{handled.kind.title().replace('_', '')}", MetricUnit.Count, 1
    )  # one handed back is a duplicate of a live run


def _hand_back(record: SQSRecord, seconds: int) -> None:
    """Make the message visible again sooner than the long visibility timeout of its queue would."""
    url = client("sqs").get_queue_url(QueueName=record.event_source_arn.rsplit(":", 1)[1])["QueueUrl"]
    client("sqs").change_message_visibility(QueueUrl=url, ReceiptHandle=record.receipt_handle, VisibilityTimeout=seconds)
