"""What a redriven run keeps of the runs before it: their streams folded, less what is to run again (`engine.redrive`).

`prior` is `{runs: [[run_id, again], ...]}`, oldest first. Each `again` says what of everything up to there is run again:
`{failed: true}` what had failed or not ended; `{path: [..]?, task: name?}` that iteration, from that task on, with what is around
and below it; and `{ctx: [keys]}` which writes to ctx an operator has overruled. Nothing of it is copied into the new stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl_core.engine.records import Event, StreamId
from noetl_core.history import commits_of
from noetl_core.ports import EventStore
from noetl_core.worker.past import Past, Path, apply

Again = Mapping[str, Any]


def inherited(store: EventStore, execution_id: str, prior: Mapping[str, Any]) -> Past:
    """The past a redriven run begins with, as if its own stream had held it."""
    past = Past()
    runs: Sequence[tuple[str, Again]] = prior["runs"]
    for run_id, again in runs:
        for commit in commits_of(store, StreamId(execution_id, run_id)):
            for event in commit.events:
                if event.name == "LoopIterationCompleted" and _in_detail(event, runs):
                    path = tuple(event.data["path"])
                    past.finished.setdefault(path[:-1], {})[path[-1]] = event.data
                else:
                    apply(past, event)
        _forget(past, again)
    return past


def _in_detail(event: Event, runs: Sequence[tuple[str, Again]]) -> bool:
    """Whether what lies inside a finished iteration is still of use: something of it is to run again."""
    path, failed = tuple(event.data["path"]), event.data["status"] == "error"
    return any((failed and again.get("failed")) or (_named(again) and _related(path, _path(again))) for _, again in runs)


def _named(again: Again) -> bool:
    return "path" in again or "task" in again


def _path(again: Again) -> Path:
    return tuple(again.get("path") or ())


def _related(path: Path, other: Path) -> bool:
    """Whether one lies around the other, or they are the same."""
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]


def _forget(past: Past, again: Again) -> None:
    named, task, inside = _named(again), again.get("task"), _path(again)
    for loop, done in past.finished.items():
        for index in list(done):
            failed = again.get("failed") and done[index]["status"] == "error"
            if failed or (named and _related((*loop, index), inside)):
                del done[index]
    if named and task is None:
        for held in (past.tasks, past.finished, past.collections):
            for path in [p for p in held if p[: len(inside)] == inside]:
                del held[path]
    for path, events in past.tasks.items():
        if named and task is not None and path[: len(inside)] == inside:
            first = next((n for n, e in enumerate(events) if e.data["task"] == task), len(events))
            del events[first:]
        while events and events[-1].data["directive"]["do"] in ("retry", "fail"):
            events.pop()  # attempts begin anew
    _overrule(past, frozenset(again.get("ctx") or ()))
    past.begun.clear()
    past.waits.clear()
    past.mail.clear()
    past.sealed, past.sealed_at = None, {}
    past.as_of, past.takeovers, past.in_vain, past.worker, past.last, past.events = None, 0, 0, "", None, 0


def _overrule(past: Past, keys: frozenset[str]) -> None:
    """Leave out what an operator has set since."""
    if not keys:
        return
    for done in past.finished.values():
        for index, data in done.items():
            done[index] = _without(data, keys)
    for path, events in past.tasks.items():
        past.tasks[path] = [Event(e.name, e.ts, _without(e.data, keys)) for e in events]


def _without(data: Mapping[str, Any], keys: frozenset[str]) -> Mapping[str, Any]:
    written = data.get("set_ctx")
    if not written or keys.isdisjoint(written):
        return data
    return {**data, "set_ctx": {k: v for k, v in written.items() if k not in keys}}
