"""Hand-over of the rest of a loop: its time, and the iterations."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from noetl_core.engine.loops import LEFT_S, MEASURED_S, SpreadRule, chunk_of, chunk_plan, chunk_range, slice_key
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.worker.loops.processor import processor_seconds, processors
from tests.sim.ports import SECOND

from .one_run import OneRun, loop, on_error, otherwise, task


def spreading(block: dict[str, Any], *tasks: dict[str, Any], seconds: float = 0.2, **more: Any) -> OneRun:
    """A run whose tasks take `seconds` each, one after the other."""

    def script(call: ToolCall) -> Outcome:
        run.wait(seconds)
        return Outcome.ok(call.inputs.get("result"))

    run = OneRun({"loop": block, "tool": [*tasks] or task("a", result="{{ iter.i }}")}, script, spread=SpreadRule(busy=0), **more)
    return run


def test_a_short_loop_stays_and_a_long_one_is_handed_over_once_it_was_measured() -> None:
    short = spreading(loop("{{ range(100) }}", max_in_flight=2))
    assert short.handle().kind == "done"
    long = spreading(loop("{{ range(500) }}", max_in_flight=2))
    handled = long.handle()
    assert (handled.kind, long.last.name) == ("spread", "StepSuspended")
    plan = long.last.data["loop"]
    assert MEASURED_S / 0.2 <= plan["first"] <= MEASURED_S / 0.2 + 3, "what had begun has ended"
    assert len(long.calls) == plan["first"] == long.last.data["succeeded"]
    assert long.last.data["result"] == list(range(plan["first"]))
    assert (long.last.data["waits"], plan["total"]) == ([], 500)
    assert str(plan["first"]) in handled.reason
    assert f"{500 - plan['first']} that are left go to {plan['chunks'] - 1} chunks" in handled.reason
    assert (500 - plan["first"]) * 0.2 > LEFT_S


def test_the_slices_of_all_chunks_are_stored_under_the_cut_they_belong_to() -> None:
    run = spreading(loop("{{ range(500) }}", max_in_flight=2))
    run.handle()
    plan = run.last.data["loop"]
    stored = [json.loads(run.results.objects[slice_key("7", "r1", n, plan)]) for n in range(plan["chunks"])]
    assert [item for items in stored for item in items] == list(range(500))
    elsewhere = plan.copy()
    elsewhere["first"] += 1
    assert slice_key("7", "r1", 1, plan) != slice_key("7", "r1", 1, elsewhere)


@pytest.mark.parametrize("first", [None, 1, 7, 99])
def test_every_item_is_in_exactly_one_chunk(first: int | None) -> None:
    left = chunk_plan(100 - (first or 0), 4, 6)
    plan = left.as_dict() if first is None else left.after(first, 0.1)
    ranges = [chunk_range(plan, n) for n in range(plan["chunks"])]
    assert [i for one in ranges for i in one] == list(range(100))
    assert all(chunk_of(plan, i) == n for n, one in enumerate(ranges) for i in one)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "block",
    [
        loop("{{ range(500) }}", "sequential"),
        loop("{{ range(500) }}", max_in_flight=1),
        loop("{{ range(500) }}", max_in_flight=2, policy={"exec": "local"}),
        loop("{{ range(2) }}", max_in_flight=2, inner=loop("{{ range(250) }}", max_in_flight=2)),
    ],
    ids=["sequential", "one in flight", "local", "only the inner loop is long"],
)
def test_loops_that_cannot_be_spread_stay_on_their_worker(block: dict[str, Any]) -> None:
    run = spreading(block)
    assert run.handle().kind == "done"
    assert len(run.calls) == 500


def test_a_loop_stays_where_there_are_no_other_workers() -> None:
    run = spreading(loop("{{ range(500) }}", max_in_flight=2, policy={"exec": "auto"}))
    run.spread = None
    assert run.handle().kind == "done"


def test_elements_with_a_loop_inside_are_handed_over() -> None:
    block = loop("{{ range(100) }}", max_in_flight=2, inner=loop("{{ range(5) }}", "sequential", iterator="j"))
    run = spreading(block, task("a", result="{{ iter.j }}"))
    assert run.handle().kind == "spread"
    first = run.last.data["loop"]["first"]
    assert run.last.data["innermost"] == {"total": 5 * first, "succeeded": 5 * first, "failed": 0}


def test_a_loop_that_outlasts_its_invocation_is_handed_over_though_little_is_left() -> None:
    run = spreading(loop("{{ range(100) }}", max_in_flight=2))
    assert run.handle(deadline=run.clock.time + 45 * SECOND).kind == "spread"


def test_iterations_that_wait_for_a_retry_hold_no_others_back() -> None:
    def script(call: ToolCall) -> Outcome:
        run.wait(0.2)
        if call.inputs["result"] == 14 and call.attempt == 1:
            return Outcome.failed("server_error", "later", retryable=True)
        return Outcome.ok(call.inputs["result"])

    rules = [on_error("retry", attempts=3, delay=600), otherwise()]
    run = OneRun(
        {"loop": loop("{{ range(500) }}", max_in_flight=2), "tool": task("a", *rules, result="{{ iter.i }}")},
        script,
        spread=SpreadRule(busy=0),
    )
    assert run.handle().kind == "suspended"
    assert len(run.calls) == 500, "all others have run; none waits for the one that is tried again in ten minutes"
    run.wait(601)
    assert run.resume({}).kind == "done"
    assert run.last.data["result"] == list(range(500))


def test_a_takeover_finishes_begun_iterations_and_hands_over_the_rest() -> None:
    from tests.sim.ports import Crash

    def script(call: ToolCall) -> Outcome:
        if len(run.calls) == 10:
            raise Crash
        run.wait(0.4)
        return Outcome.ok(call.inputs["result"])

    run = OneRun(
        {"loop": loop("{{ range(500) }}", max_in_flight=3), "tool": task("a", result="{{ iter.i }}")},
        script,
        spread=SpreadRule(busy=0),
    )
    with pytest.raises(Crash):
        run.handle()
    run.wait(61)
    assert run.handle("takeover").kind == "spread"
    plan = run.last.data["loop"]
    assert run.last.data["result"] == list(range(plan["first"]))
    assert sorted(d["path"] for d in run.named("LoopIterationCompleted")) == [[i] for i in range(plan["first"])]


def test_a_loop_that_waits_for_others_stays_until_its_invocation_ends() -> None:
    """With `max_in_flight` in force over all workers, others make it no faster."""
    run = spreading(loop("{{ range(500) }}", max_in_flight=2))
    run.spread = SpreadRule()
    assert run.handle().kind == "done"


def test_busy_loops_use_the_whole_window_and_waiting_loops_fewer_workers() -> None:
    busy = spreading(loop("{{ range(500) }}", max_in_flight=10))
    assert busy.handle().kind == "spread"
    plan = busy.last.data["loop"]
    assert (plan["window"], plan["per_chunk"]) == (10, 1)
    waits = spreading(loop("{{ range(500) }}", max_in_flight=10))
    waits.spread = SpreadRule()
    assert waits.handle(deadline=waits.clock.time + 60 * SECOND).kind == "spread"
    plan = waits.last.data["loop"]
    assert plan["window"] * plan["per_chunk"] == 10
    assert plan["per_chunk"] > 1


@pytest.mark.parametrize(("share", "became"), [(0.9, "spread"), (0.1, "done")])
def test_only_a_loop_that_keeps_the_processor_busy_is_handed_over(
    share: float, became: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = spreading(loop("{{ range(500) }}", max_in_flight=2))
    run.spread = SpreadRule()
    monkeypatch.setattr("noetl_core.worker.loops.spread.processors", lambda: 2.0)
    monkeypatch.setattr("noetl_core.worker.loops.spread.processor_seconds", lambda: run.clock.time / SECOND * 2 * share)
    assert run.handle().kind == became


def test_a_short_loop_does_not_measure_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def measured() -> float:
        asked.append(0.0)
        return asked[-1]

    monkeypatch.setattr("noetl_core.worker.loops.spread.processor_seconds", measured)
    run = spreading(loop("{{ range(100) }}", max_in_flight=2))
    run.spread = SpreadRule()
    run.handle()
    assert asked == []


def test_processor_time_counts_the_processes_that_were_started(monkeypatch: pytest.MonkeyPatch) -> None:
    before = processor_seconds()
    subprocess.run([sys.executable, "-c", "sum(i * i for i in range(3_000_000))"], check=True)
    assert processor_seconds() - before >= 0.05
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "885")
    assert 0 < processors() <= 885 / 1769


def test_writes_to_ctx_go_with_the_first_chunk() -> None:
    block = loop("{{ range(500) }}", max_in_flight=2, policy={"reducers": {"k": "append"}})
    run = spreading(block, task("a", otherwise(set_ctx={"k": "{{ iter.index }}"}), result="{{ iter.i }}"))
    run.handle()
    assert run.last.data["ctx_writes"] == [[n, {"k": n}] for n in range(run.last.data["loop"]["first"])]
    assert "set_ctx" not in run.last.data


def test_a_wrong_chunk_size_fails_before_anything_runs() -> None:
    run = spreading(loop("{{ range(5) }}", max_in_flight=2, chunk_size="{{ 'some' }}"))
    run.handle()
    assert (run.last.name, run.calls) == ("StepFailed", [])
