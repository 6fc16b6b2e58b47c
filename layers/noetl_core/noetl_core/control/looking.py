"""The operations of the API that look at executions and change nothing (`client.api.Api`); `operations` has the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from noetl_core.control import (
    changes,
    event_pages,
    iterations,
    labels,
    listing,
    metering,
    pages,
    stats,
    timelines,
    views,
    waiting,
)
from noetl_core.control.core import Control
from noetl_core.control.objects import object_piece, page_result
from noetl_core.control.refusals import BadRequest, within
from noetl_core.control.step_summary import step_summary
from noetl_core.engine.aggregates import MAX_CELLS
from noetl_core.frozen import frozen

if TYPE_CHECKING:
    from noetl_core.client import following_shapes, shapes, step_shapes, view_shapes, why_shapes
    from noetl_core.client.api import Drawn


@frozen
class Looking:
    """What looking stands on (`operations.Operations`)."""

    control: Callable[[], Control]
    cursor_key: Callable[[], bytes]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def changes(
        self,
        execution_id: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        fields: str | None = None,
        known: str | None = None,
    ) -> following_shapes.Changes | None:
        """None: nothing has changed since the answer with the tag `known`, whose cursor is `after`."""
        control, key = self.control(), self.cursor_key()
        most = changes.EVENTS if limit is None else within("limit", limit, 0, pages.MAX_PAGE)
        shown = changes.named_fields(fields)
        if known and after and known == changes.tag_of(after) and changes.unchanged(control, execution_id, after, key):
            return None
        return changes.changes(control, execution_id, key, after=after, limit=most, fields=shown)

    def events(
        self,
        execution_id: str,
        *,
        after: str | None = None,
        name: str | None = None,
        limit: int | None = None,
        before: str | None = None,
        at: str | None = None,
        tail: int | None = None,
        step: str | None = None,
        task: str | None = None,
        status: str | None = None,
        iteration: str | None = None,
        fields: str | None = None,
    ) -> shapes.Events:
        path = None if iteration is None else iteration_path(iteration, "query.iteration")
        shown = event_pages.Filter(event_pages.named(name), step, task, status, path)
        wanted, last = changes.named_fields(fields), None if tail is None else limited(tail, 0)
        most, key = limited(limit, pages.MAX_PAGE), self.cursor_key()
        found = event_pages.page(
            self.control(), execution_id, key, shown, after=after, before=before, at=at, tail=last, limit=most
        )
        events = [changes.trimmed(event, wanted) for event in found.events]
        out = {"events": events, "cursor": found.cursor, "more": found.more, "back": found.back}
        return cast("shapes.Events", out if found.position is None else {**out, "position": found.position})

    def stats(self, *, path: str | None = None, since: str | None = None, label: str | None = None) -> following_shapes.Stats:
        begin = None if since is None else listing.instant(since)
        return stats.stats(self.control(), path=path, since=begin, wanted=labels.asked(label))

    def waiting_callbacks(
        self, *, path: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> following_shapes.WaitingCallbacks:
        most = limited(limit, waiting.SHOWN)
        return waiting.waiting_callbacks(self.control(), self.cursor_key, path=path, limit=most, cursor=cursor)

    def timeline(
        self,
        execution_id: str,
        limit: int | None = None,
        *,
        rows: int | None = None,
        step: str | None = None,
        begin: str | None = None,
        end: str | None = None,
    ) -> view_shapes.Timeline:
        most = limited(limit, timelines.SPANS, timelines.MAX_SPANS)
        shown = None if rows is None else limited(rows, timelines.ROWS, timelines.SPANS)
        return timelines.timeline(self.control(), execution_id, rows=shown, step=step, begin=begin, end=end, limit=most)

    def graph(self, execution_id: str, *, layout: bool | None = None, at: str | None = None) -> view_shapes.Graph:
        return views.graph(self.control(), execution_id, layout=bool(layout), at=at)

    def playbook_graph(self, source: str, *, layout: bool | None = None) -> view_shapes.PlaybookGraph:
        return views.playbook_graph(self.control(), source, layout=bool(layout))

    def drawing(self, execution_id: str, form: Drawn) -> str:
        return views.drawing(self.control(), execution_id, form)

    def cost(self, execution_id: str) -> view_shapes.Cost:
        memory = self.facts.get("worker_memory_mb")
        return metering.cost(self.control(), execution_id, int(memory) if memory else None)

    def step_summary(self, execution_id: str, step: str, buckets: int | None = None) -> view_shapes.StepAggregates:
        return step_summary(
            self.control(), execution_id, step, None if buckets is None else within("buckets", buckets, 1, MAX_CELLS)
        )

    def iterations(
        self,
        execution_id: str,
        step: str,
        *,
        status: str | None = None,
        q: str | None = None,
        begin: int | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> step_shapes.Iterations:
        most, key = limited(limit, iterations.SHOWN), self.cursor_key()
        control, first = self.control(), begin or 0
        return iterations.iterations(
            control, execution_id, step, key, status=status, text=q, first=first, after=after, limit=most
        )

    def iteration(self, execution_id: str, step: str, iteration: str) -> step_shapes.IterationDetail:
        return iterations.iteration(self.control(), execution_id, step, iteration_path(iteration))

    def why(self, execution_id: str, step: str | None = None, *, at: str | None = None) -> why_shapes.Why:
        from noetl_core.control.why import why  # 12 ms: short runs ask for no explanation

        return why(self.control(), execution_id, step, at)

    def diff(self, execution_id: str, other: str) -> why_shapes.Diff:
        from noetl_core.control.diff import diff  # 4 ms, as above

        return diff(self.control(), execution_id, other)

    def object_piece(self, execution_id: str, key: str, start: int = 0) -> view_shapes.ObjectPiece:
        return object_piece(self.control(), execution_id, key, start)

    def page_result(self, execution_id: str, run: str, seq: int) -> view_shapes.PageResult:
        return page_result(self.control(), execution_id, run, seq)

    def logs(
        self,
        execution_id: str,
        *,
        step: str | None = None,
        task: str | None = None,
        full: bool | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> view_shapes.Logs:
        key, most = self.cursor_key(), limited(limit, views.LOGS)
        return views.logs(
            self.control(),
            execution_id,
            key,
            step=step,
            task=task,
            full=bool(full),
            after=after,
            limit=most,
        )

    def replay(self, execution_id: str, *, after: str | None = None, playbook: str | None = None) -> view_shapes.Replay:
        return views.replayed(self.control(), execution_id, after, playbook)


def iteration_path(text: str, loc: str = "path.iteration") -> tuple[int, ...]:
    """The indexes of an iteration as a path or a query has them, `617` or `3.5`. Raises `BadRequest`."""
    parts = text.split(".")
    if len(parts) > 10 or not all(part.isascii() and part.isdecimal() and len(part) <= 9 for part in parts):
        raise BadRequest(f"{text[:100]!r} is no iteration", loc, "its index, `617`; in nested loops all, `3.5`")
    return tuple(int(part) for part in parts)


def limited(limit: int | None, default: int, most: int = pages.MAX_PAGE) -> int:
    """How many a page has at most. Raises `BadRequest`."""
    return default if limit is None else within("limit", limit, 1, most)
