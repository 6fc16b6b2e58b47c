"""Sweeper: every minute, timers that are due and whatever stopped moving."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.control.sweep import sweep
from noetl_core.wiring import control

logger = Logger()
metrics = Metrics()
tracer = Tracer()


@logger.inject_lambda_context
@metrics.log_metrics
@tracer.capture_lambda_handler
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """One sweep over what is due."""
    swept = asdict(sweep(control()))
    logger.info("swept", extra=swept)
    for name in ("takeovers", "resent", "fenced", "broken"):
        metrics.add_metric(f"Sweep{name.title()}", MetricUnit.Count, swept[name])
    return swept
