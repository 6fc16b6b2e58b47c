"""Credentials function: the part of the HTTP API that handles secrets, separate from everything that reads playbooks."""

from __future__ import annotations

from noetl_core.adapters.aws.functions.cold_start import imported

# isort: split
import os
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.adapters.aws.functions.snapstart import on_snapshots
from noetl_core.adapters.aws.functions.telemetry import traced
from noetl_core.adapters.aws.secrets import SecretsManager
from noetl_core.api.app import Api
from noetl_core.api.callers import Rights
from noetl_core.service.answering import Service, nothing_here
from noetl_core.service.operations import credentials as credentials  # the operations that this function answers

logger = Logger()
metrics = Metrics()
on_snapshots("secretsmanager")
secrets = SecretsManager(os.environ.get("SECRETS_PREFIX", "noetl/"))
api = Api(
    Service(
        control=nothing_here,
        cursor_key=nothing_here,
        secrets=lambda: secrets,
        rights=Rights.from_environment(),
        paths_required=True,
    )
)


@logger.inject_lambda_context(correlation_id_path=correlation_paths.API_GATEWAY_REST)
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """Handle an API request about credentials. Neither its body nor its answer is logged or traced."""
    answer = api.resolve(event, context)
    logger.info("answered", extra={**api.access(event), "status": answer["statusCode"]})
    return answer


imported()
