"""Hooks function: requests to webhooks, authenticated only by a signature. It reads only the secrets of webhooks, starts nothing,
and forwards signed requests through the inbox queue. It reads playbooks only for webhooks that validate before they answer."""

from __future__ import annotations

from noetl_core.adapters.aws.functions.cold_start import imported

# isort: split
import json
import os
from base64 import b64decode
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.adapters.aws.catalog_table.catalog import DynamoPlaybookCatalog
from noetl_core.adapters.aws.catalog_table.rates import DynamoRequestRates
from noetl_core.adapters.aws.catalog_table.triggers import DynamoTriggers
from noetl_core.adapters.aws.functions.snapstart import on_snapshots
from noetl_core.adapters.aws.functions.telemetry import traced
from noetl_core.adapters.aws.named import results
from noetl_core.adapters.aws.secrets import SecretsManager
from noetl_core.adapters.aws.webhooks import SqsWebhookSink
from noetl_core.adapters.clock import SystemClock
from noetl_core.control.triggers.hooks import RATE, ROUTE, Answer, Hooks
from noetl_core.ports import TriggerRecord, WebhookDelivery

if TYPE_CHECKING:
    from noetl_core.control.triggers.validation import RegisteredPlaybooks

logger = Logger()
metrics = Metrics()
on_snapshots("dynamodb", "s3", "secretsmanager", "sqs")
HEADERS = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def _hooks() -> Hooks:
    """Return the service. It is created at the first request, so that a snapshot does not contain it."""
    catalog = os.environ["CATALOG_TABLE"]
    find, about = DynamoTriggers(catalog).trigger, DynamoPlaybookCatalog(catalog).about
    sink = SqsWebhookSink(os.environ["INBOX_QUEUE_URL"], results())
    secrets = SecretsManager(os.environ.get("SECRETS_PREFIX", "noetl/"))
    rates, rate = DynamoRequestRates(catalog), float(os.environ.get("HOOK_RATE", RATE))
    return Hooks(find, secrets, sink, SystemClock(), about, refusal_of, rates, rate, paths_required=True)


hooks = cache(_hooks)


@cache
def _playbooks() -> RegisteredPlaybooks:
    from noetl_core.control.triggers.validation import RegisteredPlaybooks  # 200 ms: only for webhooks with `respond: validated`

    return RegisteredPlaybooks(DynamoPlaybookCatalog(os.environ["CATALOG_TABLE"]), os.environ.get("STRICT") == "true")


def refusal_of(record: TriggerRecord, delivery: WebhookDelivery) -> Mapping[str, Any] | None:
    from noetl_core.control.triggers.validation import why_it_cannot_start  # 200 ms: only for webhooks with `respond: validated`

    return why_it_cannot_start(_playbooks(), record, delivery)


@logger.inject_lambda_context(correlation_id_path=correlation_paths.API_GATEWAY_REST)
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """Answer a request to a webhook. Neither its body nor its headers are logged or traced."""
    path, _, name = event["path"].partition(ROUTE)[2].rpartition("/")
    answer = _answer(unquote(path), unquote(name), event)
    logger.info("answered", extra={"route": f"POST {ROUTE}{{path+}}/{{name}}", "status": int(answer.status)})
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        metrics.add_metric("HooksOverRate", MetricUnit.Count, 1)
    body = {"error": {**answer.body["error"], "request_id": context.aws_request_id}} if "error" in answer.body else answer.body
    return {"statusCode": int(answer.status), "headers": {**HEADERS, **answer.headers}, "body": json.dumps(body)}


def _answer(path: str, name: str, event: Mapping[str, Any]) -> Answer:
    text = event.get("body") or ""
    try:
        body = b64decode(text, validate=True) if event.get("isBase64Encoded") else text.encode()
    except ValueError:  # not base64, or not valid UTF-8
        return Answer(400, {"error": {"code": "malformed", "message": "the body is not base64 of valid UTF-8", "details": []}})
    return hooks().answer(path, name, event.get("headers") or {}, body)


imported()
