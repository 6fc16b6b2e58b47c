"""Admit: the HTTP API, and uploads to the inbox bucket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.control.api import build_resolver
from noetl_core.control.uploads import Upload, take_upload
from noetl_core.wiring import control

logger = Logger()
metrics = Metrics()
tracer = Tracer()
uploads = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
api = build_resolver(control)


@logger.inject_lambda_context(correlation_id_path=correlation_paths.API_GATEWAY_REST)
@metrics.log_metrics
@tracer.capture_lambda_handler
def handler(event: dict[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """An API request, or a batch of upload notifications."""
    if "Records" in event:
        return process_partial_response(event=event, record_handler=_notified, processor=uploads, context=context)
    answer = api.resolve(event, context)
    logger.info("answered", extra={"path": event.get("path"), "status": answer["statusCode"]})
    return answer


def _notified(record: SQSRecord) -> None:
    for s3 in (r["s3"] for r in json.loads(record.body).get("Records", ())):  # a test notification has none
        thing = s3["object"]
        upload = Upload(
            bucket=s3["bucket"]["name"],
            key=unquote_plus(thing["key"]),
            size=int(thing.get("size", 0)),
            etag=thing.get("eTag", ""),
            version_id=thing.get("versionId"),
            sequencer=thing.get("sequencer"),
        )
        outcome = take_upload(control(), upload, _read)
        logger.info("upload taken", extra={"key": upload.key, "outcome": outcome})


def _read(upload: Upload) -> str:
    from noetl_core.adapters.aws.clients import client

    more = {"VersionId": upload.version_id} if upload.version_id and upload.version_id != "null" else {}
    body: bytes = client("s3").get_object(Bucket=upload.bucket, Key=upload.key, **more)["Body"].read()
    return body.decode()
