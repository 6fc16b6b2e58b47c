"""Admit function: the HTTP API, and uploads to the inbox bucket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.utilities.batch import process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.adapters.aws.inbox import PARTS_FROM
from noetl_core.adapters.aws.invocation import LoggedBatch, OutOfTime, TimeLeft, at_most
from noetl_core.control.api import build_resolver
from noetl_core.control.uploads import take_upload
from noetl_core.observe.telemetry import traced
from noetl_core.ports import Upload
from noetl_core.wiring import control, inbox

logger = Logger()
metrics = Metrics()
uploads = LoggedBatch(logger, lambda record: {"notification": record.body[:1000]})
api = build_resolver(control)
SPARE_S = 5
"""What is kept of the invocation to report what was not processed."""
LONGEST_S = 20
"""The longest time of one upload while others of its batch wait, unless it is large and must be copied. An upload that comes
again may use all the time there is."""
left = TimeLeft(None, SPARE_S)


@logger.inject_lambda_context(correlation_id_path=correlation_paths.API_GATEWAY_REST)
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """Handle an API request, or a batch of upload notifications."""
    global left
    if "Records" in event:
        left = TimeLeft(context, SPARE_S)
        return process_partial_response(event=event, record_handler=_notified, processor=uploads, context=context)
    answer = api.resolve(event, context)
    logger.info("answered", extra={"route": api.route(event), "status": answer["statusCode"]})
    return answer


def _notified(record: SQSRecord) -> None:
    first = record.attributes.approximate_receive_count == "1"
    for upload in _uploads(record.body):
        if left.seconds <= 0:
            raise TimeoutError("no time was left for it in this invocation")
        try:
            with at_most(min(LONGEST_S, left.seconds) if first and upload.size <= PARTS_FROM else left.seconds):
                outcome = take_upload(control(), upload, inbox())
        except OutOfTime as late:
            raise TimeoutError(f"taking upload {upload.key}: {late}") from late
        logger.info("upload taken", extra={"key": upload.key, "outcome": outcome})


def _uploads(body: str) -> list[Upload]:
    """Return the puts in a notification. A notification that cannot be read is logged and dropped, because it can never be
    read."""
    try:
        told = [r["s3"] for r in json.loads(body).get("Records", ())]  # a test notification has none
        return [
            Upload(
                bucket=str(s3["bucket"]["name"]),
                key=unquote_plus(s3["object"]["key"]),
                size=int(s3["object"].get("size", 0)),
                etag=str(s3["object"].get("eTag", "")),
                version_id=s3["object"].get("versionId"),
                sequencer=s3["object"].get("sequencer"),
            )
            for s3 in told
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        logger.exception("a notification does not read", extra={"body": body[:1000]})
        return []
