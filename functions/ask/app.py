"""Ask function: workers ask it to route a boundary that they have written, and for a run that follows (docs/decisions.md, "Eager
dispatch"). It takes asks alone; boundaries come from the log, never from the caller.

An ask that is not answered does no harm: the stream of the log has the boundary, too.
"""

from __future__ import annotations

from noetl_core.adapters.aws.functions.cold_start import imported

# isort: split
from collections.abc import Mapping
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from noetl_core.adapters.aws.functions.concurrent_calls import in_time
from noetl_core.adapters.aws.functions.invocation import TimeLeft
from noetl_core.adapters.aws.functions.telemetry import traced
from noetl_core.adapters.aws.queue import message_of
from noetl_core.control.asks import Refused, answer
from noetl_core.engine.records import Ask, Command
from noetl_core.log.codec import ASK_VERSION, decode_ask
from noetl_core.ports import Deadline, OutOfTime, PortError
from noetl_core.runtime.control_wiring import control_until, left_messages

logger = Logger()
metrics = Metrics()
SPARE_S = 2
"""Seconds reserved in the invocation to say that there was not enough time."""


@logger.inject_lambda_context
@metrics.log_metrics
@traced
def handler(event: dict[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """Answer an ask with at most one command. Raises `ValueError` for anything else."""
    left_messages()
    metrics.add_metric("AsksReceived", MetricUnit.Count, 1)
    ask = decode_ask(event)
    command, refused = None, ""
    try:
        command = in_time(partial(_answer, ask), TimeLeft(context, SPARE_S).seconds)
    except (PortError, Refused, OutOfTime) as error:
        refused = f"{type(error).__name__}: {error}"
        metrics.add_metric("AsksLeft", MetricUnit.Count, 1)
    else:
        metrics.add_metric("BoundariesRouted", MetricUnit.Count, 1)
    taken = {"step": command.step, "run": command.run_id} if command is not None else {}
    logger.info("answered", extra={"execution_id": ask.execution_id, "for": ask.run_id, "refused": refused, **taken})
    return {"v": ASK_VERSION, "command": None if command is None else message_of(command)}


def _answer(ask: Ask, deadline: Deadline) -> Command | None:
    with control_until(deadline) as control:
        return answer(control, ask)


imported()
