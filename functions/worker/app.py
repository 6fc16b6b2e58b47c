"""Worker function: the commands of a batch run concurrently if they may share a process (`worker.turns`). A message is deleted
only after its run has ended or was suspended (docs/architecture.md, "The way of one step"); each succeeds or fails
individually."""

from __future__ import annotations

from noetl_core.adapters.aws.functions.cold_start import imported
from noetl_core.worker.loops.processor import MIB_PER_CPU

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
from noetl_core.adapters.aws.functions.concurrent_calls import side_by_side
from noetl_core.adapters.aws.functions.invocation import TimeLeft, log_failure
from noetl_core.adapters.aws.functions.telemetry import traced
from noetl_core.adapters.aws.queue import about_command, read_command
from noetl_core.engine.records import Command
from noetl_core.ports import Deadline, OutOfTime, PortError
from noetl_core.runtime.worker_wiring import gates, results, worker
from noetl_core.worker.service import Handled
from noetl_core.worker.turns import ALONE_ATTEMPTS, TURN_S, NoTurn, Turns, hand_over_s

logger = Logger()
metrics = Metrics()
SPARE_MS = 10_000
"""Seconds reserved in the invocation for the last commit."""
ANSWER_S = 3
"""Seconds reserved in the invocation to report failed messages, in case a task does not react to its timeout."""
RETRY_AFTER_S = 30
"""The delay before a command that raised an error is retried."""
MAX_RECEIVES = 10
"""Number of receives after which a message that still fails should soon become a dead letter.

The queue's own limit is higher, because hand-overs count as receives.
"""
LAST_RETRIES_S = 2
turns: Turns | None = None


@logger.inject_lambda_context
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """Handle a batch of commands."""
    global turns
    turns = turns or Turns(max(1, int(context.memory_limit_in_mb) // MIB_PER_CPU))
    if (asker := worker().asker) is not None:
        asker.observe = _count
    left_ms = context.get_remaining_time_in_millis()
    deadline = time.time_ns() // 1000 + max(1_000, left_ms - SPARE_MS) * 1000
    records = [SQSRecord(record) for record in event["Records"]]
    became: list[Handled] = []
    calls = [partial(_command, record, deadline, turns, became) for record in records]
    left = TimeLeft(context, ANSWER_S)
    _read_gates(records)
    outcomes = side_by_side(calls, len(calls), lambda: max(1.0, left.seconds), grace_s=0.0)
    for handled in became:  # a handed-back command is a duplicate of a running one
        metrics.add_metric(f"Commands{handled.kind.title().replace('_', '')}", MetricUnit.Count, 1)
    failed = [(record, error) for record, error in zip(records, outcomes, strict=True) if error is not None]
    for record, error in failed:
        if isinstance(error, OutOfTime):  # an abandoned call; all others have logged their errors
            turns = None  # the abandoned call may keep its turn forever, so the next invocation gets new ones
            _comes_again(record, error)
    return {"batchItemFailures": [{"itemIdentifier": record.message_id} for record, _ in failed]}


def _count(name: str, value: float) -> None:
    metrics.add_metric(name, MetricUnit.Milliseconds if name.endswith("Ms") else MetricUnit.Count, value)


def _read_gates(records: Sequence[SQSRecord]) -> None:
    """Read the gates of a batch in one request. Missing ones are read with the command."""
    try:
        gates().look_at(str(about_command(record.body)["execution_id"]) for record in records)
    except (PortError, ValueError, AttributeError, KeyError) as error:
        logger.info("gates are read one by one", extra={"reason": repr(error)})


def _command(record: SQSRecord, deadline: int, turns: Turns, became: list[Handled], _: Deadline) -> None:
    """Carry out one command; its worker stops at `deadline`. A failed one is handed back at once, because others may keep the
    invocation running for long."""
    try:
        command = read_command(record.body, results())
        share = worker().share(command)
        received = int(record.attributes.approximate_receive_count)
        with turns.turn("computes" if share == "alone" and received > ALONE_ATTEMPTS else share, TURN_S) as turn:
            for carried_out, handled in worker().chain(command, deadline, turn):
                _note(carried_out, handled, became)
    except NoTurn as busy:
        logger.info("a message goes to another worker", extra={"reason": str(busy), **about_command(record.body)})
        _hand_back(record, hand_over_s(received, random.random()))
        raise
    except BaseException as error:  # even for exceptions that would end the process: the other commands of the batch continue
        _comes_again(record, error)
        raise


def _note(command: Command, handled: Handled, became: list[Handled]) -> None:
    """Log what became of a command, for which the metrics count it."""
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
    _hand_back(record, RETRY_AFTER_S if received <= MAX_RECEIVES else LAST_RETRIES_S)


def _hand_back(record: SQSRecord, seconds: int) -> None:
    """Make the message visible again before the long visibility timeout of its queue. It is also reported as failed, because it
    would be deleted with the batch otherwise."""
    url = client("sqs").get_queue_url(QueueName=record.event_source_arn.rsplit(":", 1)[1])["QueueUrl"]
    client("sqs").change_message_visibility(QueueUrl=url, ReceiptHandle=record.receipt_handle, VisibilityTimeout=seconds)


imported()
