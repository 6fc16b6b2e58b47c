"""The output of running tasks, in the catalog table (its layout: `catalog`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, errors_of
from noetl_core.adapters.aws.table import Table, query_pages
from noetl_core.engine.records import StreamId
from noetl_core.ports import Clock, PortError, RunningTask
from noetl_core.values.instants import SECOND, from_text, in_microseconds

FIRST_S: Final = 2
"""Tasks that run for a shorter time are not shown, because the log soon has their output."""
EVERY_S: Final = 5
"""The least time between two writes of a run's output."""
KEPT_S: Final = 900
"""Seconds for which the output of a killed worker remains visible: the longest duration of an invocation."""
MOST_BYTES: Final = 16 * 1024
"""The most bytes of a write (sixteen write units). If there are more, the newest tasks are shown."""


class DynamoRunningOutput(Table):
    """`RunningOutput` on the catalog table: one write every five seconds for a run whose tasks produce output, and one when it
    ends; none for tasks of less than two seconds. A reader makes one request."""

    def __init__(self, table: str, clock: Clock) -> None:
        super().__init__(table)
        self._clock = clock
        self._written: dict[StreamId, int] = {}
        """Run -> when its output was last written."""

    def show(self, run: StreamId, tasks: Sequence[RunningTask]) -> bool:
        now = self._clock.now()
        if not tasks:
            return run not in self._written or self._put(run, None, self._written.pop(run) // SECOND)
        began = min(in_microseconds(from_text(task["started_at"])) for task in tasks)
        if now < max(began + FIRST_S * SECOND, self._written.get(run, 0) + EVERY_S * SECOND):
            return False
        self._written[run] = now
        return self._put(run, _text(tasks), now // SECOND + KEPT_S)

    def _put(self, run: StreamId, text: str | None, expires_at: int) -> bool:
        """Write the output of a run; None removes it."""
        values: dict[str, Any] = {":until": {"N": str(expires_at)}}
        change = "SET expires_at = :until"
        if text is None:
            change += " REMOVE tasks"
        else:
            change, values[":tasks"] = f"{change}, tasks = :tasks", {"S": text}
        try:
            with errors_of("output write"):
                client("dynamodb").update_item(
                    TableName=self.table,
                    Key={"pk": {"S": _partition(run.execution_id)}, "sk": {"S": str(run.run_id)}},
                    UpdateExpression=change,
                    ExpressionAttributeValues=values,
                )
        except (PortError, ClientError):
            return False  # showing output must not fail a task
        return True

    def of(self, execution_id: str) -> list[RunningTask]:
        found: list[RunningTask] = []
        request: dict[str, Any] = {
            "TableName": self.table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": _partition(execution_id)}},
        }
        for page in query_pages("catalog read", **request):
            for item in page["Items"]:
                if "tasks" in item and int(item["expires_at"]["N"]) > self._clock.now() // SECOND:
                    found += json.loads(item["tasks"]["S"])
        return sorted(found, key=lambda task: task["started_at"])


def _partition(execution_id: str) -> str:
    return f"running#{execution_id}"


def _text(tasks: Sequence[RunningTask]) -> str:
    """Return the newest tasks as JSON, as many as fit."""
    fit: list[str] = []
    left = MOST_BYTES
    for task in reversed(tasks):
        text = json.dumps(task, ensure_ascii=False)
        left -= len(text.encode())
        if left < 0 and fit:
            break
        fit.append(text)
    return f"[{','.join(reversed(fit))}]"
