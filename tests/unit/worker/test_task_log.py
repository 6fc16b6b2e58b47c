"""The output of tasks: its end inline, all of it by reference, as far as it is kept."""

from __future__ import annotations

import json

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.worker.values.task_log import KEPT, TAIL, TaskLog


def test_a_short_log_is_inline_by_stream() -> None:
    log = TaskLog()
    assert not log
    log("one")
    log("oh", "stderr")
    log("two")
    assert log.record(LazyTempResultStore(), "1/logs/t-1.json") == {"stdout": "one\ntwo", "stderr": "oh"}


def test_a_long_log_keeps_its_end_inline_and_the_whole_by_reference() -> None:
    log, results = TaskLog(), LazyTempResultStore()
    for n in range(2_000):
        log(f"line {n}")
    record = log.record(results, "1/logs/t-1.json")
    assert len(record["stdout"]) == TAIL
    assert record["stdout"].endswith("line 1999")
    whole = json.loads(results.get(record["more"]["key"]))
    assert whole["stdout"].splitlines() == [f"line {n}" for n in range(2_000)]


def test_an_endless_log_stays_bounded_and_counts_its_dropped_characters() -> None:
    log, results = TaskLog(), LazyTempResultStore()
    for n in range(30_000):
        log(f"{n:0100}", "stderr")
    log("x" * (2 * KEPT))
    record = log.record(results, "1/logs/t-1.json")
    whole = json.loads(results.get(record["more"]["key"]))
    assert all(len(text) <= KEPT for text in whole.values())
    assert record["dropped"] > 1_000_000
    assert record["stderr"].endswith(f"{29_999:0100}")
