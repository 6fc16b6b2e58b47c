"""Reconstructs a run's progress just after one of its events.

In long loops, only recent commits are read; earlier ones contribute counts.
"""

from __future__ import annotations

from typing import Any, Final

from noetl_core.engine.records import Commit, RunEvent, StreamId, run_events
from noetl_core.log.history import progress_of
from noetl_core.ports import CommitReader
from noetl_core.views.reading.cursor import EventPlace
from noetl_core.views.reading.newest_first import down

LOOKED: Final = 2_000
"""Events examined, in whole commits, before earlier commits are left out."""


def run_at(reader: CommitReader, stream: StreamId, where: EventPlace, most: int = LOOKED) -> dict[str, Any]:
    """Return the last outcome of each task, the ctx writes and the number of ended iterations.

    With `partial`, outcomes and writes are those of the last `most` events only, and iterations those of the innermost loop.
    `where` is an event of the stream.
    """
    (held,) = reader.read(stream, after=where.seq - 1, limit=1)
    parts = [run_events(held)[: where.place - where.derived + 1]]
    looked, before = len(parts[0]), None
    for commit in down(reader, stream, where.seq - 1, 0):
        if looked >= most and _ended(commit) is not None:
            before = commit
            break
        parts.append(run_events(commit))
        looked += len(commit.events)
    out: dict[str, Any] = {"run": stream.run_id, "status": "scheduled", "tasks": {}, "ctx": {}, "iterations": 0}
    if before is not None:
        for event in run_events(reader.read(stream, limit=1)[0]):
            _fold(out, event)  # the first commit names the worker
        out |= {"tasks": {}, "ctx": {}, "iterations": _ended(before), "partial": True}
    for part in reversed(parts):
        for event in part:
            _fold(out, event)
    return out


def _ended(commit: Commit) -> int | None:
    """Return the number of ended iterations of a loop after a commit, if it is recorded."""
    progress = None if commit.tally is None else progress_of(commit.tally)
    return None if progress is None else progress.ended


def _fold(out: dict[str, Any], event: RunEvent) -> None:
    match event.name:
        case "StepStarted" | "StepResumed":
            out["status"], out["worker"] = "running", event.data["worker"]
        case "StepSuspended":
            out["status"], out["waits"] = "suspended", event.data["waits"]
        case "StepDone":
            out["status"] = "ok"
        case "LoopChunkDone" | "StepFailed":
            out["status"] = "error" if event.data.get("error") else "ok"
        case "LoopIterationCompleted":
            out["iterations"] += "partial" not in out or "loop" not in event.data  # counts cover the innermost loop only
        case "TaskStarted":
            out["tasks"][event.data["task"]] = {"status": "running", "attempt": event.data["attempt"]}
        case "TaskRetried":
            out["tasks"][event.data["task"]] = {"status": "retrying", "attempt": event.data["attempt"]}
        case "TaskProcessed":
            outcome = {k: v for k, v in event.data["outcome"].items() if k in ("status", "result", "error") and v is not None}
            out["tasks"][event.data["task"]] = {**outcome, "attempt": event.data["attempt"], "directive": event.data["directive"]}
            out["ctx"].update(event.data.get("set_ctx") or {})
