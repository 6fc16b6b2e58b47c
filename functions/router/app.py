"""Router function: it passes records from the stream of the event log, and wakes from the control queue, to `Control.route`.

A batch is grouped by execution, and its executions are routed concurrently; the boundaries of one execution are routed together.
Commands are sent in full requests, each after the commit that scheduled it. An execution whose routing fails or takes too long,
or for which no time is left, gets a wake through the control queue, so that it never blocks the shard. Only if that fails too,
the function raises, and Lambda delivers the batch again.
"""

from __future__ import annotations

from noetl_core.adapters.aws.functions.cold_start import imported

# isort: split
import json
import random
from collections.abc import Mapping
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.adapters.aws.events import commit_from_image
from noetl_core.adapters.aws.functions.concurrent_calls import NotBegun, in_time, side_by_side
from noetl_core.adapters.aws.functions.invocation import LoggedBatch, TimeLeft
from noetl_core.adapters.aws.functions.telemetry import traced
from noetl_core.control.asks import head_start
from noetl_core.control.fence import boundary_of
from noetl_core.control.sweeping.sweep import Swept, reconcile_safely
from noetl_core.engine.records import Boundary
from noetl_core.ports import Deadline, OutOfTime
from noetl_core.runtime.control_wiring import commands, control, control_until, left_messages, results
from noetl_core.values.instants import SECOND

logger = Logger()
metrics = Metrics()
wakes = LoggedBatch(logger, lambda record: {"execution_id": json.loads(record.body).get("wake")})
RETRY_AFTER_S = 5
SPARE_S = 10
"""Seconds reserved in the invocation to hand over unprocessed executions."""
LONGEST_S = 20
"""Maximum time for one execution while others of its batch wait; a redelivered wake may use all remaining time."""
AT_ONCE = 16
"""Executions that are routed concurrently. They mostly wait for DynamoDB, whose client has twice as many connections."""
left = TimeLeft(None, SPARE_S)


@logger.inject_lambda_context
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """Handle a batch of stream records, or of wakes."""
    global left
    left = TimeLeft(context, SPARE_S)
    left_messages()
    records = event["Records"]
    if records[0].get("eventSource") == "aws:dynamodb":
        return _stream(records)
    metrics.add_metric("Wakes", MetricUnit.Count, len(records))
    doubtful: list[str] = []
    control().postponed = doubtful.append
    try:
        answer = process_partial_response(event=event, record_handler=_wake, processor=wakes, context=context)
    finally:
        control().postponed = None
    _risk(list(dict.fromkeys(doubtful)))
    return answer


def _risk(doubtful: list[str]) -> None:
    """Reconcile an execution whose templates have killed a process, after all others of the batch: if this process dies too, they
    are done. There is one per invocation; the rest get a wake each."""
    if not doubtful or left.seconds <= 0:
        return  # it stays due
    first, *rest = random.sample(doubtful, len(doubtful))  # one by one, so that none delays the others
    for execution_id in rest:
        control().queue.wake(execution_id, delay_s=RETRY_AFTER_S)
    metrics.add_metric("EvaluationsRisked", MetricUnit.Count, 1)
    risked = control().risked
    assert risked is not None
    risked.add(first)
    try:
        in_time(partial(_reconcile, first), left.seconds)
    except OutOfTime:
        logger.exception("an execution takes too long; it will be retried", extra={"execution_id": first})
    finally:
        risked.discard(first)


def _reconcile(execution_id: str, deadline: Deadline) -> Swept:
    with control_until(deadline) as control:
        return reconcile_safely(control, execution_id, Swept())


def _stream(records: list[dict[str, Any]]) -> Mapping[str, Any]:
    news: dict[str, list[Boundary]] = {}
    left_to_asks: dict[str, list[Boundary]] = {}
    wait_s, now = 0.0, control().clock.now()
    for record in records:
        try:
            commit = commit_from_image(record["dynamodb"]["NewImage"], results())
            boundary = boundary_of(commit) if commit is not None else None
            if commit is not None and not commit.stream.execution_id.isdecimal():
                raise ValueError(f"{commit.stream.execution_id!r} is not an execution's id")
        except Exception:  # a malformed record must not block the others
            logger.exception("a stream record is unreadable; the sweeper reconciles its execution", extra=_log_fields(record))
            metrics.add_metric("CommitsUnreadable", MetricUnit.Count, 1)
            _set_due_now(_log_fields(record).get("execution_id"))
            continue
        if commit is not None and boundary is not None:
            start_s = head_start(commit, now)
            wait_s = max(wait_s, start_s)
            (left_to_asks if start_s else news).setdefault(commit.stream.execution_id, []).append(boundary)
    _route_all(news)
    if left_to_asks:
        control().clock.sleep(min(wait_s - (control().clock.now() - now) / SECOND, left.seconds))
        _route_all(left_to_asks)
    boundaries = [boundary for found in (news, left_to_asks) for of in found.values() for boundary in of]
    logger.info("routed", extra={"records": len(records), "executions": len(news.keys() | left_to_asks.keys())})
    metrics.add_metric("BoundariesRouted", MetricUnit.Count, len(boundaries))
    return {"batchItemFailures": []}


def _route_all(news: Mapping[str, list[Boundary]]) -> None:
    """Route each execution of a batch. Raises if one can be routed neither now nor later."""
    calls = [partial(route, execution_id, boundaries) for execution_id, boundaries in news.items()]
    with commands().gathering() as unsent:
        outcomes = side_by_side(calls, AT_ONCE, lambda: min(LONGEST_S, left.seconds), pulse=commands().flush)
    for execution_id, error in zip(news, outcomes, strict=True):
        if isinstance(error, NotBegun):
            wake_later(execution_id, 0)
        elif isinstance(error, OutOfTime):
            _failed(execution_id, error)
        elif error is not None:
            raise error
    for execution_id in unsent:
        _failed(execution_id, None)


def _log_fields(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the execution of a record, from its key."""
    try:
        kind, execution_id, *_ = record["dynamodb"]["NewImage"]["pk"]["S"].split("#")
    except (LookupError, TypeError, AttributeError, ValueError):
        return {}
    return {"execution_id": execution_id} if kind in ("m", "r") and execution_id.isdecimal() else {}


def _set_due_now(execution_id: str | None) -> None:
    if execution_id is not None:
        control().index.set_due(execution_id, control().clock.now())


def route(execution_id: str, boundaries: list[Boundary], deadline: Deadline) -> None:
    """Route the boundaries of one execution. If that fails, the execution gets a wake."""
    try:
        with control_until(deadline) as control:
            control.route(execution_id, boundaries)
    except Exception as error:  # one execution must not block the others of the batch
        _failed(execution_id, error)


def _failed(execution_id: str, error: BaseException | None) -> None:
    """Log that routing failed (None: its commands were not sent), and schedule a retry."""
    message = {"execution_id": execution_id, "reason": "its commands were not sent" if error is None else repr(error)}
    logger.error("routing failed; it will be retried", extra=message, exc_info=error)
    metrics.add_metric("RoutingFailed", MetricUnit.Count, 1)
    wake_later(execution_id, RETRY_AFTER_S)


def wake_later(execution_id: str, delay_s: int) -> None:
    """Wake the execution through the control queue; if that message is lost, the sweeper finds it."""
    _set_due_now(execution_id)
    control().queue.wake(execution_id, delay_s=delay_s)


def _wake(record: SQSRecord) -> None:
    execution_id = str(json.loads(record.body)["wake"])
    if left.seconds <= 0:
        raise TimeoutError("no time was left for this execution in this invocation")
    first = record.attributes.approximate_receive_count == "1"
    try:
        swept = in_time(partial(_reconcile, execution_id), min(LONGEST_S, left.seconds) if first else left.seconds)
    except OutOfTime as late:
        raise TimeoutError(f"reconciling execution {execution_id}: {late}") from late
    logger.info("woken", extra={"execution_id": execution_id, "routed": swept.routed, "resent": swept.resent})
    if swept.broken:
        metrics.add_metric("LooksFailed", MetricUnit.Count, 1)


imported()
