"""Reads past executions of a playbook, and forecasts the next one from them (`noetl_core.planning`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from noetl_core.control.core import Control
from noetl_core.ports import CorruptLog, NotFound
from noetl_core.values.instants import SECOND
from noetl_core.views.executions import executions
from noetl_core.views.explain import cost, timelines

if TYPE_CHECKING:
    from noetl_core.api.shapes.catalog import Plan
    from noetl_core.dsl.model import Playbook
    from noetl_core.planning.forecast import PastRun

LAST = 20
"""The past executions that are read by default."""
READ_S = 5
"""Seconds after which no further execution is read."""
SPANS = 1_000
"""Spans of tasks and iterations that are read of a past execution, to count retries."""


def plan(
    control: Control, playbook: Playbook, payload: Mapping[str, Any], last: int = LAST, worker_mb: int | None = None
) -> Plan:
    """Return the forecast of an execution, from the newest executions of its path: at most `last`, and for `READ_S`."""
    from noetl_core.planning.forecast import forecast  # 15 ms: short runs request no forecast

    heads = control.index.heads(None, playbook.path, None, limit=last) if last else ()
    over = control.clock.now() + READ_S * SECOND
    past: list[PastRun] = []
    read = 0
    for head in heads:
        if control.clock.now() > over:
            break
        read += 1
        if head.status == "completed":
            try:
                past.append(past_run(control, head.execution_id, worker_mb))
            except (NotFound, CorruptLog):  # it has expired since, or an operator must examine it
                continue
    found = forecast(playbook, past, payload).as_dict()
    if read < len(heads):
        found["assumes"].insert(0, f"past: {read} of {len(heads)} executions, those that could be read in {READ_S} s")
    failed = sum(head.status == "failed" for head in heads[:read])
    return cast("Plan", {**found, "read": read, "failed": failed})


def past_run(control: Control, execution_id: str, worker_mb: int | None = None) -> PastRun:
    """Return the seconds, the cost and the steps of an execution that has completed. Raises `NotFound`, `CorruptLog`."""
    from noetl_core.planning.forecast import PastRun, PastStep  # 15 ms, as above

    summary = executions.summary(control, execution_id)
    price = cost.cost(control, execution_id, worker_mb)
    seconds: dict[str, float] = {}
    retries: dict[str, int] = {}
    for span in timelines.timeline(control, execution_id, limit=SPANS)["spans"]:
        if span["kind"] == "run":
            seconds[span["step"]] = seconds.get(span["step"], 0.0) + (span["duration_ms"] or 0.0) / 1000
        elif span["kind"] == "task" and span.get("attempt", 1) > 1:
            retries[span["step"]] = retries.get(span["step"], 0) + 1
    steps = {
        name: PastStep(
            step["runs"],
            seconds.get(name, 0.0),
            price["steps"][name]["cost"] if name in price["steps"] else 0.0,
            step["loop"]["total"] if "loop" in step else None,
            retries.get(name, 0),
        )
        for name, step in summary["steps"].items()
        if step["runs"]
    }
    return PastRun((summary["duration_ms"] or 0) / 1000, price["total"]["cost"], steps)
