"""Aggregates the outcomes of a step's runs, or of a loop's iterations: durations, retries, errors by kind and message, failed
items. Their size is bounded for any number of runs, so that readers need not read a whole log.

A worker folds the events of its run (`RunAggregates`) and states the outcome in its boundary; the fold of the control stream
adds that to the step (`observe`). Both are functions of the log alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from noetl_core.engine import warnings
from noetl_core.engine.records import ControlEvent, RunEvent
from noetl_core.engine.state import State
from noetl_core.events.aggregates import Aggregates, Cells, ErrorGroup, Warnings
from noetl_core.events.shapes import Failure
from noetl_core.values.frozen import mutable
from noetl_core.values.request_bounds import MAX_CELLS as MAX_CELLS

MAX_GROUPS = 20
"""Groups of errors that are stated; the failures of all others are counted together."""
MAX_RANGES = 50
"""Ranges of failed iterations that are stated; when there are more, those nearest to each other become one."""
FOLDED = 4
"""The factor by which more is kept while events are folded. The stated selection at the end is made from it."""
MESSAGE = 200
"""Characters of an error's message that are stated."""

FEW_CELLS = 64
"""Cells that a commit of a loop in progress states: readers of its progress load them every second."""

_NUMBERS = re.compile(r"\d+")


@mutable
class RunAggregates:
    """The fold of a run stream: of its innermost iterations, and of the retries of its tasks."""

    items: int | None = None
    """Length of the collection of the outermost loop."""
    began: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Iterations that have begun and not ended."""
    ended: int = 0
    """Iterations with a known duration, all of `us`."""
    us: dict[str, int] = field(default_factory=dict)
    total_us: int = 0
    max_us: int = 0
    retries: int = 0
    errors: dict[tuple[Any, ...], ErrorGroup] = field(default_factory=dict)
    others: int = 0
    failures: int = 0
    """Iterations that failed, all of `failed`."""
    failed: list[list[int]] = field(default_factory=list)
    cells: Cells = field(default_factory=lambda: Cells(bits=0, at={}))
    warnings: Warnings | None = None

    def observe(self, event: RunEvent) -> None:
        """Fold one event."""
        if event.name == "LoopIterationStarted":
            self.began[tuple(event.data["path"])] = event.ts
        elif event.name == "LoopIterationCompleted":
            path = event.data["path"]
            began = self.began.pop(tuple(path), None)
            if "loop" in event.data:
                return  # the iterations of the loop inside it are counted
            took = 0 if began is None else max(event.ts - began, 0)
            if began is not None:
                self._took(took)
            add_to_cells(self.cells, path[0], [1, int(event.data["status"] == "error"), took, took])
            if event.data["status"] == "error":
                self.failures += 1
                fail(self.failed, path[0])
                self._error(event.data.get("error") or {"kind": "unknown", "message": ""}, path)
        elif event.name == "TaskProcessed":
            if event.data["outcome"]["status"] == "error" or "undefined" in event.data:
                self.warnings = warnings.added(self.warnings, warnings.of_task(event.data))
        elif event.name == "TaskRetried":
            self.retries += 1
        elif event.name == "LoopCollected" and not event.data.get("path"):
            self.items = event.data["total"]
        elif event.name == "LoopFrameClaimed":
            self.items = event.data["first"] + len(event.data["keys"])

    def _took(self, us: int) -> None:
        key = str(us.bit_length())
        self.ended += 1
        self.us[key] = self.us.get(key, 0) + 1
        self.total_us += us
        self.max_us = max(self.max_us, us)

    def _error(self, error: Failure, path: list[int]) -> None:
        key = _key(error)
        known = self.errors.get(key)
        if known is not None:
            known["count"] += 1
            known["first"] = min(known.get("first", path), path)
        elif len(self.errors) < MAX_GROUPS * FOLDED:
            self.errors[key] = {**_group(error), "first": path}
        else:
            self.others += 1

    def so_far(self) -> Aggregates | None:
        """Return the aggregates for a commit of a loop in progress; None for a run of which no iteration has ended. Costs
        milliseconds if the loop has many cells."""
        aggregates = self.stated(FEW_CELLS) if self.us else None
        return aggregates if aggregates is None or self.items is None else {**aggregates, "items": self.items}

    def stated(self, cells: int = MAX_CELLS) -> Aggregates | None:
        """Return the aggregates for a boundary, with at most `cells` cells; None if there is nothing."""
        if not (self.us or self.retries or self.errors or self.failed or self.cells["at"] or self.warnings):
            return None
        found = Aggregates()
        if self.warnings is not None:
            found["warnings"] = {**self.warnings, "groups": [{**group} for group in self.warnings["groups"]]}
        if self.us:
            found["us"], found["total_us"], found["max_us"] = dict(self.us), self.total_us, self.max_us
        if self.retries:
            found["retries"] = self.retries
        _state_errors(found, self.errors.values(), self.others)
        if self.failed:
            found["failed"] = condensed(self.failed)
        if self.cells["at"]:
            found["cells"] = coarser(self.cells, cells)
        return found


def observe(state: State, event: ControlEvent) -> None:
    """Fold a control event that ends a run, while the run is still open."""
    match event.name:
        case "BoundaryRouted" if event.data["name"] != "StepSuspended":
            _ended(state, event.data["run"], event.ts, event.data.get("error"), event.data.get("aggregates"))
        case "StepDone":
            _ended(state, event.data["run"], event.ts, None)
        case "LoopDone" | "StepFailed":
            _ended(state, event.data["run"], event.ts, event.data.get("error"))


def _ended(state: State, run_id: str, at: int, error: Failure | None, aggregates: Aggregates | None = None) -> None:
    """Add a run that ended at instant `at` to the aggregates of its step; a chunk to those of its loop. `aggregates`: those in
    its boundary."""
    run = state.runs.get(run_id)
    if run is None or run.undoes is not None:
        return
    if run.parent is not None:
        lead = state.runs.get(run.parent)
        if lead is not None and lead.loop is not None:
            lead.loop.aggregates = merged(lead.loop.aggregates, aggregates)
        return
    step = state.step(run.step)
    if run.loop is not None:
        aggregates = run.loop.aggregates
    step.warnings = warnings.merged(step.warnings, warnings.of_run(aggregates, failed=error is not None))
    step.iterations = aggregates if aggregates is not None and ("us" in aggregates or "failed" in aggregates) else None
    took = max(at - run.opened_at, 0)
    ended: Aggregates = {"us": {str(took.bit_length()): 1}, "total_us": took, "max_us": took}
    if aggregates is not None and "retries" in aggregates:
        ended["retries"] = aggregates["retries"]
    if error is not None:
        ended["errors"] = [_group(error)]
    step.took = merged(step.took, ended)


def merged(one: Aggregates | None, other: Aggregates | None) -> Aggregates | None:
    """Return both together."""
    if one is None or other is None:
        return other if one is None else one
    found = Aggregates()
    if "us" in one or "us" in other:
        us = dict(one.get("us", {}))
        for bits, count in other.get("us", {}).items():
            us[bits] = us.get(bits, 0) + count
        found["us"] = us
        found["total_us"] = one.get("total_us", 0) + other.get("total_us", 0)
        found["max_us"] = max(one.get("max_us", 0), other.get("max_us", 0))
    if retries := one.get("retries", 0) + other.get("retries", 0):
        found["retries"] = retries
    groups: dict[tuple[Any, ...], ErrorGroup] = {}
    for group in (*one.get("errors", ()), *other.get("errors", ())):
        known = groups.get(key := _key(group))
        groups[key] = group if known is None else _joined(known, group)
    _state_errors(found, groups.values(), one.get("others", 0) + other.get("others", 0))
    if (both := warnings.merged(one.get("warnings"), other.get("warnings"))) is not None:
        found["warnings"] = both
    if ranges := [*one.get("failed", ()), *other.get("failed", ())]:
        found["failed"] = condensed(ranges)
    if (cells := one.get("cells")) is not None and (others := other.get("cells")) is not None:
        found["cells"] = _together(cells, others)
    elif cells is not None or "cells" in other:
        found["cells"] = cells if cells is not None else other["cells"]
    return found


def add_to_cells(cells: Cells, index: int, counts: list[int], most: int = MAX_CELLS * FOLDED) -> None:
    """Add counts to the cell of an index. When there are more than `most` cells, they become wider: half as many at most."""
    at = cells["at"]
    key = str(index >> cells["bits"])
    known = at.get(key)
    if known is not None:
        known[0] += counts[0]
        known[1] += counts[1]
        known[2] += counts[2]
        known[3] = max(known[3], counts[3])
        return
    at[key] = counts
    while len(cells["at"]) > most:
        wider = coarser(cells, most // 2)
        cells["bits"], cells["at"] = wider["bits"], wider["at"]


def coarser(cells: Cells, most: int, bits: int = 0) -> Cells:
    """Return cells as wide as it takes for `most` of them, and at least `bits`; the lists in it are new."""
    bits = max(bits, cells["bits"])
    while len({int(key) >> (bits - cells["bits"]) for key in cells["at"]}) > most:
        bits += 1
    found: dict[str, list[int]] = {}
    for key, counts in cells["at"].items():
        wide = str(int(key) >> (bits - cells["bits"]))
        known = found.get(wide)
        found[wide] = list(counts) if known is None else _sum(known, counts)
    return {"bits": bits, "at": found}


def rows_of(cells: Cells) -> list[list[float]]:
    """Return cells as rows `[number, ended, failed, mean_ms, max_ms]`, in order."""
    ordered = sorted((int(key), counts) for key, counts in cells["at"].items())
    return [
        [number, ended, failed, round(total / ended / 1000, 3), round(longest / 1000, 3)]
        for number, (ended, failed, total, longest) in ordered
    ]


def _sum(one: list[int], other: list[int]) -> list[int]:
    return [one[0] + other[0], one[1] + other[1], one[2] + other[2], max(one[3], other[3])]


def _together(one: Cells, other: Cells) -> Cells:
    """Return the cells of both. Those of `one` that `other` does not touch are not copied: chunks are added one by one."""
    bits = max(one["bits"], other["bits"])
    one = one if one["bits"] == bits else coarser(one, MAX_CELLS, bits)
    found = dict(one["at"])
    for key, counts in other["at"].items():
        wide = str(int(key) >> (bits - other["bits"]))
        known = found.get(wide)
        found[wide] = counts if known is None else _sum(known, counts)
    together: Cells = {"bits": bits, "at": found}
    return together if len(found) <= MAX_CELLS else coarser(together, MAX_CELLS)


def _key(error: Mapping[str, Any]) -> tuple[Any, ...]:
    """Errors whose messages differ in numbers only are one group."""
    message = _NUMBERS.sub("#", str(error.get("message", ""))[:MESSAGE])
    return error.get("kind"), error.get("code"), error.get("task"), message


def _group(error: Failure) -> ErrorGroup:
    found: ErrorGroup = {"kind": error["kind"], "message": str(error.get("message", ""))[:MESSAGE], "count": 1}
    if "code" in error:
        found["code"] = error["code"]
    if "task" in error:
        found["task"] = error["task"]
    return found


def _joined(one: ErrorGroup, other: ErrorGroup) -> ErrorGroup:
    joined: ErrorGroup = {**one, "count": one["count"] + other["count"]}
    if "first" in one or "first" in other:
        joined["first"] = min(group["first"] for group in (one, other) if "first" in group)
    return joined


def _state_errors(found: Aggregates, groups: Iterable[ErrorGroup], others: int) -> None:
    ordered = sorted(groups, key=lambda group: (-group["count"], group.get("first", [])))
    if ordered:
        found["errors"] = [{**group} for group in ordered[:MAX_GROUPS]]
    if others := others + sum(group["count"] for group in ordered[MAX_GROUPS:]):
        found["others"] = others


def fail(ranges: list[list[int]], index: int) -> None:
    """Add a failed iteration to ordered ranges `[first, last, failed]`."""
    place = bisect_right(ranges, index, key=lambda r: r[0]) - 1
    before = ranges[place] if place >= 0 else None
    after = ranges[place + 1] if place + 1 < len(ranges) else None
    if before is not None and index <= before[1] + 1:
        before[1], before[2] = max(before[1], index), before[2] + 1
        if after is not None and after[0] <= before[1] + 1:
            before[1], before[2] = max(before[1], after[1]), before[2] + after[2]
            del ranges[place + 1]
    elif after is not None and index == after[0] - 1:
        after[0], after[2] = index, after[2] + 1
    else:
        ranges.insert(place + 1, [index, index, 1])
        if len(ranges) > MAX_RANGES * FOLDED:
            ranges[:] = condensed(ranges, MAX_RANGES * FOLDED // 2)


def condensed(ranges: Iterable[list[int]], limit: int = MAX_RANGES) -> list[list[int]]:
    """Return ranges ordered, adjacent ones as one, and at most `limit` of them: those with the smallest gaps between them become
    one, whose `failed` is less than its length."""
    found: list[list[int]] = []
    for first, last, failed in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1][1], found[-1][2] = max(found[-1][1], last), found[-1][2] + failed
        else:
            found.append([first, last, failed])
    if len(found) <= limit:
        return found
    gaps = sorted(range(1, len(found)), key=lambda n: found[n - 1][1] - found[n][0])[: limit - 1]
    starts = [0, *sorted(gaps)]
    ends = [*starts[1:], len(found)]
    parts = (found[start:end] for start, end in zip(starts, ends, strict=True))
    return [[part[0][0], part[-1][1], sum(r[2] for r in part)] for part in parts]
