"""Computes the history that a redriven run takes over from earlier runs of the same step (`engine.redrive.plan` plans it).

The stored specification is `{runs: [[run_id, rerun], ...]}`, oldest run first. Each `rerun` selects the parts of the history up
to that run that are repeated: `{failed: true}` means everything that failed or had not ended, and `{pages: {task: first}}` with
it the
page in which a task failed; `{path: [..]?, task: name?, visit: n?}` means that iteration, from that visit of that task on, with
the iterations around it and inside it; `{ctx: [keys]}` means writes to ctx that an operator has replaced. Nothing is copied into
the new stream: the worker reads the earlier streams again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl_core.engine.records import Event, StreamId, run_events
from noetl_core.events.event import TaskEvent
from noetl_core.events.redrives import CarriedOver, Rerun
from noetl_core.events.runs import LoopIterationCompleted
from noetl_core.log.history import commits_of
from noetl_core.log.run_history import Path, RunHistory, apply
from noetl_core.ports import EventStore


def carried_over(store: EventStore, execution_id: str, spec: CarriedOver) -> RunHistory:
    """Return the history with which a redriven run begins, as if its own stream had held it."""
    history = RunHistory()
    runs = spec["runs"]
    for run_id, rerun in runs:
        _read(store, StreamId(execution_id, run_id), history, runs)
        _forget(history, rerun)
    return history


def visits_before(store: EventStore, execution_id: str, spec: CarriedOver, task: str) -> int:
    """Return how often a step without a loop had visited `task` before the last redrive of `spec`."""
    *earlier, (run_id, _) = spec["runs"]
    history = carried_over(store, execution_id, {"runs": earlier})
    _read(store, StreamId(execution_id, run_id), history, spec["runs"])
    return max((e.data["visit"] for e in history.tasks.get((), ()) if e.data["task"] == task), default=0)


def _read(store: EventStore, stream: StreamId, history: RunHistory, runs: Sequence[tuple[str, Rerun]]) -> None:
    for commit in commits_of(store, stream):
        for event in run_events(commit):
            if event.name == "LoopIterationCompleted" and _in_detail(event.data, runs):
                path = tuple(event.data["path"])
                history.finished.setdefault(path[:-1], {})[path[-1]] = event.data
            else:
                apply(history, event)


def _in_detail(done: LoopIterationCompleted, runs: Sequence[tuple[str, Rerun]]) -> bool:
    """Return whether the tasks inside a finished iteration are still needed, because a part of the iteration is run again."""
    path, failed = tuple(done["path"]), done["status"] == "error"
    return any((failed and rerun.get("failed")) or (_selects_part(rerun) and _related(path, _path(rerun))) for _, rerun in runs)


def _selects_part(rerun: Rerun) -> bool:
    return "path" in rerun or "task" in rerun


def _path(rerun: Rerun) -> Path:
    return tuple(rerun.get("path") or ())


def _related(path: Path, other: Path) -> bool:
    """Return whether one path contains the other, or both are the same."""
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]


def _forget(history: RunHistory, rerun: Rerun) -> None:
    partial, task, inside = _selects_part(rerun), rerun.get("task"), _path(rerun)
    for loop, done in history.finished.items():
        for index in list(done):
            failed = rerun.get("failed") and done[index]["status"] == "error"
            if failed or (partial and _related((*loop, index), inside)):
                del done[index]
    if partial and task is None:
        for held in (history.tasks, history.finished, history.collections):
            for path in [p for p in held if p[: len(inside)] == inside]:
                del held[path]
        if not inside:
            history.frames.clear()
    for path, events in history.tasks.items():
        if partial and task is not None and path[: len(inside)] == inside:
            del events[_visit(events, task, rerun.get("visit", 1)) :]
        page = (rerun.get("pages") or {}).get(_failed_task(events))
        while events and events[-1].data["directive"]["do"] in ("retry", "fail"):
            events.pop()  # attempts are counted again from zero
        if last := max((e.data["visit"] for e in events if e.data["task"] == page), default=0):
            del events[_visit(events, str(page), last) :]
    _overrule(history, frozenset(rerun.get("ctx") or ()))
    history.begun.clear()
    history.waits.clear()
    history.outside.clear()
    history.mail.clear()
    history.sealed, history.sealed_at = None, {}
    history.as_of, history.worker, history.last, history.events = None, "", None, 0
    history.takeovers = history.takeovers_without_progress = 0


def _visit(events: Sequence[TaskEvent], task: str, visit: int) -> int:
    """Return the position of the first attempt of a visit, or the end."""
    found = (n for n, e in enumerate(events) if e.data["task"] == task and e.data["visit"] >= visit)
    return next(found, len(events))


def _failed_task(events: Sequence[TaskEvent]) -> str:
    """Return the task that failed the pass, or an empty text."""
    last = events[-1].data if events else None
    return last["task"] if last is not None and last["directive"]["do"] == "fail" else ""


def _overrule(history: RunHistory, keys: frozenset[str]) -> None:
    """Remove the ctx writes that an operator has replaced since."""
    if not keys:
        return
    for done in history.finished.values():
        for index, data in done.items():
            if (writes := data.get("set_ctx")) and not keys.isdisjoint(writes):
                done[index] = {**data, "set_ctx": _without(writes, keys)}
    for path, events in history.tasks.items():
        history.tasks[path] = [_task_without(event, keys) for event in events]


def _task_without(event: TaskEvent, keys: frozenset[str]) -> TaskEvent:
    writes = event.data.get("set_ctx")
    if not writes or keys.isdisjoint(writes):
        return event
    return Event(event.name, event.ts, {**event.data, "set_ctx": _without(writes, keys)})


def _without(writes: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {k: v for k, v in writes.items() if k not in keys}
