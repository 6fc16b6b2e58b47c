"""Extracts the standard output and standard error of tasks from the envelopes of the execution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def task_logs(
    envelopes: Iterable[Mapping[str, Any]], step: str | None = None, task: str | None = None
) -> Iterator[dict[str, Any]]:
    """Return the log of every attempt that wrote something, in the order of the history; of one `step` or `task`, if named.

    `{event_id, timestamp, step, task, task_run_id, attempt, iteration?, status, stdout?, stderr?, more?, dropped?}`: `stdout` and
    `stderr` are the ends of the streams, `more` refers to all that was kept, `dropped` counts characters that were not kept.
    """
    keys = ("event_id", "timestamp", "step", "task", "task_run_id", "attempt", "iteration")
    for e in envelopes:
        if (
            e["name"] != "TaskProcessed"
            or (step is not None and e.get("step") != step)
            or (task is not None and e["task"] != task)
        ):
            continue
        outcome = e["data"]["outcome"]
        log = outcome["meta"].get("log")
        if not isinstance(log, Mapping):
            continue
        yield {**{key: value for key, value in e.items() if key in keys}, "status": outcome["status"], **log}
