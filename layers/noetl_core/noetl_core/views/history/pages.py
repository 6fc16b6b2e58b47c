"""Reads histories page by page.

A page decodes the commits that it shows, and at most one more. Its cursor is the position at which the next page begins.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from noetl_core.control.core import Control
from noetl_core.engine.records import Commit, StreamId, request_of
from noetl_core.events.table import CONTROL_EVENTS, EVENTS, RUN_EVENTS
from noetl_core.ports import NotFound
from noetl_core.values.instants import SECOND
from noetl_core.values.request_bounds import MAX_PAGE as MAX_PAGE
from noetl_core.views.executions import executions
from noetl_core.views.reading.cursor import Position, envelopes, history
from noetl_core.views.reading.positions import position_behind

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Lambda answers at most 6 MB."""
BUSY_S = 20
"""Maximum time to read a log for a view: the rest of an API call's 29 seconds is for the answer."""
MAX_EXAMINED = 6_000
"""Maximum number of events that one page examines when it shows few of them, in whole commits. The next page continues there."""


class Bounded(Iterator[Commit]):
    """The commits found within `BUSY_S` seconds and `events` events; at least one commit. `partial` is true if there are more."""

    def __init__(self, found: Iterator[Commit], control: Control, events: int | None = None) -> None:
        self._found, self._clock = found, control.clock
        self._until = control.clock.now() + BUSY_S * SECOND
        self._limit, self._events = events, 0
        self._first = True
        self.partial = False

    def __next__(self) -> Commit:
        full = self._limit is not None and self._events >= self._limit
        if not self._first and (full or self._clock.now() > self._until):
            self.partial = True
            raise StopIteration
        self._first = False
        commit = next(self._found)
        self._events += len(commit.events)
        return commit


@dataclass(slots=True)
class Reading:
    """Envelopes of an execution, the position that advances with them, and the commits they come from."""

    envelopes: Iterator[dict[str, Any]]
    position: Position
    commits: Iterator[Commit]

    @property
    def partial(self) -> bool:
        """Return whether reading ended at a bound, not at the end of the log."""
        return isinstance(self.commits, Bounded) and self.commits.partial


def whole(
    control: Control, execution_id: str, *, name: str | None = None, after: str | None = None, key: bytes = b""
) -> Iterator[dict[str, Any]]:
    """Yield all envelopes in causal order while they are read. Raises `NotFound`, `BadCursor` at once."""
    return since(control, execution_id, after, key, names=event_names(name), bounded=False).envelopes


def event_names(name: str | None) -> frozenset[str] | None:
    """Return the names of the events that a filter selects: it takes the name and the dotted form. None selects all."""
    if name is None:
        return None
    return frozenset(row.name for row in EVENTS.values() if name in (row.name, row.event_type)) or frozenset({name})


def since(
    control: Control,
    execution_id: str,
    after: str | None,
    key: bytes,
    *,
    names: frozenset[str] | None = None,
    step: str | None = None,
    bounded: bool = True,
    examined: int | None = None,
    position: Position | None = None,
) -> Reading:
    """Read envelopes after a cursor or an event id, or from a `position`; with `names`, only events with these names.

    Run streams are skipped if none of the names is recorded in them. With `step`, only streams of its runs are read. Raises
    `NotFound`, `BadCursor`.
    """
    if position is not None:
        pass
    elif after is not None and not after.startswith(f"{execution_id}."):
        position = Position.open(after, execution_id, key)
    else:
        first = control.recent.read(StreamId(execution_id), limit=1)
        if not first:
            raise NotFound(f"there is no execution {execution_id}")
        trace_id = request_of(first[0]).get("trace_id")
        if after is None:
            position = Position(trace_id=trace_id)
        else:
            position = position_behind(control, after, execution_id, trace_id)
    runs = names is None or not names <= CONTROL_EVENTS or bool(names & RUN_EVENTS)
    commits: Iterator[Commit] = history(control.recent, execution_id, position, runs=runs, step=step)
    commits = Bounded(commits, control, examined) if bounded else commits
    return Reading(envelopes(commits, execution_id, position, names), position, commits)


def onward(control: Control, execution_id: str, reading: Reading, over: bool, key: bytes) -> tuple[str | None, bool]:
    """Return the cursor of a page that ends at the position of `reading` (None: nothing will follow), and whether there is more
    now. `over` is true if the log was read to its end. The state is loaded only at the end of the log, because a fold costs time.
    """
    over = over and not reading.partial
    if over:
        state = executions.load(control, execution_id)
        over = reading.position.control.seq > state.seq
        if over and state.finished:
            return None, False
    return reading.position.sign(execution_id, key), not over


def page_of(found: Iterator[dict[str, Any]], limit: int | None) -> tuple[list[dict[str, Any]], bool]:
    """Return the next page, and whether it was the last."""
    if limit is None:
        return list(found), True
    page, size = [], 0
    for entry in found:
        page.append(entry)
        size += len(json.dumps(entry, default=str))
        if len(page) >= limit or size > MAX_PAGE_BYTES:
            return page, False
    return page, True
