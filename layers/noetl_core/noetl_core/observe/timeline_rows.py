"""Folds runs of an execution into rows of a timeline, as many as can be shown: failed and open ones first, then the slowest.

The control stream has all of them, and a state the runs it keeps; `timeline` has the details of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from noetl_core.engine.fold.aggregates import rows_of
from noetl_core.engine.records import Commit, control_events
from noetl_core.engine.state import Run, State
from noetl_core.events.event import closes_run
from noetl_core.events.table import LIMITS
from noetl_core.observe.critical_path import CriticalPath
from noetl_core.observe.timeline import Span, Timeline
from noetl_core.values.instants import SECOND

OPENS: Mapping[str, str] = {
    "StepScheduled": "run",
    "LoopChunkScheduled": "chunk",
    "CompensationStarted": "undo",
    "StopStarted": "undo",
}


KINDS: Mapping[str, str] = {"c": "chunk", "u": "undo", "s": "undo"}
"""Kinds by the first letter of a run's id (`engine.ids`)."""
COUNTS = ("total", "succeeded", "failed")


@dataclass(slots=True)
class Row:
    """A run. `envelopes` counts the envelopes of its stream, according to its boundaries."""

    run: str
    step: str
    kind: str
    began: int
    ended: int | None = None
    failed: bool = False
    parent: str | None = None
    envelopes: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    def lies_in(self, begin: int | None, end: int | None) -> bool:
        return (end is None or self.began <= end) and (begin is None or self.ended is None or self.ended >= begin)


@dataclass(slots=True)
class Rows:
    """Folds the commits of a control stream."""

    rows: dict[str, Row] = field(default_factory=dict)
    status: str = "running"
    began: int | None = None
    ended: int | None = None
    begun_earlier: dict[str, Row] = field(default_factory=dict)
    """Rows of runs of which only the end was observed. Their beginning is not known."""
    places: list[tuple[str, Any, int]] = field(default_factory=list)
    """Events of limits: name, data, instant."""
    path: CriticalPath = field(default_factory=CriticalPath)

    def observe(self, commits: Iterable[Commit]) -> None:
        for commit in commits:
            self.path.begin(commit.seq)
            for event in control_events(commit):
                self.began = event.ts if self.began is None else self.began
                data: Any = event.data
                if event.name in OPENS:
                    facts = {"chunk": data["chunk"]} if "chunk" in data else {}
                    kind, parent = OPENS[event.name], data.get("parent")
                    self.rows[data["run"]] = Row(data["run"], data["step"], kind, event.ts, parent=parent, facts=facts)
                    self.path.opened(data["run"], data.get("tokens", ()), parent)
                elif event.name == "WorkflowFinished":
                    self.status, self.ended = data["status"], event.ts
                    self.path.finished()
                elif event.name == "ExecutionRedriven":
                    self.status, self.ended = "running", None
                    self.path.reopened()
                elif event.name == "TokenEnqueued":
                    self.path.enqueued(data["token"], data.get("run"))
                elif event.name in LIMITS:
                    self.places.append((event.name, data, event.ts))
                else:
                    self._progress(event, data)

    def _progress(self, event: Any, data: Any) -> None:
        if event.name == "BoundaryRouted":
            self.path.routed(data["run"])
        row = self.rows.get(data.get("run"))
        if row is None:
            if not closes_run(event):
                return
            row = Row(data["run"], data["step"], KINDS.get(data["run"][:1], "run"), event.ts)
            self.rows[row.run] = self.begun_earlier[row.run] = row
        if event.name == "BoundaryRouted":
            row.envelopes = data.get("events") or row.envelopes
        if event.name in ("BoundaryRouted", "LoopDone") and (counts := data.get("loop") or data) and "total" in counts:
            row.facts["loop"] = {key: counts.get(key, 0) for key in COUNTS}
        if closes_run(event):
            row.ended = event.ts
            row.failed = bool(data.get("error")) or event.name == "StepFailed" or data.get("name") == "StepFailed"

    def end_as(self, state: State) -> None:
        """Take the end of the execution from its state."""
        self.status, self.ended = (state.status, state.finished_at) if state.finished else ("running", None)

    def chosen(self, most: int, step: str | None, begin: int | None, end: int | None) -> tuple[list[Row], int]:
        """Return the rows that are shown, in order of time, and how many there are of that step and time."""
        found = [row for row in self.rows.values() if row.lies_in(begin, end) and step in (None, row.step)]
        order = sorted(found, key=lambda row: (not row.failed, row.ended is not None, row.began - (row.ended or 0)))
        return sorted(order[:most], key=lambda row: row.began), len(found)


def kept_rows(state: State) -> Rows:
    """Return the rows that a state keeps: open, failed and slow runs, as far as it has their data."""
    found = Rows(began=state.started_at)
    found.end_as(state)
    for failed, some in ((True, state.ended.failed), (False, state.ended.slowest)):
        for row in some:
            facts: dict[str, Any] = {} if row.chunk is None else {"chunk": row.chunk}
            if row.loop is not None:
                facts["loop"] = dict(zip(COUNTS, row.loop, strict=True))
            ended = row.began + row.us
            found.rows[row.run] = Row(row.run, row.step, row.kind, row.began, ended, failed, row.parent, row.events, facts)
    found.rows |= {run.id: _open_row(run) for run in state.runs.values()}
    for use in state.limits.values():
        if not use.held:
            found.places.append(("LimitRequested", {**asdict(use), "step": use.step or ""}, use.asked_at))
    return found


def _open_row(run: Run) -> Row:
    kind = "undo" if run.undoes is not None else "run" if run.parent is None else "chunk"
    facts = {} if run.chunk is None else {"chunk": run.chunk}
    return Row(run.id, run.step, kind, run.began_at, parent=run.parent, envelopes=run.events, facts=facts)


def cells_of(state: State) -> dict[str, Any]:
    """Return the numbers of ended runs by time, in the form of the API."""
    cells = state.ended.cells
    return {"width_ms": 1 << cells["bits"], "cells": rows_of(cells)}


def timeline_of(rows: Rows, selected: Iterable[Row], limit: int) -> Timeline:
    """Return a timeline of these runs; up to `limit` spans of details may be added."""
    line = Timeline(limit)
    line.path = rows.path
    line.status, line.began = rows.status, None if rows.began is None else rows.began / SECOND
    line.ended = None if rows.ended is None else rows.ended / SECOND
    selected = list(selected)
    kept = {row.run for row in selected}
    for name, data, at in rows.places:
        run = data["holder"].partition("/")[2]
        if run in kept or run not in rows.rows:  # skip waits of runs that are not shown
            line.limit(name, data, at / SECOND)
    if rows.ended is not None:
        line.close_limits(rows.ended / SECOND)
    for row in selected:
        span = Span(row.kind, row.step, row.began / SECOND, row.step, row.run, facts=row.facts)
        if row.ended is not None:
            span.ended, span.status = row.ended / SECOND, "error" if row.failed else "ok"
        line.add_run(span, row.parent)
    return line
