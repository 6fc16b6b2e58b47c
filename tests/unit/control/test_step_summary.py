"""The summary of a step: bounded, and read without the streams of its runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.engine.fold.aggregates import RunAggregates
from noetl_core.engine.records import Commit, StreamId, run_events
from noetl_core.log.history import commits_of
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from tests.api_requests import ask
from tests.unit.control.decode_counts import count_decoded
from tests.unit.control.summary_playbooks import HEAD, source

FAILING = {"result": "{{ 1 / (iter.n % 100) if iter.n < 1000 else 1 }}"}
"""Every hundredth of the first thousand."""


def summary(local: LocalWiring, execution_id: str, step: str = "map") -> Any:
    service = Service(lambda: local.control, lambda: b"key")
    return ask(service, "GET", f"/api/executions/{execution_id}/steps/{step}/summary", {})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", ["local", "distributed"])
def test_a_loop_is_summed_up_without_reading_its_streams(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    local = LocalWiring()
    execution_id = local.start(StartRequest(playbook=source(3_000, where, **FAILING))).execution_id
    assert local.run(execution_id)
    control = local.database.rows("SELECT body FROM commits WHERE execution_id=? AND run_id=''", (execution_id,))
    decoded = count_decoded(monkeypatch)
    answer = summary(local, execution_id)
    local.close()
    assert set(decoded) <= {body for (body,) in control}
    assert len(answer.sent) < 40_000
    found = answer.body
    assert found["status"] == "ok" and found["open"] == 0 and found["runs"]["count"] == 1
    assert found["loop"] == {"total": 3_000, "succeeded": 2_990, "failed": 10}
    iterations = found["iterations"]
    assert iterations["count"] == sum(group["count"] for group in iterations["histogram"]) == 3_000
    assert iterations["failed"] == [{"first": n, "last": n, "failed": 1} for n in range(0, 1_000, 100)]
    (error,) = iterations["errors"]
    assert (error["kind"], error["count"], error["first"]) == ("template", 10, [0])
    times = iterations["duration_ms"]
    assert 0 < times["p50"] <= times["p95"] and times["max"] > 0 and times["mean"] <= times["max"]


def test_a_loop_under_way_says_how_far_it_is() -> None:
    """Its counts are those of the newest commit of its run; its durations may be a second older."""
    local = LocalWiring()
    local.worker.most_buffered = 100
    seen: list[Any] = []

    def look(commit: Commit) -> None:
        if commit.stream.run_id is not None and not commit.wake:
            seen.append(summary(local, commit.stream.execution_id).body)

    local.observe(look)
    execution_id = local.start(StartRequest(playbook=source(300, "local", **FAILING))).execution_id
    assert local.run(execution_id)
    local.observe(None)
    local.close()
    counts = [found["loop"]["succeeded"] + found["loop"]["failed"] for found in seen if "loop" in found]
    assert len(counts) > 5 and counts == sorted(counts) and counts[-1] > 200
    assert all(found["loop"]["total"] == 300 for found in seen if "loop" in found)
    timed = [found["iterations"]["count"] for found in seen if "loop" in found]
    assert timed == sorted(timed) and 0 < timed[0] == counts[0]
    assert all(earlier <= count for earlier, count in zip(timed, counts, strict=True))
    assert seen[0]["open"] == seen[len(counts) // 2]["open"] == 1


def test_the_aggregates_of_a_boundary_equal_the_fold_of_its_stream() -> None:
    local = LocalWiring()
    execution_id = local.start(StartRequest(playbook=source(500, "local", **FAILING))).execution_id
    assert local.run(execution_id)
    (run,) = [
        r
        for (r,) in local.database.rows("SELECT DISTINCT run_id FROM commits WHERE run_id!=''")
        if _is_loop(local, execution_id, r)
    ]
    events = [e for commit in commits_of(local.store, StreamId(execution_id, run)) for e in run_events(commit)]
    folded = RunAggregates()
    for event in events:
        folded.observe(event)
    state = local.control.load(execution_id)
    local.close()
    stated: Any = events[-1].data
    assert stated["aggregates"] == folded.stated() == state.steps["map"].iterations


def _is_loop(local: LocalWiring, execution_id: str, run: str) -> bool:
    last = local.store.last(StreamId(execution_id, run))
    return last is not None and last.events[-1].name == "LoopChunkDone"


def test_runs_of_a_step_are_summed_up_with_their_retries_and_errors() -> None:
    steps = [
        {
            "step": "a",
            "tool": {"kind": "noop", "result": "{{ 1 / 0 }}", "spec": {"policy": {"rules": [{"else": {"then": RETRY}}]}}},
        }
    ]
    local = LocalWiring()
    execution_id = local.start(StartRequest(playbook=HEAD + f"workflow: {json.dumps(steps)}\n")).execution_id
    assert local.run(execution_id)
    found = summary(local, execution_id, "a").body
    missing = summary(local, execution_id, "b")
    local.close()
    assert (found["status"], found["runs"]["count"], found["runs"]["retries"]) == ("error", 1, 2)
    assert [(e["kind"], e["count"]) for e in found["runs"]["errors"]] == [("template", 1)]
    assert "iterations" not in found and "loop" not in found
    assert missing.status == 404


RETRY = {"do": "retry", "attempts": 3, "delay": 0}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", ["local", "distributed"])
def test_iterations_are_summed_up_in_buckets_within_a_small_answer(where: str) -> None:
    local = LocalWiring()
    execution_id = local.start(StartRequest(playbook=source(3_000, where, **FAILING))).execution_id
    assert local.run(execution_id)
    service = Service(lambda: local.control, lambda: b"key")
    path = f"/api/executions/{execution_id}/steps/map/summary"
    found = ask(service, "GET", path, {"buckets": "256"})
    assert len(found.sent) < 40_000
    width, cells = found.body["buckets"]["width"], found.body["buckets"]["cells"]
    assert (width, len(cells)) == (16, 188)
    assert sum(ended for _, ended, *_ in cells) == 3_000
    assert [number * width for number, _, failed, *_ in cells if failed] == [n - n % 16 for n in range(0, 1_000, 100)]
    few = ask(service, "GET", path, {"buckets": "10"}).body["buckets"]
    assert len(few["cells"]) <= 10 and sum(ended for _, ended, *_ in few["cells"]) == 3_000
    assert "buckets" not in ask(service, "GET", path).body
    assert ask(service, "GET", path, {"buckets": "0"}).status == 400
    local.close()
