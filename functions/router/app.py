"""Router: news from the log's stream and wakes from the control queue, to `Control.route`.

A batch is grouped by execution. An execution whose routing fails is woken again through the control queue, so that it never
blocks the shard; only when that is impossible too is the batch raised, and Lambda delivers it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.adapters.aws.events import commit_from_image
from noetl_core.control.fence import boundary_of
from noetl_core.engine.records import Boundary
from noetl_core.observe.telemetry import traced
from noetl_core.ports import CorruptLog
from noetl_core.wiring import control, results

logger = Logger()
metrics = Metrics()
wakes = BatchProcessor(event_type=EventType.SQS)
RETRY_AFTER_S = 5


@logger.inject_lambda_context
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """A batch of stream records, or of wakes."""
    records = event["Records"]
    if records[0].get("eventSource") == "aws:dynamodb":
        return _stream(records)
    return process_partial_response(event=event, record_handler=_wake, processor=wakes, context=context)


def _stream(records: list[dict[str, Any]]) -> Mapping[str, Any]:
    news: dict[str, list[Boundary]] = {}
    for record in records:
        image = record["dynamodb"]["NewImage"]
        try:
            commit = commit_from_image(image, results())
        except CorruptLog:  # it would never read: the sweep that looks at the execution marks it stuck
            logger.exception("a commit does not read")
            metrics.add_metric("CommitsCorrupt", MetricUnit.Count, 1)
            control().index.set_due(image["execution_id"]["S"], control().clock.now())
            continue
        boundary = boundary_of(commit) if commit is not None else None
        if commit is not None and boundary is not None:
            news.setdefault(commit.stream.execution_id, []).append(boundary)
    for execution_id, boundaries in news.items():
        _route(execution_id, boundaries)
    logger.info("routed", extra={"records": len(records), "executions": len(news)})
    metrics.add_metric("BoundariesRouted", MetricUnit.Count, sum(map(len, news.values())))
    return {"batchItemFailures": []}


def _route(execution_id: str, boundaries: list[Boundary]) -> None:
    try:
        control().route(execution_id, boundaries)
    except Exception:  # whatever one execution does must not hold up the others of the batch
        logger.exception("routing failed; it is tried again", extra={"execution_id": execution_id})
        metrics.add_metric("RoutingFailed", MetricUnit.Count, 1)
        control().index.set_due(execution_id, control().clock.now())
        control().queue.wake(execution_id, RETRY_AFTER_S)


def _wake(record: SQSRecord) -> None:
    from noetl_core.control.sweep import Swept, look

    execution_id = str(json.loads(record.body)["wake"])
    swept = look(control(), execution_id, Swept())
    logger.info("woken", extra={"execution_id": execution_id, "routed": swept.routed, "resent": swept.resent})
