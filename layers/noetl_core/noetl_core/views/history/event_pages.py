"""Pages through parts of a history: from an event, an instant or a number, before an event, or the last events; filtered by step,
task or iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from noetl_core.api.refused import BadRequest
from noetl_core.control.core import Control
from noetl_core.engine.records import Commit, StreamId, request_of
from noetl_core.engine.state import State
from noetl_core.ports import NotFound
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import from_text, in_microseconds
from noetl_core.views.executions import executions
from noetl_core.views.history import pages
from noetl_core.views.reading.cursor import Position, place_of
from noetl_core.views.reading.newest_first import commits_before, ends_of, last_commits, last_envelopes, position_at_end
from noetl_core.views.reading.positions import position_behind, position_of_instant, position_of_number

STATUSES: Final = ("in_progress", "success", "error", "paused")


@frozen
class Filter:
    """Selects events. None selects all."""

    names: frozenset[str] | None = None
    step: str | None = None
    task: str | None = None
    status: str | None = None
    iteration: tuple[int, ...] | None = None

    def takes(self, envelope: Mapping[str, Any]) -> bool:
        if self.names is not None and envelope["name"] not in self.names:
            return False
        if self.step is not None and envelope.get("step") != self.step:
            return False
        if self.task is not None and envelope.get("task") != self.task:
            return False
        if self.status is not None and envelope["status"] != self.status:
            return False
        return self.iteration is None or tuple(envelope.get("iteration") or ())[: len(self.iteration)] == self.iteration


@frozen
class Page:
    """Events in causal order.

    `back` is the event before which the previous page ends; None if there is none. `position` is the number of the first event,
    if the request was by number.
    """

    events: list[dict[str, Any]]
    cursor: str | None
    more: bool
    back: str | None
    position: int | None = None


def event_names(text: str | None) -> frozenset[str] | None:
    """Return the names that a comma-separated list of names and dotted forms selects."""
    if text is None:
        return None
    return frozenset().union(*(pages.event_names(part.strip()) or () for part in text.split(",")))


def page(
    control: Control,
    execution_id: str,
    key: bytes,
    event_filter: Filter,
    *,
    after: str | None = None,
    before: str | None = None,
    at: str | None = None,
    tail: int | None = None,
    limit: int = pages.MAX_PAGE,
) -> Page:
    """Return a page. At most one of `after`, `before`, `at` and `tail` may be passed.

    Raises `NotFound`, `BadCursor`, `BadRequest`.
    """
    origins = [name for name, value in (("after", after), ("before", before), ("at", at), ("tail", tail)) if value is not None]
    if len(origins) > 1:
        raise BadRequest(
            f"{origins[0]} and {origins[1]} cannot be combined", f"query.{origins[1]}", "give one of after, before, at and tail"
        )
    if tail is not None:
        return _last(control, execution_id, key, event_filter, tail)
    if before is not None:
        return _before(control, execution_id, event_filter, before, limit)
    start, number = _start(control, execution_id, after, at, key)
    reading = pages.since(
        control,
        execution_id,
        after,
        key,
        names=event_filter.names,
        step=event_filter.step,
        examined=pages.MAX_EXAMINED,
        position=start,
    )
    found, over = pages.page_of((e for e in reading.envelopes if event_filter.takes(e)), limit)
    cursor, more = pages.onward(control, execution_id, reading, over, key)
    return Page(found, cursor, more, _back(found, execution_id), number)


def _start(
    control: Control, execution_id: str, after: str | None, at: str | None, key: bytes
) -> tuple[Position | None, int | None]:
    """Return the position that `at` selects, and the number of its first event if it is known."""
    if at is None:
        return None, None
    first = control.recent.read(StreamId(execution_id), limit=1)
    if not first:
        raise NotFound(f"there is no execution {execution_id}")
    trace_id = request_of(first[0]).get("trace_id")
    if at.isascii() and at.isdecimal() and len(at) <= 12:
        return position_of_number(control, execution_id, int(at), trace_id)
    if at.startswith(f"{execution_id}."):
        place = place_of(at, execution_id)
        position = position_behind(control, at, execution_id, trace_id)
        own = position.control if place.run is None else position.runs[place.run]
        own.taken -= 1
        return position, None
    try:
        instant: datetime = from_text(at)
    except ValueError:
        raise BadRequest(f"invalid at: {at!r}", "query.at", "the id of an event, an instant, or a number") from None
    return position_of_instant(control, execution_id, in_microseconds(instant), trace_id), None


def _last(control: Control, execution_id: str, key: bytes, event_filter: Filter, count: int) -> Page:
    state = executions.load(control, execution_id)
    ends = ends_of(control.store, state)
    found, back = _collected(control, last_commits(control.recent, state, ends), state, event_filter, count)
    cursor = position_at_end(state, ends).sign(execution_id, key)
    return Page(found, None if state.finished else cursor, False, back)


def _before(control: Control, execution_id: str, event_filter: Filter, event_id: str, count: int) -> Page:
    state = executions.load(control, execution_id)
    commits = commits_before(control, state, place_of(event_id, execution_id))
    found, back = _collected(control, commits, state, event_filter, count, event_id)
    return Page(found, found[-1]["event_id"] if found else event_id, True, back)


def _collected(
    control: Control, commits: Iterable[Commit], state: State, event_filter: Filter, count: int, end: str | None = None
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the last `count` matching events before `end` of commits in reverse order, and the event before which there may be
    more (None: these were all).
    """
    parts: list[list[dict[str, Any]]] = []
    bounded = pages.Bounded(iter(commits), control, pages.MAX_EXAMINED)
    size, reached = 0, end
    for part in last_envelopes(bounded, state):
        if end is not None:
            part = part[: next((n for n, e in enumerate(part) if e["event_id"] == end), len(part))]
            end = None
        reached = part[0]["event_id"] if part else reached
        parts.append([e for e in part if event_filter.takes(e)])
        size += len(parts[-1])
        if size > count:
            break
    found = [envelope for part in reversed(parts) for envelope in part]
    kept = found[len(found) - min(count, len(found)) :]
    while len(kept) > 1 and _bytes(kept) > pages.MAX_PAGE_BYTES:
        kept = kept[len(kept) // 2 :]
    if len(kept) < len(found):
        return kept, kept[0]["event_id"]
    return kept, reached if bounded.partial else None


def _bytes(found: list[dict[str, Any]]) -> int:
    return sum(len(str(envelope)) for envelope in found)


def _back(found: list[dict[str, Any]], execution_id: str) -> str | None:
    first = found[0]["event_id"] if found else None
    return None if first == f"{execution_id}.control.0.0" else first
