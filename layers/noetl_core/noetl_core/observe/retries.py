"""Explains a run that waits for its next attempt: the failed task, its number of attempts, and the time of the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl_core.engine.records import Commit, run_events
from noetl_core.values.instants import to_rfc3339


def retry_of(stream: Sequence[Commit], wait: Mapping[str, Any]) -> str | None:
    """Return a sentence about the retry for which a timer waits; None if it is not a retry.

    `stream` is the end of the run's stream.
    """
    for commit in reversed(stream):
        for event in reversed(run_events(commit)):
            if event.name not in ("TaskRetried", "TaskProcessed") or event.data["task"] != wait.get("task"):
                continue
            if event.data.get("path") != wait.get("iteration"):
                continue
            if event.name == "TaskProcessed" and event.data["directive"]["do"] != "retry":
                return None
            failed: Mapping[str, Any] = (event.data["outcome"] if event.name == "TaskProcessed" else event.data).get(
                "error"
            ) or {}
            attempt = event.data["attempt"]
            error = f"{failed.get('kind', 'error')}: {failed.get('message', '')}".rstrip(": ")
            at = f" at {to_rfc3339(wait['at'])}" if wait.get("at") else ""
            return f"attempt {attempt} of task {wait['task']} failed ({error}); attempt {attempt + 1} comes{at}"
    return None
