"""Converts stored events to envelopes: the public form of events in the API and the command line (docs/looking.md)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from noetl_core.engine.records import AnyEvent, Commit, Event
from noetl_core.events.runs import TaskStarted
from noetl_core.events.table import COUNTS_EVENTS, EventType, event_named
from noetl_core.values.instants import to_rfc3339

STARTED = frozenset(TaskStarted.__annotations__)
"""Keys that a task's start and its outcome share."""


class Expander:
    """Converts commits to envelopes and adds derived data: a `TaskStarted` before each task for which none was recorded, and the
    step of each run. Commits of one stream come in order; `steps` names the steps of runs that were scheduled before.
    """

    def __init__(self, execution_id: str, trace_id: str | None = None, steps: Mapping[str, str] | None = None) -> None:
        self._execution_id, self._trace_id = execution_id, trace_id
        self._steps = dict(steps or {})

    def __call__(self, commit: Commit) -> Iterator[dict[str, Any]]:
        return (envelope for _, envelope in self.numbered(commit))

    def numbered(
        self, commit: Commit, skip: int = 0, names: Container[str] | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the envelopes of a commit after the first `skip`, each with its index in the commit; with `names`, only events
        with these names.
        """
        stream = commit.stream.run_id
        prefix = f"{self._execution_id}.{stream or 'control'}.{commit.seq}."
        number = -1
        for place, event in enumerate(commit.events):
            data = event.data
            run, step = stream or data.get("run"), data.get("step")
            if step and isinstance(step, str) and isinstance(run, str):
                self._steps.setdefault(run, step)
            if event.name == "TaskProcessed" and "started" in event.data:
                number += 1
                if number >= skip and (names is None or "TaskStarted" in names):
                    start = {key: value for key, value in event.data.items() if key in STARTED}
                    began: Any = Event("TaskStarted", event.data["started"], start)
                    yield number, self._one(began, f"{prefix}{place}s", commit)
            number += 1
            if number >= skip and (names is None or event.name in names):
                yield number, self._one(event, f"{prefix}{place}", commit)

    def _one(self, event: AnyEvent, event_id: str, commit: Commit) -> dict[str, Any]:
        return _envelope(event, event_id, commit, self._execution_id, self._steps, self._trace_id)


def envelopes_in(commit: Commit) -> int:
    """Return the number of envelopes of a commit: of its events, and of the starts that ends of attempts contain."""
    return len(commit.events) + sum(event.name == "TaskProcessed" and "started" in event.data for event in commit.events)


def expand(commits: Iterable[Commit], execution_id: str, trace_id: str | None = None) -> Iterator[dict[str, Any]]:
    """Return the envelopes of `commits`, in their order."""
    one = Expander(execution_id, trace_id)
    for commit in commits:
        yield from one(commit)


def _envelope(
    event: AnyEvent, event_id: str, commit: Commit, execution_id: str, steps: Mapping[str, str], trace_id: str | None
) -> dict[str, Any]:
    d: dict[str, Any] = {**event.data}
    row = event_named(event.name)
    worker = commit.stream.run_id is not None
    task = row.entity == "task"
    run = commit.stream.run_id or d.get("run")
    server = not worker or d.pop("source", "") == "server"
    if event.name in COUNTS_EVENTS:
        d.pop("events", None)  # the total number is for the summary
    out: dict[str, Any] = {
        "event_id": event_id,
        "execution_id": execution_id,
        "timestamp": to_rfc3339(event.ts),
        "source": "server" if server else "worker",
        "name": event.name,
        "event_type": row.event_type,
        "entity": row.entity,
        "entity_id": (d.get("run") if task else None) or d.get("token") or run or execution_id,
        "status": _status(row, d),
    }
    step = steps.get(run) if isinstance(run, str) else d.get("step")
    if step or d.get("step"):
        out["step"] = d.pop("step", None) or step
    if isinstance(run, str) and (worker or "run" in d):
        out["step_run_id"] = run
    if task:
        out["task"], out["task_run_id"] = d.pop("task"), d.pop("run")
        out["attempt"] = d.pop("attempt", 1)
        d.pop("started", None)
    elif not worker:
        d.pop("run", None)
    if "path" in d and event.name != "PlaybookExecutionRequested":
        out["iteration"] = d.pop("path")
    if d.get("parent") and isinstance(d["parent"], str):
        out["parent_id"] = d.pop("parent")
    if trace_id:
        out["trace_id"] = trace_id
    out["data"] = d
    return out


def _status(event: EventType, d: Mapping[str, Any]) -> str:
    """Return the status in the event's row, unless the payload contains an error."""
    if event.status == "paused" or event.name == "TaskRetried":
        return event.status
    if d.get("error") or d.get("unhandled") or d.get("status") in ("error", "failed", "cancelled"):
        return "error"
    if event.name == "TaskProcessed" and d["outcome"]["status"] == "error":
        return "error"
    return event.status
