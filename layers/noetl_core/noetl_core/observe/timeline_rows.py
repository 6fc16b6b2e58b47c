"""The runs of an execution as rows of a timeline, as many as can be shown: those that failed or are open first, then the slowest.
The control stream tells all of it; `timeline` has the details of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl_core.engine.records import Commit, control_events
from noetl_core.events.event import closes_run
from noetl_core.events.table import LIMITS
from noetl_core.instants import SECOND
from noetl_core.observe.timeline import Span, Timeline

OPENS: Mapping[str, str] = {"StepScheduled": "run", "LoopChunkScheduled": "chunk", "CompensationStarted": "undo"}


@dataclass(slots=True)
class Row:
    """A run. `written` counts the envelopes of its stream, as far as its boundaries say."""

    run: str
    step: str
    kind: str
    began: int
    ended: int | None = None
    failed: bool = False
    parent: str | None = None
    written: int = 0
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
    places: list[tuple[str, Any, int]] = field(default_factory=list)
    """Events of limits: name, data, instant."""

    def observe(self, commits: Iterable[Commit]) -> None:
        for commit in commits:
            for event in control_events(commit):
                self.began = event.ts if self.began is None else self.began
                said: Any = event.data
                if event.name in OPENS:
                    facts = {"chunk": said["chunk"]} if "chunk" in said else {}
                    kind, parent = OPENS[event.name], said.get("parent")
                    self.rows[said["run"]] = Row(said["run"], said["step"], kind, event.ts, parent=parent, facts=facts)
                elif event.name == "WorkflowFinished":
                    self.status, self.ended = said["status"], event.ts
                elif event.name == "ExecutionRedriven":
                    self.status, self.ended = "running", None
                elif event.name in LIMITS:
                    self.places.append((event.name, said, event.ts))
                else:
                    self._news(event, said)

    def _news(self, event: Any, said: Any) -> None:
        row = self.rows.get(said.get("run"))
        if row is None:
            return
        if event.name == "BoundaryRouted":
            row.written = said.get("events") or row.written
        if event.name in ("BoundaryRouted", "LoopDone") and (counts := said.get("loop") or said) and "total" in counts:
            row.facts["loop"] = {key: counts.get(key, 0) for key in ("total", "succeeded", "failed")}
        if closes_run(event):
            row.ended = event.ts
            row.failed = bool(said.get("error")) or event.name == "StepFailed" or said.get("name") == "StepFailed"

    def chosen(self, most: int, step: str | None, begin: int | None, end: int | None) -> tuple[list[Row], int]:
        """Return the rows that are shown, in order of time, and how many there are of that step and time."""
        found = [row for row in self.rows.values() if row.lies_in(begin, end) and step in (None, row.step)]
        order = sorted(found, key=lambda row: (not row.failed, row.ended is not None, row.began - (row.ended or 0)))
        return sorted(order[:most], key=lambda row: row.began), len(found)


def timeline_of(rows: Rows, shown: Iterable[Row], limit: int) -> Timeline:
    """Return a timeline that has these runs; `limit` spans of details may be added."""
    line = Timeline(limit)
    line.status, line.began = rows.status, None if rows.began is None else rows.began / SECOND
    line.ended = None if rows.ended is None else rows.ended / SECOND
    shown = list(shown)
    kept = {row.run for row in shown}
    for name, said, at in rows.places:
        run = said["holder"].partition("/")[2]
        if run in kept or run not in rows.rows:  # of runs that are not shown nothing is
            line.limit(name, said, at / SECOND)
    if rows.ended is not None:
        line.close_limits(rows.ended / SECOND)
    for row in shown:
        span = Span(row.kind, row.step, row.began / SECOND, row.step, row.run, facts=row.facts)
        if row.ended is not None:
            span.ended, span.status = row.ended / SECOND, "error" if row.failed else "ok"
        line.add_run(span, row.parent)
    return line
