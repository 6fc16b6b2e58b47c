"""Worker function: the commands of a batch run side by side, as far as they share a process (`worker.turns`). A message is
deleted only after its run has ended or suspended (docs/architecture.md, "The way of one step"); each succeeds or fails for
itself."""

from __future__ import annotations

from noetl_core.adapters.aws.cold_start import imported

# isort: split
import random
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.aws.invocation import OutOfTime, TimeLeft, log_failure
from noetl_core.adapters.aws.queue import about_command, read_command
from noetl_core.adapters.aws.side_by_side import side_by_side
from noetl_core.observe.telemetry import traced
from noetl_core.ports import PortError
from noetl_core.worker.service import Handled
from noetl_core.worker.turns import ALONE_TRIES, TURN_S, NoTurn, Turns, hand_over_s
from noetl_core.worker_wiring import gates, results, worker

logger = Logger()
metrics = Metrics()
SPARE_MS = 10_000
"""What is kept of the invocation for the last commit."""
ANSWER_S = 3
"""What is kept of the invocation to answer which messages failed, should a task not hear that its time is over."""
RETRY_AFTER_S = 30
"""When a command that raised an error is tried again."""
TRIES = 10
"""What still fails when it was received so often is to become a dead letter soon, though hand-overs need a larger count."""
LAST_TRIES_S = 2
PROCESSOR_MB = 1769
"""The memory with which Lambda gives a function a whole processor."""
turns: Turns | None = None


@logger.inject_lambda_context
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """Handle a batch of commands."""
    global turns
    turns = turns or Turns(max(1, int(context.memory_limit_in_mb) // PROCESSOR_MB))
    left_ms = context.get_remaining_time_in_millis()
    deadline = time.time_ns() // 1000 + max(1_000, left_ms - SPARE_MS) * 1000
    records = [SQSRecord(record) for record in event["Records"]]
    became: list[Handled] = []
    calls = [partial(_command, record, deadline, turns, became) for record in records]
    left = TimeLeft(context, ANSWER_S)
    _look_at_gates(records)
    outcomes = side_by_side(calls, len(calls), lambda: max(1.0, left.seconds), interrupt=False)
    for handled in became:  # one handed back is a duplicate of a live run
        metrics.add_metric(f"Commands{handled.kind.title().replace('_', '')}", MetricUnit.Count, 1)
    failed = [(record, error) for record, error in zip(records, outcomes, strict=True) if error is not None]
    for record, error in failed:
        if isinstance(error, OutOfTime):  # its call was left behind; all others have said why they failed
            turns = None  # which it may keep for ever: the next invocation has new ones
            _comes_again(record, error)
    return {"batchItemFailures": [{"itemIdentifier": record.message_id} for record, _ in failed]}


def _look_at_gates(records: Sequence[SQSRecord]) -> None:
    """Read the gates of a batch by one request. What it does not bring is read with the command."""
    try:
        gates().look_at(str(about_command(record.body)["execution_id"]) for record in records)
    except (PortError, ValueError, AttributeError, KeyError) as error:
        logger.info("gates are read one by one", extra={"reason": repr(error)})


def _command(record: SQSRecord, deadline: int, turns: Turns, became: list[Handled]) -> None:
    """Carry out one command. It is handed back as soon as it has failed: the invocation may go on for long with others."""
    try:
        command = read_command(record.body, results())
        share = worker().share(command)
        received = int(record.attributes.approximate_receive_count)
        with turns.turn("computes" if share == "alone" and received > ALONE_TRIES else share, TURN_S):
            handled = worker().handle(command, deadline)
    except NoTurn as busy:
        logger.info("a message goes to another worker", extra={"reason": str(busy), **about_command(record.body)})
        _hand_back(record, hand_over_s(received, random.random()))
        raise
    except BaseException as error:  # also what would end the process: the other commands of the batch go on
        _comes_again(record, error)
        raise
    became.append(handled)
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


def _comes_again(record: SQSRecord, error: BaseException) -> None:
    log_failure(logger, about_command, record, error)
    received = int(record.attributes.approximate_receive_count)
    _hand_back(record, RETRY_AFTER_S if received <= TRIES else LAST_TRIES_S)


def _hand_back(record: SQSRecord, seconds: int) -> None:
    """Make the message visible again sooner than the long visibility timeout of its queue would. It is reported as failed all the
    same, or it would be deleted with the batch."""
    url = client("sqs").get_queue_url(QueueName=record.event_source_arn.rsplit(":", 1)[1])["QueueUrl"]
    client("sqs").change_message_visibility(QueueUrl=url, ReceiptHandle=record.receipt_handle, VisibilityTimeout=seconds)


imported()
