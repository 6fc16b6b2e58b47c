"""Shows iterations of a loop, page by page, and single ones with their item and tasks.

Pages are in the order in which iterations ended. A page decodes the commits that it shows; for failed iterations, only ranges
that contain failures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.api.refused import BadCursor, nearest
from noetl_core.control.core import Control
from noetl_core.engine.records import RunEvent, StreamId, run_events
from noetl_core.engine.state import State
from noetl_core.events.runs import LoopIterationCompleted
from noetl_core.ports import NotFound
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND, to_rfc3339
from noetl_core.views.executions import executions
from noetl_core.views.history.pages import BUSY_S, MAX_EXAMINED
from noetl_core.views.reading.cursor import sign, unsign
from noetl_core.views.reading.loop_streams import LoopStreams, loop_streams

if TYPE_CHECKING:
    from noetl_core.api.shapes import steps as step_shapes

SHOWN: Final = 100
NEWEST: Final = 3
"""Newest commits of an open run that are searched for iterations in progress."""
Path = tuple[int, ...]


@frozen
class Selection:
    """A filter of iterations: by status, by text in their error, by first index."""

    status: str | None = None
    text: str | None = None
    first: int = 0
    last: int | None = None
    nested: bool = False

    def takes(self, entry: dict[str, Any]) -> bool:
        index = entry["index"]
        if (
            index < self.first
            or (self.last is not None and index > self.last)
            or (self.status or entry["status"]) != entry["status"]
        ):
            return False
        error = entry.get("error") or {}
        description = f"{error.get('kind', '')} {error.get('code', '')} {error.get('message', '')}".lower()
        return self.text is None or self.text in description


@dataclass(slots=True)
class IterationFold:
    """Folds the events of one stream into its iterations, as each ends."""

    stream: StreamId
    began: dict[Path, int] = field(default_factory=dict)
    retried: dict[Path, int] = field(default_factory=dict)

    def observe(self, event: RunEvent, seq: int, place: int) -> dict[str, Any] | None:
        """Fold an event; return the iteration that ends with it."""
        if event.name == "LoopIterationStarted":
            self.began[tuple(event.data["path"])] = event.ts
        elif event.name == "TaskRetried" and "path" in event.data:
            path = tuple(event.data["path"])
            self.retried[path] = self.retried.get(path, 0) + 1
        elif event.name == "LoopIterationCompleted":
            path = tuple(event.data["path"])
            began, retried = self.began.pop(path, None), self.retried.pop(path, 0)
            if "loop" not in event.data:  # show the iterations of the inner loop
                return self._ended(event.data, event.ts, path, began, retried) | {"event_id": self._id(seq, place)}
        return None

    def _id(self, seq: int, place: int) -> str:
        return f"{self.stream.execution_id}.{self.stream.run_id}.{seq}.{place}"

    def _ended(self, data: LoopIterationCompleted, at: int, path: Path, began: int | None, retried: int) -> dict[str, Any]:
        out = {**self._about(path), "status": "error" if data["status"] == "error" else "ok", "ended_at": to_rfc3339(at)}
        if began is not None:
            out |= {"started_at": to_rfc3339(began), "duration_ms": max(at - began, 0) / 1000}
        out["attempts"] = 1 + retried
        if (error := data.get("error")) is not None:
            out["error"] = {key: value for key, value in error.items() if key in ("kind", "message", "code", "task")}
        return out

    def _about(self, path: Path) -> dict[str, Any]:
        return {"index": path[0], "path": list(path), "run": self.stream.run_id}

    def under_way(self) -> list[dict[str, Any]]:
        """Return the innermost iterations in progress."""
        outer = {path[:-1] for path in self.began}
        return [
            {
                **self._about(path),
                "status": "running",
                "started_at": to_rfc3339(began),
                "attempts": 1 + self.retried.get(path, 0),
            }
            for path, began in sorted(self.began.items())
            if path not in outer
        ]


@dataclass(slots=True)
class Place:
    """The start of a page: a range of failed iterations, a stream, and a number of events of a commit to skip."""

    stream: int = 0
    seq: int = 0
    taken: int = 0
    part: int = 0
    got: int = 0


def iterations(
    control: Control,
    execution_id: str,
    step: str,
    key: bytes,
    *,
    status: str | None = None,
    text: str | None = None,
    first: int = 0,
    after: str | None = None,
    limit: int = SHOWN,
) -> step_shapes.Iterations:
    """Return a page of the iterations of the newest run of `step`.

    `text` is searched for in errors; a number is an index. Raises `NotFound`, `BadCursor`.
    """
    state = _state(control, execution_id, step)
    loop = loop_streams(control, state, step)
    out: dict[str, Any] = {"execution_id": execution_id, "step": step, "run": None, "total": 0, "iterations": []}
    if loop is None:
        return cast("step_shapes.Iterations", {**out, "cursor": None, "more": False})
    out |= {"run": loop.run, "total": loop.total}
    selection = Selection(status, None if text is None else text.lower(), first)
    if text is not None and text.isdecimal() and len(text) < 10:
        loop_definition = control.playbook(state.digest).by_name[step].loop
        nested = loop_definition is not None and loop_definition.inner is not None
        selection = Selection(status, None, int(text), int(text), nested)
    place = _opened(after, loop, key) if after is not None else None
    found, onward = _page(loop, selection, place, limit)
    if onward is None and loop.open and status in (None, "running") and selection.text is None and len(found) < limit:
        found += [entry for entry in _under_way(loop) if selection.takes(entry)]
    cursor = None if onward is None else _signed(onward, loop, key)
    return cast("step_shapes.Iterations", {**out, "iterations": found, "cursor": cursor, "more": cursor is not None})


def _state(control: Control, execution_id: str, step: str) -> State:
    state = executions.load(control, execution_id)
    playbook = control.playbook(state.digest)
    if step not in playbook.by_name:
        hint = nearest(step, playbook.by_name)
        raise NotFound(f"execution {execution_id} has no step {step}" + (f" ({hint})" if hint else ""))
    return state


def _page(loop: LoopStreams, selection: Selection, place: Place | None, limit: int) -> tuple[list[dict[str, Any]], Place | None]:
    """Return a page and the start of the next one; None if this was the last."""
    if selection.status == "running":
        return [], None
    bound = Bound(loop.control)
    found: list[dict[str, Any]] = []
    at = place or Place(-1)
    for number, part in enumerate(_parts(loop, selection)):
        if number < at.part:
            continue
        if at.part != number or at.stream < 0:
            stream = loop.stream_of(part.first)
            at = Place(stream, loop.seek(stream, part.first) if part.first else 0, 0, number)
        for stream in range(at.stream, loop.count if part.last is None else loop.stream_of(part.last) + 1):
            if stream != at.stream:
                at = Place(stream, 0, 0, number, at.got)
            for entry, behind in _ended(loop, stream, at, bound):
                at.seq, at.taken = behind
                if entry is not None and part.has(entry):
                    at.got += 1
                    found += [entry] if selection.takes(entry) else []
                if len(found) >= limit or (bound.over and entry is None):
                    return found, at
                if at.got == part.count:
                    break
            if at.got == part.count:
                break
    return found, None


@frozen
class Part:
    """A range of indexes to search, and its number of iterations with the status if it is known."""

    first: int
    last: int | None = None
    status: str | None = None
    count: int | None = None

    def has(self, entry: dict[str, Any]) -> bool:
        within = self.first <= entry["index"] and (self.last is None or entry["index"] <= self.last)
        return within and self.status in (None, entry["status"])


def _parts(loop: LoopStreams, selection: Selection) -> list[Part]:
    """Return the ranges to search: for failed iterations, those that the log records as containing failures."""
    if selection.last is not None:
        return [Part(selection.first, selection.last, None, None if selection.nested else 1)]
    if (selection.status == "error" or (selection.text is not None and selection.status is None)) and "us" in loop.aggregates:
        stated = loop.aggregates.get("failed", ())
        return [Part(first, last, "error", count) for first, last, count in stated if last >= selection.first]
    return [Part(selection.first)]


class Bound:
    """Limits the part of a log that a page may examine."""

    def __init__(self, control: Control) -> None:
        self._clock, self._events = control.clock, 0
        self._until = control.clock.now() + BUSY_S * SECOND

    def took(self, events: int) -> None:
        self._events += events

    @property
    def over(self) -> bool:
        return self._events >= MAX_EXAMINED or self._clock.now() > self._until


def _ended(loop: LoopStreams, number: int, at: Place, bound: Bound) -> Iterator[tuple[dict[str, Any] | None, tuple[int, int]]]:
    """Yield the iterations of a stream in the order they ended, from a position, each with the position after it; None at the end
    of each commit.
    """
    stream = loop.stream(number)
    if stream is None:
        return
    fold = IterationFold(stream)
    begin, taken = at.seq, at.taken
    for commit in loop.commits(stream, begin):
        for place, event in enumerate(run_events(commit)):
            entry = fold.observe(event, commit.seq, place)
            if entry is not None and (commit.seq, place) >= (begin, taken):
                yield entry, (commit.seq, place + 1)
        bound.took(len(commit.events))
        if commit.seq >= begin:
            yield None, (commit.seq + 1, 0)


def _under_way(loop: LoopStreams) -> list[dict[str, Any]]:
    """Return iterations in progress, according to the newest commits of open runs."""
    runs = [loop.run] if loop.loop is None else list(loop.loop.open)
    found = []
    for run in runs:
        stream = StreamId(loop.state.execution_id, run)
        last = loop.control.store.last(stream)
        fold = IterationFold(stream)
        for commit in loop.control.recent.read(stream, after=max(-1, last.seq - NEWEST)) if last is not None else ():
            for place, event in enumerate(run_events(commit)):
                fold.observe(event, commit.seq, place)
        found += fold.under_way()
    return found


def _signed(place: Place, loop: LoopStreams, key: bytes) -> str:
    return sign([loop.state.execution_id, loop.run, place.stream, place.seq, place.taken, place.part, place.got], key)


def _opened(cursor: str, loop: LoopStreams, key: bytes) -> Place:
    fields = unsign(cursor, key)
    if not isinstance(fields, list) or len(fields) != 7 or fields[:2] != [loop.state.execution_id, loop.run]:
        raise BadCursor("the cursor is not one of the iterations of this run")
    return Place(*fields[2:])


# --- one iteration --------------------------------------------------------------------------------------------------------


def iteration(control: Control, execution_id: str, step: str, path: Path) -> step_shapes.IterationDetail:
    """Return one iteration of the newest run of `step` with its item and the attempts of its tasks. Raises `NotFound`."""
    state = _state(control, execution_id, step)
    loop = loop_streams(control, state, step)
    number = 0 if loop is None else loop.stream_of(path[0])
    stream = None if loop is None else loop.stream(number)
    if loop is None or stream is None:
        raise _none(step, path)
    fold, tasks, found = IterationFold(stream), [], None
    inside = False
    until = control.clock.now() + BUSY_S * SECOND
    for commit in loop.commits(stream, loop.seek(number, path[0])):
        for place, event in enumerate(run_events(commit)):
            data: Any = event.data
            if tuple(data.get("path", ())) != path:
                continue
            inside = True
            if event.name == "TaskProcessed":
                tasks.append(_task(event, f"{execution_id}.{stream.run_id}.{commit.seq}.{place}"))
            ended = fold.observe(event, commit.seq, place)
            if ended is not None:
                found = ended | ({"result": data["result"]} if "result" in data else {})
        if found is not None or control.clock.now() > until:
            break
    if not inside:
        raise _none(step, path)
    entry = found or next(iter(fold.under_way()), {})
    items = loop.item(path)
    return cast("step_shapes.IterationDetail", {**entry, **items, "tasks": tasks})


def _none(step: str, path: Path) -> NotFound:
    return NotFound(f"the newest run of step {step} has no iteration {'.'.join(map(str, path))}, or that iteration has not begun")


def _task(event: Any, event_id: str) -> dict[str, Any]:
    data, outcome = event.data, event.data["outcome"]
    out: dict[str, Any] = {
        "task": data["task"],
        "attempt": data["attempt"],
        "status": outcome["status"],
        "directive": data["directive"]["do"],
        "event_id": event_id,
    }
    meta = outcome.get("meta") or {}
    out |= {key: meta[key] for key in ("started_at", "duration_ms") if key in meta}
    out |= {key: outcome[key] for key in ("result", "error") if outcome.get(key) is not None}
    log = meta.get("log") or {}
    return out | {key: log[key] for key in ("stdout", "stderr") if log.get(key)}
