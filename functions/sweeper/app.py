"""Sweeper function: every minute it reconciles executions whose timers are due or that have stopped moving, then handles dead
letters."""

from __future__ import annotations

from noetl_core.adapters.aws.functions.cold_start import imported

# isort: split
import json
import os
from dataclasses import asdict
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.adapters.aws.dead_letters import drain
from noetl_core.adapters.aws.functions.invocation import TimeLeft
from noetl_core.adapters.aws.functions.telemetry import traced
from noetl_core.control.sweeping.dead_letters import handle_dead_letter
from noetl_core.control.sweeping.sweep import sweep
from noetl_core.runtime.control_wiring import control, control_until, left_messages

logger = Logger()
metrics = Metrics()
SPARE_S = 15
"""Time reserved in the invocation for the reconciliation in progress, and for the dead letters."""
LETTERS_SPARE_S = 5


@logger.inject_lambda_context
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """Sweep until the time is up. Executions that are not reached remain due."""
    left_messages()
    until = control().clock.now() + int(max(1.0, TimeLeft(context, SPARE_S).seconds) * 1_000_000)
    done = sweep(control(), until, within=control_until)
    left = TimeLeft(context, LETTERS_SPARE_S)
    dead = drain(
        json.loads(os.environ["DEAD_LETTER_QUEUES"]), partial(handle_dead_letter, control()), late=lambda: left.seconds <= 0
    )
    swept = {**asdict(done), "dead": dead}
    logger.info("swept", extra=swept)
    for name in ("looked", "handed", "takeovers", "resent", "fenced", "broken", "dead"):
        metrics.add_metric(f"Sweep{name.title()}", MetricUnit.Count, swept[name])
    return swept


imported()
