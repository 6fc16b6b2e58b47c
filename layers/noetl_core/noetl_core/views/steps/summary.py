"""Summarises one step: the outcomes of its runs and of the iterations of its loop, from the state.

No run stream is read, except two commits of an open run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from noetl_core.api.refused import nearest
from noetl_core.control.core import Control
from noetl_core.engine.fold.aggregates import coarser, rows_of
from noetl_core.engine.records import Commit, StreamId
from noetl_core.engine.state import StepState
from noetl_core.log.history import progress_of, stated_aggregates
from noetl_core.ports import NotFound
from noetl_core.views.executions import executions

if TYPE_CHECKING:
    from noetl_core.api.shapes import views as view_shapes
    from noetl_core.events.aggregates import Aggregates, Cells
    from noetl_core.events.shapes import Counts


def step_summary(control: Control, execution_id: str, step: str, buckets: int | None = None) -> view_shapes.StepAggregates:
    """Return the summary of `step`, with iterations grouped into at most `buckets` cells. Raises `NotFound`."""
    state = executions.load(control, execution_id)
    playbook = control.playbook(state.digest)
    if step not in playbook.by_name:
        hint = nearest(step, playbook.by_name)
        raise NotFound(f"execution {execution_id} has no step {step}" + (f" ({hint})" if hint else ""))
    found = state.steps.get(step) or StepState()
    open_runs = [run for run in state.runs.values() if run.step == step and run.parent is None and run.undoes is None]
    out: view_shapes.StepAggregates = {
        "execution_id": execution_id,
        "step": step,
        "status": found.status or ("running" if open_runs else "skipped"),
        "visits": found.visits,
        "runs": aggregates_view(found.took, found.runs),
        "open": len(open_runs),
    }
    iterations, counts = found.iterations, found.loop
    for run in open_runs:
        if run.loop is not None:
            iterations, counts = run.loop.aggregates, run.loop.counts
        else:
            last = control.store.last(StreamId(execution_id, run.id))
            iterations, counts = stated_aggregates(control.recent, last), counts_under_way(last)
    if counts is not None:
        out["loop"] = {"total": counts["total"], "succeeded": counts["succeeded"], "failed": counts["failed"]}
    if playbook.by_name[step].loop is not None:
        out["iterations"] = aggregates_view(iterations, sum((iterations or {}).get("us", {}).values()))
        cells = (iterations or {}).get("cells")
        if buckets is not None and cells is not None:
            out["buckets"] = _buckets(cells, buckets)
    return out


def _buckets(cells: Cells, most: int) -> view_shapes.Buckets:
    """Return cells in the form of the API, at most `most`."""
    wide = coarser(cells, most)
    return {"width": 1 << wide["bits"], "cells": rows_of(wide)}


def counts_under_way(last: Commit | None) -> Counts | None:
    """Return the counts of a loop in progress, from the newest commit of its run; None if no iteration has ended."""
    progress = None if last is None or last.tally is None else progress_of(last.tally)
    if progress is None:
        return None
    total = progress.ended if progress.total is None else progress.total
    return {"total": total, "succeeded": progress.ended - progress.failed, "failed": progress.failed}


def aggregates_view(aggregates: Aggregates | None, count: int) -> view_shapes.Aggregates:
    """Return aggregates in the form of the API: `count` runs or iterations."""
    aggregates = aggregates or {}
    us = {int(bits): n for bits, n in aggregates.get("us", {}).items()}
    timed = sum(us.values())
    return {
        "count": count,
        "duration_ms": {
            "mean": aggregates.get("total_us", 0) / 1000 / timed if timed else 0.0,
            "p50": _percentile(us, 0.5),
            "p95": _percentile(us, 0.95),
            "max": aggregates.get("max_us", 0) / 1000,
        },
        "histogram": [{"below_ms": _ms_below(bits), "count": us[bits]} for bits in sorted(us)],
        "retries": aggregates.get("retries", 0),
        "errors": list(aggregates.get("errors", ())),
        "other_errors": aggregates.get("others", 0),
        "failed": [{"first": first, "last": last, "failed": failed} for first, last, failed in aggregates.get("failed", ())],
    }


def _percentile(us: Mapping[int, int], share: float) -> float:
    """Return a bound in milliseconds below which that share of the durations lies: the end of a group of the histogram."""
    target, seen = share * sum(us.values()), 0
    for bits in sorted(us):
        seen += us[bits]
        if seen >= target:
            return _ms_below(bits)
    return 0.0


def _ms_below(bits: int) -> float:
    """Return the end of a group of the histogram."""
    return (1 << bits) / 1000
