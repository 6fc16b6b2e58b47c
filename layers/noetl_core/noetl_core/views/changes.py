"""Returns the changes of an execution since a cursor, for clients that poll every second.

An answer has a tag, computed from the position it reaches. For a client that sends the tag of the newest answer, one read of the
control stream and one of each open run show that nothing changed; no event is folded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Container, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.api.refused import BadRequest, nearest
from noetl_core.control.core import Control
from noetl_core.engine.records import Commit, StreamId
from noetl_core.engine.state import State
from noetl_core.engine.step_status import Standing, standings
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.log.stored_values import Values
from noetl_core.values.instants import to_rfc3339
from noetl_core.views.executions import executions
from noetl_core.views.executions.shared_limits import awaited
from noetl_core.views.history import pages
from noetl_core.views.reading.cursor import Position, StreamPosition
from noetl_core.views.reading.newest_first import ends_of, last_commits, position_at_end, tail
from noetl_core.views.steps.summary import counts_under_way

if TYPE_CHECKING:
    from noetl_core.api.shapes import following as following_shapes

ENVELOPE_KEYS: Final = (
    "event_id",
    "execution_id",
    "timestamp",
    "source",
    "name",
    "event_type",
    "entity",
    "entity_id",
    "status",
    "step",
    "step_run_id",
    "task",
    "task_run_id",
    "iteration",
    "attempt",
    "parent_id",
    "trace_id",
    "data",
)
EVENTS: Final = 100
"""Events of an answer, unless the caller sets a limit."""
MAX_WATCHED: Final = 50
"""Maximum number of open runs whose streams are checked for new commits.

Of other runs, only the end or a suspension counts as a change.
"""


def tag_of(cursor: str) -> str:
    """Return the tag of an answer that ends at `cursor`."""
    return hashlib.sha256(cursor.encode()).hexdigest()[:32]


def unchanged(control: Control, execution_id: str, after: str, key: bytes) -> bool:
    """Return whether nothing was recorded after the cursor `after`. Raises `BadCursor`."""
    position = Position.open(after, execution_id, key)
    watched = [(None, position.control), *position.runs.items()][: MAX_WATCHED + 1]
    if any(at.taken for _, at in watched):
        return False  # the cursor is inside a commit

    def has_commits(stream: tuple[str | None, StreamPosition]) -> bool:
        run, at = stream
        return len(control.store.read(StreamId(execution_id, run), after=at.seq - 1, limit=1)) > 0

    return not any(read_concurrently(has_commits, watched))


def changes(
    control: Control,
    execution_id: str,
    key: bytes,
    *,
    after: str | None = None,
    limit: int = EVENTS,
    fields: Container[str] | None = None,
) -> following_shapes.Changes:
    """Return the state of an execution and its events after a cursor; without a cursor, all steps and the last events.

    Raises `NotFound`, `BadCursor`.
    """
    state = executions.load(control, execution_id)
    ends = ends_of(control.store, state)
    if after is None or limit == 0:
        events = tail(last_commits(control.recent, state, ends), state, limit)
        cursor, more = position_at_end(state, ends).sign(execution_id, key), False
    else:
        reading = pages.since(control, execution_id, after, key, examined=pages.MAX_EXAMINED)
        found, over = pages.page_of(reading.envelopes, limit)
        events, more = found, not over or reading.partial
        cursor = reading.position.sign(execution_id, key)
    about = None if after is None else {e["step"] for e in events if "step" in e}
    out: dict[str, Any] = {
        "execution_id": execution_id,
        "status": executions.status_of(state),
        "ended": state.finished,
        "started_at": to_rfc3339(state.started_at),
        "finished_at": to_rfc3339(state.finished_at) if state.finished_at else None,
        "duration_ms": ((state.finished_at or control.clock.now()) - state.started_at) // 1000,
        "count": state.events,
        "error": executions.error_of(control, state, Values(control.store, control.results, execution_id)),
        "epoch": state.epoch,
        "steps": _steps(state, ends, about),
        "events": [trimmed(e, fields) for e in events],
        "cursor": cursor,
        "more": more,
        "etag": tag_of(cursor),
    }
    out |= executions.redrive_of(state.redriven_at, state.finished_at or control.clock.now())
    if out["status"] == "waiting":
        out["waiting_for"] = [*awaited(control, state), *executions.waiting_for(state)]
    if state.stuck:
        out["reason"] = state.stuck
    return cast("following_shapes.Changes", out)


def _steps(state: State, ends: Mapping[str, Commit], about: Collection[str] | None) -> dict[str, Any]:
    """Return the progress of steps: those that the new events are `about`, or all."""
    found = standings(state)
    return {name: _step(step, ends) for name, step in found.items() if about is None or name in about}


def _step(step: Standing, ends: Mapping[str, Commit]) -> dict[str, Any]:
    known = step.known
    out: dict[str, Any] = {
        "status": step.status,
        "visits": 0 if known is None else known.visits,
        "open": len(step.runs),
        "tokens": len(step.tokens),
        "parked": sum(token.parked for token in step.tokens),
        "arcs": {} if known is None else known.fired,
    }
    counts = None if known is None else known.loop
    for run in step.runs:
        counts = (run.loop.counts if run.loop is not None else counts_under_way(ends.get(run.id))) or counts
    if counts is not None:
        out["loop"] = {key: counts[key] for key in ("total", "succeeded", "failed")}
    return out


def event_keys(text: str | None) -> frozenset[str] | None:
    """Return the event keys in a comma-separated list. Raises `BadRequest`."""
    if text is None:
        return None
    fields = [part.strip() for part in text.split(",")]
    for name in fields:
        if name not in ENVELOPE_KEYS:
            raise BadRequest(f"events have no key {name!r}", "query.fields", nearest(name, ENVELOPE_KEYS))
    return frozenset(fields)


def trimmed(envelope: dict[str, Any], fields: Container[str] | None) -> dict[str, Any]:
    """Return an envelope with only these keys, and its id."""
    return envelope if fields is None else {k: v for k, v in envelope.items() if k == "event_id" or k in fields}
