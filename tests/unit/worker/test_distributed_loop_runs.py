"""Distributed loops: the lead slices the collection, chunks run their part of it, the log is read back by iteration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from noetl_core.engine import ids
from noetl_core.engine.loops import slice_key
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Command
from noetl_core.tools.base import ToolCall
from noetl_core.worker.claiming.journal import LEASE_S
from noetl_core.worker.loops.chunks import iteration_seconds
from tests.sim.ports import SimResults

from .one_run import OneRun, echo, fail_at, loop, on_error, otherwise, task

BODY = task("a", result="{{ iter.i }}")


def chunks_of(run: OneRun) -> list[OneRun]:
    """Carries out every chunk the lead asked for, each as a run of its own."""
    plan = run.last.data["loop"]
    out = []
    for chunk in range(plan["chunks"]):
        one = OneRun(run.step, run.script, run.root, run.workload, run.ctx, run_id=ids.chunk_run_id("7", run.run_id, chunk))
        one.results, one.calls = run.results, run.calls
        command = one.command(chunk=chunk, loop={**plan, "run": run.run_id})
        assert isinstance(command, Command)
        assert one.worker().handle(command).kind == "done"
        out.append(one)
    return out


def test_the_lead_slices_and_the_chunks_run_their_items_with_absolute_indexes() -> None:
    block = loop(
        "{{ range(10) | list }}", max_in_flight=4, chunk_size=4, policy={"exec": "distributed", "reducers": {"k": "append"}}
    )
    body = task("a", otherwise(set_ctx={"k": "{{ iter.index }}"}), result="{{ iter.i * 10 }}")
    run = OneRun({"loop": block, "tool": body})
    assert run.handle().kind == "suspended"
    plan = run.last.data["loop"]
    assert {k: plan[k] for k in ("total", "chunk_size", "chunks", "tolerated")} == {
        "total": 10,
        "chunk_size": 4,
        "chunks": 3,
        "tolerated": 0,
    }
    assert plan["window"] * plan["per_chunk"] <= 4
    assert json.loads(run.results.objects[slice_key("7", "r1", 2, plan)]) == [8, 9]
    assert run.calls == []
    chunks = chunks_of(run)
    assert [c.last.data["result"] for c in chunks] == [[0, 10, 20, 30], [40, 50, 60, 70], [80, 90]]
    assert [(c.last.data["first"], c.last.data["count"]) for c in chunks] == [(0, 4), (4, 4), (8, 2)]
    assert [w for c in chunks for w in c.last.data["ctx_writes"]] == [[i, {"k": i}] for i in range(10)]
    assert {c.task_run_id for c in run.calls} == {
        run.key("a", 1, (i,)) for i in range(10)
    }  # keys of the step run, not of the chunk
    assert chunks[1].named("StepStarted")[0]["chunk"] == 1


def test_a_parallel_loop_with_a_waiting_body_gets_one_item_per_chunk() -> None:
    run = OneRun({"loop": loop([1, 2, 3]), "tool": {"kind": "wait", "duration": 600}})
    run.handle()
    assert run.last.data["loop"]["chunk_size"] == 1


def test_a_sequential_loop_stays_with_one_worker() -> None:
    run = OneRun({"loop": loop([1, 2], "sequential", policy={"exec": "distributed"}), "tool": BODY})
    assert run.handle().kind == "done"


def test_a_chunk_reports_its_failure_and_its_break() -> None:
    block = loop("{{ range(6) | list }}", max_in_flight=1, chunk_size=3, policy={"exec": "distributed"})
    body = task(
        "a",
        {"when": "{{ iter.i == 4 }}", "then": {"do": "break", "scope": "loop"}},
        on_error("fail"),
        otherwise(),
        result="{{ iter.i }}",
    )
    run = OneRun({"loop": block, "tool": body}, fail_at(1))
    run.handle()
    first, second = chunks_of(run)
    assert first.last.data["error"]["iteration"] == [1]
    assert (second.last.data["broke"], second.last.data["succeeded"]) == (True, 2)


def test_the_log_of_an_iteration_is_read_back_page_by_page() -> None:
    """A takeover of a long loop reads its stream in pages and runs nothing twice."""
    from tests.sim.ports import Crash

    def script(call: ToolCall) -> Outcome:
        if len(run.calls) == 150:
            raise Crash
        run.wait(1.1)
        return echo(call)

    run = OneRun({"loop": loop("{{ range(200) | list }}", "sequential"), "tool": BODY}, script)
    with pytest.raises(Crash):
        run.handle()
    run.wait(61)
    assert len(run.commits) > 64
    assert run.handle("takeover").kind == "done"
    assert run.last.data["result"] == list(range(200))
    assert len(run.calls) == 201
    assert sorted(d["path"] for d in run.named("LoopIterationCompleted")) == [[i] for i in range(200)]


def test_a_thawed_lead_writes_over_no_slice_of_its_successor() -> None:
    """The successor cuts other slices, because it knows by then how long iterations take."""
    run = OneRun({"loop": loop("{{ range(200) | list }}", max_in_flight=2, policy={"exec": "distributed"}), "tool": BODY})
    frozen: list[bool] = []

    class Freezing(SimResults):
        def put(self, key: str, body: bytes, content_type: str = "application/json") -> Mapping[str, Any]:
            if "/loops/" in key and not frozen:
                frozen.append(True)
                run.wait(LEASE_S + 5)
                iteration_seconds(run.playbook)["work"] = 20.0
                assert run.handle().kind == "suspended"
            return super().put(key, body, content_type)

    run.results = Freezing(run.faults)
    assert run.handle().kind == "dropped"
    plan = run.last.data["loop"]
    stored = [json.loads(run.results.objects[slice_key("7", "r1", n, plan)]) for n in range(plan["chunks"])]
    assert [item for items in stored for item in items] == list(range(200))
    assert frozen
