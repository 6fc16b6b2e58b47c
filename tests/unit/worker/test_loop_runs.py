"""Loops in the worker: windows, isolation, failure modes and nesting."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from noetl_core.dsl.numbers import LOOP_ITEMS
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.worker.run_tree import RESULTS_PAGE

from .one_run import OneRun, echo, fail_at, loop, on_error, otherwise, task


def counts(run: OneRun) -> tuple[int, int, int]:
    told = run.last.data
    return told["total"], told["succeeded"], told["failed"]


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_results_are_in_index_order_and_the_collection_is_recorded(mode: str) -> None:
    run = OneRun(
        {"loop": loop("{{ workload.xs }}", mode), "tool": task("a", result="{{ [iter.index, iter.i] }}")},
        workload={"xs": ["a", "b", "c"]},
    )
    assert run.handle().kind == "done"
    assert run.last.name == "LoopChunkDone"
    assert run.last.data == {"total": 3, "succeeded": 3, "failed": 0, "result": [[0, "a"], [1, "b"], [2, "c"]]}
    assert run.named("LoopCollected") == [{"total": 3, "items": ["a", "b", "c"]}]
    assert sorted(d["path"] for d in run.named("LoopIterationStarted")) == [[0], [1], [2]]
    assert sorted(d["path"] for d in run.named("LoopIterationCompleted")) == [[0], [1], [2]]
    assert {c.task_run_id for c in run.calls} == {run.key("a", 1, (i,)) for i in range(3)}


@pytest.mark.parametrize(
    ("collection", "result"),
    [([], []), ("{{ {'k': 1} }}", [{"key": "k", "value": 1}]), ("{{ range(2) | list }}", [0, 1])],
)
def test_lists_and_mappings_can_be_looped_over(collection: Any, result: Any) -> None:
    run = OneRun({"loop": loop(collection), "tool": task("a", result="{{ iter.i }}")})
    run.handle()
    assert run.last.data["result"] == result


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (loop("{{ 'text' }}"), "schema"),
        (loop("{{ nothing }}"), "template"),
        (loop("{{ 1 / 0 }}"), "template"),
        (loop("{{ [1] }}", max_in_flight="{{ 'many' }}"), "schema"),
    ],
)
def test_a_loop_that_cannot_begin_fails_the_step(block: Any, kind: str) -> None:
    run = OneRun({"loop": block, "tool": task("a")})
    assert run.handle().kind == "done"
    assert run.last.name == "StepFailed"
    assert run.last.data["error"]["kind"] == kind


def test_a_large_collection_is_a_reference() -> None:
    run = OneRun(
        {"loop": loop("{{ workload.xs }}"), "tool": task("a", result="{{ iter.i | length }}")}, workload={"xs": ["x" * 100] * 200}
    )
    run.handle()
    (collected,) = run.named("LoopCollected")
    assert run.value(collected["items"]) == ["x" * 100] * 200
    assert run.last.data["result"] == [100] * 200


@pytest.mark.parametrize(("limit", "kind"), [(1, "http"), (3, "http"), (7, "http"), (4, "noop")])
def test_concurrency_reaches_the_limit_and_never_exceeds_it(limit: int, kind: str) -> None:
    lock, now, peak = threading.Lock(), 0, 0

    def script(call: ToolCall) -> Outcome:
        nonlocal now, peak
        with lock:
            now += 1
            peak = max(peak, now)
        if kind == "http":
            time.sleep(0.004)
        with lock:
            now -= 1
        return Outcome.ok(call.inputs.get("params"))

    body = {"name": "a", "kind": kind, **({"url": "http://x", "params": {"i": "{{ iter.i }}"}} if kind == "http" else {})}
    run = OneRun({"loop": loop("{{ range(30) | list }}", max_in_flight=limit), "tool": body}, script)
    run.handle()
    assert counts(run) == (30, 30, 0)
    assert peak == (limit if kind == "http" else 1)  # tasks that never block run on the driver's own thread
    live = highest = 0
    for name in run.names:
        live += (name == "LoopIterationStarted") - (name == "LoopIterationCompleted")
        highest = max(highest, live)
    assert highest == limit


def test_a_sleeping_retry_does_not_wait_for_the_others() -> None:
    """An iteration whose retry is due continues while others still run."""
    order: list[str] = []

    def script(call: ToolCall) -> Outcome:
        i = call.inputs["params"]["i"]
        if i == 0 and call.attempt == 1:
            return Outcome.failed("server_error", "again")
        if i == 1:
            retried.wait(5)
        if i == 0:
            retried.set()
        order.append(f"{i}.{call.attempt}")
        return echo(call)

    retried = threading.Event()
    rules = on_error("retry", attempts=2, delay=0.01)
    body = task("a", rules, kind="http", url="http://x", params={"i": "{{ iter.i }}"})
    run = OneRun({"loop": loop("{{ [0, 1] }}", max_in_flight=2), "tool": body}, script)

    def tick() -> None:
        while not retried.is_set():
            run.wait(0.01)
            time.sleep(0.001)

    ticking = threading.Thread(target=tick)
    ticking.start()
    run.handle()
    ticking.join()
    assert order == ["0.2", "1.1"]


SUM = task("a", otherwise(set_ctx={"total": "{{ (ctx.total | default(0)) + iter.i }}"}), result="{{ ctx.total | default(0) }}")


def test_a_sequential_loop_writes_through() -> None:
    run = OneRun({"loop": loop([1, 2, 3], "sequential"), "tool": SUM}, ctx={"total": 10})
    run.handle()
    assert run.last.data["result"] == [10, 11, 13]
    assert run.last.data["set_ctx"] == {"total": 16}


def test_iterations_of_a_parallel_loop_do_not_see_each_other_and_conflicts_fail() -> None:
    run = OneRun({"loop": loop([1, 2]), "tool": SUM}, ctx={"total": 10})
    run.handle()
    assert run.last.data["error"]["kind"] == "ctx_conflict"
    assert "ctx.total" in run.last.data["error"]["message"]
    assert "set_ctx" not in run.last.data


@pytest.mark.parametrize(
    ("reducer", "expected"),
    [("last", 30), ("sum", 160), ("append", None), ("max", 100), ("min", 10), ("count", 103)],
)
def test_reducers_combine_in_index_order_with_the_value_in_ctx(reducer: str, expected: Any) -> None:
    body = task("a", otherwise(set_ctx={"k": "{{ iter.i * 10 }}"}))
    run = OneRun({"loop": loop([1, 2, 3], policy={"reducers": {"k": reducer}}), "tool": body}, ctx={"k": 100})
    run.handle()
    if expected is None:
        assert run.last.data["error"]["kind"] == "ctx_conflict"
    else:
        assert run.last.data["set_ctx"] == {"k": expected}


def test_a_reducer_reads_a_value_that_has_become_a_reference() -> None:
    body = task("a", otherwise(set_ctx={"k": "{{ 'y' * 50 }}"}))
    run = OneRun({"loop": loop([1, 2], policy={"reducers": {"k": "append"}}), "tool": body})
    ref = {**run.results.put("7/values/old.json", json.dumps(["x"]).encode())}
    run.ctx = {"k": ref}
    run.handle()
    assert run.last.data["set_ctx"] == {"k": ["x", "y" * 50, "y" * 50]}


def test_iter_is_each_iterations_own() -> None:
    body = [task("a", otherwise(set_iter={"n": "{{ iter.i }}"})), task("b", result="{{ iter.n }}")]
    run = OneRun({"loop": loop([5, 6, 7]), "tool": body})
    run.handle()
    assert run.last.data["result"] == [5, 6, 7]


BODY = task("a", result="{{ iter.i }}")


def test_fail_fast_hands_out_no_more_and_fails_with_the_iterations_error() -> None:
    run = OneRun({"loop": loop("{{ range(20) | list }}", max_in_flight=2), "tool": BODY}, fail_at(3))
    run.handle()
    error = run.last.data["error"]
    assert (error["kind"], error["message"], error["iteration"]) == ("server_error", "no 3", [3])
    assert len(run.calls) <= 6
    assert run.last.data["succeeded"] + run.last.data["failed"] == len(run.named("LoopIterationCompleted"))


def test_best_effort_runs_all_and_counts() -> None:
    step = {"loop": loop("{{ range(6) | list }}", policy={"failure": {"mode": "best_effort"}}), "tool": BODY}
    run = OneRun(step, fail_at(1, 4))
    run.handle()
    assert counts(run) == (6, 4, 2)
    assert "error" not in run.last.data
    assert run.last.data["result"] == [0, None, 2, 3, None, 5]


@pytest.mark.parametrize(("failing", "fails"), [((1, 4), False), ((1, 4, 6), True)])
def test_tolerated_failures(failing: tuple[int, ...], fails: bool) -> None:
    policy = {"failure": {"mode": "fail_fast", "tolerated_percent": 20}}
    run = OneRun({"loop": loop("{{ range(10) | list }}", "sequential", policy=policy), "tool": BODY}, fail_at(*failing))
    run.handle()
    assert ("error" in run.last.data) is fails


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_break_of_scope_loop_ends_the_loop_early_and_well(mode: str) -> None:
    body = task("a", {"when": "{{ iter.i == 2 }}", "then": {"do": "break", "scope": "loop"}}, otherwise(), result="{{ iter.i }}")
    run = OneRun({"loop": loop("{{ range(50) | list }}", mode, max_in_flight=1), "tool": body})
    run.handle()
    assert counts(run) == (50, 3, 0)
    assert "error" not in run.last.data
    assert run.last.data["result"][:4] == [0, 1, 2, None]


def test_three_levels_and_pagination_by_jump() -> None:
    """parallel x sequential x pages, with `iter.parent.parent` (canonical step spec 6.4)."""
    innermost = loop("{{ range(2) | list }}", "parallel", iterator="c")
    block = loop(
        "{{ range(3) | list }}",
        "parallel",
        loop("{{ range(iter.a + 1) | list }}", "sequential", innermost, iterator="b"),
        iterator="a",
    )
    body = [
        task("init", otherwise(set_iter={"page": 1})),
        task("fetch", result="{{ [iter.parent.parent.a, iter.parent.b, iter.c, iter.page] }}"),
        task(
            "paginate",
            {"when": "{{ iter.page < 2 }}", "then": {"do": "jump", "to": "fetch", "set_iter": {"page": "{{ iter.page + 1 }}"}}},
            otherwise("break", set_prev="{{ fetch }}"),
        ),
    ]
    run = OneRun({"loop": block, "tool": body})
    run.handle()
    assert run.last.data["result"] == [[[[a, b, c, 2] for c in range(2)] for b in range(a + 1)] for a in range(3)]
    assert counts(run) == (12, 12, 0)
    assert len([c for c in run.calls if c.task == "fetch"]) == 2 * 2 * (1 + 2 + 3)
    assert len({c.task_run_id for c in run.calls}) == len(run.calls)


def test_the_failure_of_an_inner_loop_is_that_of_the_iteration_around_it() -> None:
    block = loop([0, 1], "sequential", loop("{{ [iter.a * 2, iter.a * 2 + 1] }}", "sequential", iterator="i"), iterator="a")
    run = OneRun({"loop": block, "tool": BODY}, fail_at(3))
    run.handle()
    assert run.last.data["error"]["iteration"] == [1, 1]
    assert counts(run) == (4, 3, 1)


def test_writes_of_nested_loops_reach_ctx() -> None:
    block = loop(
        [1, 2],
        "parallel",
        loop([1, 2], "parallel", iterator="i", policy={"reducers": {"n": "sum"}}),
        iterator="a",
        policy={"reducers": {"n": "sum"}},
    )
    run = OneRun({"loop": block, "tool": task("x", otherwise(set_ctx={"n": "{{ iter.i }}"}))})
    run.handle()
    assert run.last.data["set_ctx"] == {"n": 6}


def test_a_parallel_loop_suspends_once_all_its_live_iterations_wait() -> None:
    body = [{"name": "w", "kind": "callback", "signal": "s{{ iter.i }}"}, task("b", result="{{ w }}")]
    run = OneRun({"loop": loop("{{ range(5) | list }}", max_in_flight=3, policy={"exec": "local"}), "tool": body})
    assert run.handle().kind == "suspended"
    assert [w["signal"] for w in run.last.data["waits"]] == ["s0", "s1", "s2"]
    assert [w["iteration"] for w in run.last.data["waits"]] == [[0], [1], [2]]
    run.resume({}, {"kind": "signal", "data": "one"})  # answers the second; the timer-less first gets an empty one
    waits = [w["signal"] for w in run.last.data["waits"]]
    assert waits == ["s2", "s3", "s4"]
    run.resume(*({"kind": "signal", "data": w} for w in waits))
    assert run.last.data["result"] == [None, "one", "s2", "s3", "s4"]
    assert len(run.named("LoopIterationStarted")) == 5


def test_a_child_in_an_iteration_is_handed_its_iter() -> None:
    body = {"name": "c", "kind": "playbook", "path": "lib/child", "args": {"x": "{{ iter.i }}"}}
    run = OneRun({"loop": loop(["a"], policy={"exec": "local"}), "tool": body})
    run.handle()
    (wait,) = run.last.data["waits"]
    assert (wait["path"], wait["iteration"], wait["iter"]) == ("lib/child", [0], {"i": "a", "index": 0})
    child = OneRun({"tool": task("a", result="{{ iter.parent.i }}")}, workload={"iter": wait["iter"]})
    child.handle()
    assert child.last.data["result"] == "a"


def test_a_suspended_sequential_loop_keeps_its_ctx_writes() -> None:
    body = [SUM, {"name": "w", "kind": "wait", "duration": 60}]
    run = OneRun({"loop": loop([1, 2, 3], "sequential", policy={"exec": "local"}), "tool": body})
    run.handle()
    for _ in range(3):
        run.wait(61)
        run.resume({})
    assert run.last.name == "LoopChunkDone"
    assert run.last.data["set_ctx"] == {"total": 6}
    assert len(run.calls) == 3


def test_a_pause_between_iterations_keeps_finished_iterations() -> None:
    from noetl_core.ports import Gate

    def script(call: ToolCall) -> Outcome:
        if len(run.calls) == 4:
            run.gates.set_gate("7", Gate("pause"))
            run.wait(2)
        return echo(call)

    run = OneRun({"loop": loop("{{ range(9) | list }}", max_in_flight=2), "tool": BODY}, script)
    assert run.handle().kind == "suspended"
    assert len(run.calls) == 4
    run.gates.set_gate("7", Gate())
    run.resume({"kind": "pause"})
    assert run.last.data["result"] == list(range(9))
    assert len(run.calls) == 9


@pytest.mark.nightly
def test_many_large_results_go_to_the_store_in_pages() -> None:
    total = 2 * RESULTS_PAGE + 10
    run = OneRun(
        {"loop": loop("{{ range(workload.n) | list }}"), "tool": task("a", result="{{ 'r' * 100 ~ iter.i }}")},
        workload={"n": total},
    )
    run.handle()
    ref = run.last.data["result"]
    assert ref["schema_hint"] == "manifest"
    assert run.value(ref) == [f"{'r' * 100}{i}" for i in range(total)]
    assert len([k for k in run.results.objects if "-page-" in k]) == 2


def test_a_collection_that_is_too_long_is_refused_with_advice() -> None:
    run = OneRun({"loop": loop("{{ workload.xs }}"), "tool": task("a")}, workload={"xs": [0] * (LOOP_ITEMS + 1)})
    run.handle()
    assert run.last.name == "StepFailed"
    error = run.last.data["error"]
    assert error["kind"] == "limit"
    assert "loop.in has 1,000,001 items, and a loop takes at most 1,000,000: loop over parts of it" in error["message"]
    assert run.calls == []
