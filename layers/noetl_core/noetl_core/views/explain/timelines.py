"""Builds timelines. Short histories are shown in full, longer ones by run.

If the control stream is long too, only runs kept in the state (`engine.fold.ended_runs`) are shown, or all runs of a shorter time
range.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from noetl_core.api.refused import BadRequest
from noetl_core.control.core import Control
from noetl_core.engine.records import Commit, StreamId, envelopes_of
from noetl_core.engine.state import State
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.log.history import commits_of, counted
from noetl_core.values.instants import SECOND, from_text, in_microseconds, to_rfc3339
from noetl_core.values.request_bounds import MAX_RUNS
from noetl_core.views.executions import executions
from noetl_core.views.reading.cursor import Position, envelopes, history
from noetl_core.views.reading.envelopes import Expander
from noetl_core.views.reading.newest_first import before_instant, ends_of

if TYPE_CHECKING:
    from noetl_core.api.shapes import views as view_shapes
    from noetl_core.observe.timeline import Timeline
    from noetl_core.observe.timeline_rows import Row, Rows

SPANS = MAX_RUNS
ROWS = 1_000
WHOLE = 20_000
"""Maximum number of events of a history that is shown in full. Longer histories are shown as rows of runs."""
OPEN = 200
"""Maximum number of open runs whose streams are read to compute the length of a history."""
READ = 1_000
"""Maximum number of commits of a control stream read for rows, and of runs these may have opened."""
BEFORE = 200
"""Commits read before a time range: runs in progress at its beginning mostly started there."""
DETAILED = 200
"""Maximum number of events of a run whose tasks and iterations are shown with its row."""
STREAMS = 32
"""Maximum number of run streams read in parallel."""


def timeline(
    control: Control,
    execution_id: str,
    *,
    rows: int | None = None,
    step: str | None = None,
    begin: str | None = None,
    end: str | None = None,
    limit: int = SPANS,
) -> view_shapes.Timeline:
    """Return spans of step runs, with tasks and iterations up to `limit`.

    For long histories, or if `rows`, `step`, `begin` or `end` is passed, return at most `rows` runs: failed and open ones first,
    then the slowest. Raises `NotFound`, `BadRequest`.
    """
    state = counted(control.store, executions.load(control, execution_id))
    first, last = _instant(begin, "from", state.started_at), _instant(end, "to", state.started_at)
    if rows is None and step is None and first is None and last is None and _length(control, state) <= WHOLE:
        return _whole(control, state, limit)
    return _rows(control, state, ROWS if rows is None else rows, step, first, last, limit)


def _length(control: Control, state: State) -> int:
    """Return the number of events in the history; more than `WHOLE` if more than `OPEN` runs are open."""
    if len(state.runs) > OPEN:
        return WHOLE + 1
    ends = ends_of(control.store, state)
    newest = ((state.runs[run].events, last) for run, last in ends.items())
    return state.events + sum(_envelope_count(last) - known for known, last in newest)


def _envelope_count(last: Commit) -> int:
    """Return the number of envelopes in the stream that a commit ends. Streams without counts are estimated."""
    return WHOLE if last.tally is None else last.tally.events


def _whole(control: Control, state: State, limit: int) -> view_shapes.Timeline:
    from noetl_core.observe.timeline import Timeline  # 2 ms: short runs request no view

    line, position = Timeline(limit), Position(trace_id=state.trace_id)
    line.observe(envelopes(history(control.recent, state.execution_id), state.execution_id, position))
    return _timeline_view(control, state, line)


def _timeline_view(control: Control, state: State, line: Timeline, **more: Any) -> view_shapes.Timeline:
    began = to_rfc3339(state.started_at)
    found = {"execution_id": state.execution_id, "started_at": began, **line.as_dict(control.clock.now() / SECOND), **more}
    return cast("view_shapes.Timeline", found)


def _rows(
    control: Control, state: State, rows: int, step: str | None, first: int | None, last: int | None, limit: int
) -> view_shapes.Timeline:
    from noetl_core.observe.timeline_rows import cells_of, kept_rows, timeline_of  # 3 ms, as above

    found = _read_rows(control, state, first, last)
    kept = found is None
    found = kept_rows(state) if found is None else found
    chosen, total = found.chosen(rows, step, first, last)
    counts: dict[str, int] = {"total": total, "shown": len(chosen)}
    if kept:
        counts["kept"] = len(state.ended.slowest) + len(state.ended.failed)
        counts["total"] = _opened(state, step) if first is None and last is None else max(total, _ended_in(state, first, last))
    line = timeline_of(found, chosen, limit)
    if not kept:
        _detail(control, state.execution_id, line, chosen)
    return _timeline_view(control, state, line, rows=counts, ended=cells_of(state))


def _read_rows(control: Control, state: State, first: int | None, last: int | None) -> Rows | None:
    """Return the rows of a time range from the control stream; None if that would take more than `READ` commits or runs."""
    from noetl_core.observe.timeline_rows import Rows, kept_rows  # 3 ms, as above

    stream = StreamId(state.execution_id)
    whole = Rows()
    if state.seq < READ and _opened(state, None) <= READ:
        whole.observe(commits_of(control.recent, stream))
        return whole
    start = -1 if first is None else max(before_instant(control.recent, stream, state.seq, first) - BEFORE, -1)
    if last is None and state.seq - start > READ:
        return None
    found = kept_rows(state)
    for number, commit in enumerate(commits_of(control.recent, stream, start)):
        if last is not None and commit.ts > last:
            break
        if number >= READ or len(found.rows) > READ + len(state.runs):
            return None
        found.observe((commit,))
    found.end_as(state)
    _begin_earlier(control, state.execution_id, found)
    return found


def _begin_earlier(control: Control, execution_id: str, found: Rows) -> None:
    """Set the start of runs of which only the end was read to the start of their streams."""
    runs = list(found.begun_earlier)
    first = read_concurrently(lambda run: control.recent.read(StreamId(execution_id, run), limit=1), runs)
    for run, commits in zip(runs, first, strict=True):
        found.begun_earlier[run].began = commits[0].ts if commits else found.begun_earlier[run].began


def _opened(state: State, step: str | None) -> int:
    """Return the number of runs, chunks and compensations opened, by one step or in total."""
    return sum(known.opened for name, known in state.steps.items() if step in (None, name))


def _ended_in(state: State, first: int | None, last: int | None) -> int:
    """Return roughly how many runs ended in a time range, according to cells, and how many are open."""
    cells, began = state.ended.cells, state.started_at
    width = 1_000 << cells["bits"]
    inside = (
        counts[0]
        for key, counts in cells["at"].items()
        if (first is None or began + (int(key) + 1) * width > first) and (last is None or began + int(key) * width <= last)
    )
    return sum(inside) + len(state.runs)


def _detail(control: Control, execution_id: str, line: Timeline, chosen: list[Row]) -> None:
    """Add the tasks and iterations of short runs, up to the limit of the timeline."""
    short = [row for row in chosen if row.envelopes <= DETAILED]

    def stream_of(row: Row) -> Iterator[dict[str, Any]]:
        expand = Expander(execution_id, None, {row.run: row.step})
        found, events = [], 0
        for commit in commits_of(control.recent, StreamId(execution_id, row.run)):
            events += sum(envelopes_of(event) for event in commit.events)
            if events > DETAILED:  # the size of an open run is in its stream only
                return iter(())
            found.append(commit)
        return (envelope for commit in found for envelope in expand(commit))

    for place in range(0, len(short), STREAMS):
        if line.full:
            return
        for stream in read_concurrently(stream_of, short[place : place + STREAMS]):
            line.observe(stream)


def _instant(text: str | None, name: str, began: int) -> int | None:
    """Return an instant, from RFC 3339 text or milliseconds since the beginning."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal() and len(text) <= 15:
        return began + int(text) * 1000
    try:
        return in_microseconds(from_text(text))
    except ValueError:
        raise BadRequest(
            f"{name} is not an instant: {text!r}", f"query.{name}", "RFC 3339, or milliseconds from the beginning"
        ) from None
