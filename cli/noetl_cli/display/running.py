"""Prints the output of running tasks, each line once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal

from noetl_cli.display import output
from noetl_cli.terminal import visible

if TYPE_CHECKING:
    from noetl_core.api.shapes.views import LogEntry, RunningLog

Stream = Literal["stdout", "stderr"]
STREAMS: Final[tuple[Stream, ...]] = ("stdout", "stderr")


class Running:
    """Remembers which output of running attempts was already printed."""

    def __init__(self) -> None:
        self._printed: dict[tuple[str, int, str], int] = {}
        self._last: tuple[str, int] | None = None

    def print(self, tasks: Iterable[RunningLog]) -> None:
        """Print the output of tasks since the last call."""
        for task in tasks:
            key = (task["task_run_id"], task["attempt"])
            for stream in STREAMS:
                new = task["written"].get(stream, 0) - self._printed.get((*key, stream), 0)
                if new <= 0:
                    continue
                if self._last != key:
                    print(heading(task, task["started_at"], "running"))
                    self._last = key
                text: str = task.get(stream, "")
                if new > len(text):
                    print(output.styled("  ... more before this: noetl logs --full, when the task has ended", "dim"))
                lines(text[-new:], stream)
                self._printed[(*key, stream)] = task["written"][stream]

    def rest(self, entry: LogEntry) -> LogEntry:
        """Return the output of an ended attempt without the lines that were already printed; all of it if these cannot be
        determined."""
        self._last = None
        if "more" in entry or "dropped" in entry:
            return entry
        left = entry.copy()
        for stream in STREAMS:
            printed = self._printed.pop((entry["task_run_id"], entry["attempt"], stream), 0)
            if printed and stream in entry:
                left[stream] = f"{entry[stream]}\n"[printed:]
        return left


def heading(entry: LogEntry | RunningLog, at: str, status: str) -> str:
    """Return the line above the output of an attempt."""
    place = f" {entry['iteration']}" if entry.get("iteration") else ""
    attempt = f" attempt {entry['attempt']}" if entry["attempt"] > 1 else ""
    return output.styled(f"{at[11:23]} {entry.get('step')}/{entry['task']}{place}{attempt} {status}", "bold")


def lines(written: str, stream: Stream) -> None:
    """Print the lines of a stream."""
    for line in written.splitlines():
        text = visible(line)
        print(f"  {text}" if stream == "stdout" else output.styled(f"! {text}", "red"))
