"""Sweeper: every minute, timers that are due and whatever stopped moving."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.adapters.aws.dead_letters import drain
from noetl_core.control.sweep import bury, sweep
from noetl_core.observe.telemetry import traced
from noetl_core.wiring import control

logger = Logger()
metrics = Metrics()


@logger.inject_lambda_context
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """One sweep over what is due."""
    dead = drain(json.loads(os.environ["DEAD_LETTER_QUEUES"]), partial(bury, control()))
    swept = {**asdict(sweep(control())), "dead": dead}
    logger.info("swept", extra=swept)
    for name in ("takeovers", "resent", "fenced", "broken", "dead"):
        metrics.add_metric(f"Sweep{name.title()}", MetricUnit.Count, swept[name])
    return swept
