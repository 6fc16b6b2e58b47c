"""Aggregates are bounded, count everything once, and are the same however the events are divided."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest

from noetl_core.engine.fold.aggregates import MAX_CELLS, MAX_GROUPS, MAX_RANGES, RunAggregates, condensed, fail, merged
from noetl_core.engine.records import Event, RunEvent
from noetl_core.events.aggregates import Aggregates


def started(path: list[int], ts: int) -> Any:
    return Event("LoopIterationStarted", ts, {"path": path})


def ended(path: list[int], ts: int, error: Any = None, **more: Any) -> Any:
    data = {"path": path, "status": "error" if error else "success", **({"error": error} if error else {}), **more}
    return Event("LoopIterationCompleted", ts, data)


def folded(events: list[RunEvent]) -> Aggregates:
    aggregates = RunAggregates()
    for event in events:
        aggregates.observe(event)
    return aggregates.stated() or {}


def failures(aggregates: Aggregates) -> int:
    return sum(group["count"] for group in aggregates.get("errors", ())) + aggregates.get("others", 0)


def test_durations_retries_errors_and_failed_ranges_of_a_loop() -> None:
    events = []
    for n in range(100):
        error = {"kind": "http", "code": 503, "message": f"item {n} is away", "task": "call"} if 20 <= n < 30 or n == 77 else None
        events += [started([n], n), ended([n], n + 1_000 + n, error)]
    retried: Any = Event("TaskRetried", 5, {"task": "call", "run": "t", "attempt": 1, "delay": 0})
    assert folded([*events, retried]) == {
        "us": {"10": 24, "11": 76},
        "total_us": sum(1_000 + n for n in range(100)),
        "max_us": 1_099,
        "retries": 1,
        "errors": [
            {"kind": "http", "code": 503, "task": "call", "message": "item 20 is away", "count": 11, "first": [20]},
        ],
        "failed": [[20, 29, 10], [77, 77, 1]],
        "cells": {"bits": 0, "at": {str(n): [1, int(20 <= n < 30 or n == 77), 1_000 + n, 1_000 + n] for n in range(100)}},
    }


def test_nested_loops_count_the_innermost_iterations() -> None:
    wrong = {"kind": "python", "message": "no"}
    events = [started([0], 0)]
    for n in range(3):
        events += [started([0, n], 10), ended([0, n], 20, wrong if n else None)]
    events.append(ended([0], 99, wrong, loop={"total": 3, "succeeded": 1, "failed": 2}))
    events += [started([1], 100), ended([1], 104, {"kind": "template", "message": "loop.in"})]  # its loop could not begin
    aggregates = folded(events)
    assert aggregates["us"] == {"4": 3, "3": 1}
    assert aggregates["failed"] == [[0, 1, 3]]
    assert [(e["kind"], e["count"], e.get("first")) for e in aggregates["errors"]] == [
        ("python", 2, [0, 1]),
        ("template", 1, [1]),
    ]


def test_a_run_without_iterations_and_retries_states_nothing() -> None:
    assert RunAggregates().stated() is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("order", ["up", "down", "random", "every other", "all"])
def test_aggregates_of_many_different_failures_are_bounded_and_complete(order: str) -> None:
    count = 20_000
    numbers = list(range(0, count, 1 if order == "all" else 2))
    if order == "down":
        numbers.reverse()
    elif order in ("random", "all"):
        random.Random(7).shuffle(numbers)
    words = [f"{'abcdefghijklmnopqrstuvwxyz'[n % 26]}{'xyz'[n // 26 % 3] * (n % 400)} {n}" for n in numbers]
    aggregates = folded([ended([n], n, {"kind": "x", "message": word}) for n, word in zip(numbers, words, strict=True)])
    assert len(json.dumps(aggregates)) < 16_000
    assert len(aggregates["errors"]) == MAX_GROUPS
    assert failures(aggregates) == len(numbers)
    ranges = aggregates["failed"]
    assert len(ranges) <= MAX_RANGES
    assert sum(failed for _, _, failed in ranges) == len(numbers)
    assert all(one[1] < other[0] for one, other in pairwise(ranges))
    assert ranges[0][0] == 0 and ranges[-1][1] == max(numbers)
    if order == "all":
        assert ranges == [[0, count - 1, count]]


def test_ranges_far_apart_stay_apart() -> None:
    ranges: list[list[int]] = []
    for block in range(10):
        for n in random.Random(block).sample(range(0, 200, 2), 60):
            fail(ranges, block * 100_000 + n)
    found = condensed(ranges, 10)
    assert [first // 100_000 for first, _, _ in found] == list(range(10))
    assert [failed for _, _, failed in found] == [60] * 10


def test_merged_aggregates_of_chunks_equal_those_of_one_run() -> None:
    choose = random.Random(3)
    events = []
    for n in range(1_000):
        error = {"kind": choose.choice("abc"), "message": "no"} if choose.random() < 0.02 else None
        events.append([started([n], 0), ended([n], choose.randrange(100_000), error)])
    parts = [folded([e for pair in events[first : first + 100] for e in pair]) for first in range(0, 1_000, 100)]
    together: Aggregates | None = None
    for part in parts:
        before = json.dumps(part)
        together = merged(together, part)
        assert json.dumps(part) == before, "payloads are not changed"
    assert together == folded([e for pair in events for e in pair])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chunk", [1, 7, 100, 5_000])
def test_cells_count_every_iteration_once_however_the_loop_is_cut(chunk: int) -> None:
    """The chunks of a loop, added one by one, say what one run of all of them says."""
    total = 5_000
    failing = set(range(0, total, 137))
    wrong = {"kind": "x", "message": "no"}
    every = [(started([n], 0), ended([n], n % 50, wrong if n in failing else None)) for n in range(total)]
    together: Aggregates | None = None
    for first in range(0, total, chunk):
        together = merged(together, folded([event for pair in every[first : first + chunk] for event in pair]))
    assert together is not None
    cells = together["cells"]
    assert len(cells["at"]) <= MAX_CELLS
    width = 1 << cells["bits"]
    for key, (count, failed, took, longest) in cells["at"].items():
        within = range(int(key) * width, min((int(key) + 1) * width, total))
        assert (count, failed) == (len(within), len(failing & set(within)))
        assert (took, longest) == (sum(n % 50 for n in within), max(n % 50 for n in within))
    assert sum(counts[0] for counts in cells["at"].values()) == total
