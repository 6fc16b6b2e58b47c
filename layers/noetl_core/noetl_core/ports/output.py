"""The output of running tasks: best effort, for display only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, Protocol, TypedDict

from noetl_core.engine.records import StreamId


class RunningTask(TypedDict):
    """A running attempt: the ends of its streams so far, and how many characters were written to each."""

    step: str
    task: str
    task_run_id: str
    attempt: int
    iteration: NotRequired[list[int]]
    started_at: str
    stdout: NotRequired[str]
    stderr: NotRequired[str]
    written: dict[str, int]


class RunningOutput(Protocol):
    """Publishes the output of running tasks. The log has all of it once they have ended, so losing it does no harm."""

    def show(self, run: StreamId, tasks: Sequence[RunningTask]) -> bool:
        """Publish the output of a run, replacing what was published before; without tasks, remove it. Return whether it was
        published: an adapter that needs requests for this skips some calls. Never raises."""
        ...

    def of(self, execution_id: str) -> list[RunningTask]:
        """Return the output of the running tasks of an execution."""
        ...
