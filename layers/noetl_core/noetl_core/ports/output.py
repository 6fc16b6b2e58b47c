"""What tasks that still run have written: seen where that costs nothing, relied on nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, Protocol, TypedDict

from noetl_core.engine.records import StreamId


class RunningTask(TypedDict):
    """An attempt that runs: the ends of its streams so far, and how many characters each has had."""

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
    """Shows what running tasks write. The log has all of it once they have ended, so nothing is lost with it."""

    def show(self, run: StreamId, tasks: Sequence[RunningTask]) -> None:
        """Show this of a run, in place of what was shown before; nothing: forget it. Never raises."""
        ...

    def of(self, execution_id: str) -> list[RunningTask]:
        """Return what the tasks of an execution have written that still run."""
        ...
