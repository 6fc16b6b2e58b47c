"""Counts of a nested loop: the iterations of the innermost loop, wherever they failed and whichever loop tolerated it (resolution
9)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.redrive.plan import BadRedrive, From, Redrive
from noetl_core.log.stored_values import Values
from noetl_core.tools.base import ToolCall
from tests.sim.generated_playbooks import playbook
from tests.sim.world import World

from .one_run import OneRun, echo, task

ROWS = [[1, 2, 3], [], [4, 5], [6]]


def fail_at(*results: int) -> Any:
    return lambda call: Outcome.failed("server_error", "no") if call.inputs["result"] in results else echo(call)


def nested(outer: str, inner: str, rows: Any = "{{ iter.row }}", **spec: Any) -> dict[str, Any]:
    """Items of rows, each loop with a failure mode."""
    failing = {"failure": {"mode": outer}, **spec.pop("policy", {})}
    within = {"in": rows, "iterator": "i", "spec": {"policy": {"failure": {"mode": inner}}}}
    return {"in": "{{ workload.rows }}", "iterator": "row", "spec": {"policy": failing, **spec}, "loop": within}


def counts(run: OneRun) -> list[int]:
    return [run.last.data[k] for k in ("total", "succeeded", "failed")]


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
@pytest.mark.parametrize("outer", ["best_effort", "fail_fast"])
def test_failures_that_an_inner_loop_tolerates_are_counted(mode: str, outer: str) -> None:
    step = {"loop": nested(outer, "best_effort", mode=mode), "tool": task("a", result="{{ iter.i }}")}
    run = OneRun(step, script=fail_at(2, 4, 5), workload={"rows": ROWS})
    run.handle()
    assert counts(run) == [6, 3, 3]
    assert run.last.data["result"] == [[1, None, 3], [], [None, None], [6]]
    rows = {d["path"][0]: d["loop"] for d in run.named("LoopIterationCompleted") if len(d["path"]) == 1}
    assert rows[0] == {"total": 3, "succeeded": 2, "failed": 1}
    assert rows[1] == {"total": 0, "succeeded": 0, "failed": 0}


def test_an_iteration_that_fails_before_its_inner_loop_counts_as_one() -> None:
    """The value that its inner loop iterates over is no list."""
    step = {"loop": nested("best_effort", "best_effort"), "tool": task("a", result="{{ iter.i }}")}
    run = OneRun(step, workload={"rows": [[1, 2], "no list", [3]]})
    run.handle()
    assert counts(run) == [4, 3, 1]


def test_an_inner_loop_with_conflicting_writes_counts_as_one_failure() -> None:
    loop = nested("best_effort", "best_effort")
    loop["loop"]["spec"]["mode"] = "parallel"
    run = OneRun({"loop": loop, "tool": task("a", set_ctx={"x": "{{ iter.i }}"})}, workload={"rows": [[1, 2], [3, 3]]})
    run.handle()
    assert counts(run) == [3, 2, 1]


def test_iterations_that_never_began_are_in_the_total_alone() -> None:
    """In the first row one ended well, one failed, one never began; three rows were not examined."""
    step = {"loop": nested("fail_fast", "fail_fast"), "tool": task("a", result="{{ iter.i }}")}
    run = OneRun(step, script=fail_at(2), workload={"rows": ROWS})
    run.handle()
    assert counts(run) == [3 + 3, 1, 1]


def test_the_tolerance_of_a_loop_is_of_its_own_iterations() -> None:
    loop = nested("fail_fast", "fail_fast", policy={"failure": {"mode": "fail_fast", "tolerated_count": 1}})
    run = OneRun({"loop": loop, "tool": task("a", result="{{ iter.i }}")}, script=fail_at(1, 6), workload={"rows": ROWS})
    run.handle()
    assert "error" in run.last.data
    run = OneRun({"loop": loop, "tool": task("a", result="{{ iter.i }}")}, script=fail_at(4), workload={"rows": ROWS})
    run.handle()
    assert "error" not in run.last.data
    assert counts(run) == [6, 4, 1], "the fifth never began"


@pytest.mark.parametrize("where", ["local", "distributed"])
@pytest.mark.parametrize("depth", [2, 3])
def test_failures_of_inner_loops_show_in_the_event_and_in_steps(where: str, depth: int) -> None:
    """Every iteration waits, so the counts pass through suspensions, and through chunks where the loop is distributed."""

    def tool(call: ToolCall) -> Outcome:
        return Outcome.failed("server_error", "no") if str(call.inputs["url"]) in ("http://x/0", "http://x/3") else Outcome.ok(1)

    best = {"policy": {"failure": {"mode": "best_effort"}}}
    loop: dict[str, Any] = {"in": "{{ range(2) | list }}", "iterator": "c", "spec": best}
    for level in range(depth - 2):
        loop = {"in": "{{ range(2) | list }}", "iterator": f"b{level}", "spec": best, "loop": loop}
    spec = {"mode": "parallel", "chunk_size": 1, "policy": {"exec": where}}
    loop = {"in": "{{ range(3) | list }}", "iterator": "a", "spec": spec, "loop": loop}
    a = "iter.parent.a" if depth == 2 else "iter.parent.parent.a"
    body = {"name": "body", "kind": "http", "url": f"http://x/{{{{ {a} * 2 + iter.c }}}}"}
    start = {
        "step": "start",
        "loop": loop,
        "tool": [{"name": "nap", "kind": "wait", "duration": 100}, body],
        "next": {"arcs": [{"step": "told", "args": {"loop": "{{ event.loop }}"}}]},
    }
    told = {"step": "told", "tool": {"kind": "noop", "result": "{{ [args.loop, steps.start.loop] }}"}}

    def answer(call: ToolCall) -> Outcome:
        return tool(call) if call.kind == "http" else Outcome.ok(call.inputs["result"])

    world = World(tool=answer)
    execution_id = world.start(playbook([start, told])).execution_id
    state = world.run(execution_id)
    assert state.status == "completed", state.failure
    each = 2 ** (depth - 2)
    expected = {"total": 6 * each, "succeeded": 4 * each, "failed": 2 * each}
    assert Values(world.store, world.results, execution_id).at(state.result) == [expected, expected]


def test_a_redrive_counts_the_iterations_of_the_outer_loop() -> None:
    """Three rows of four: there is a row 2, and no row 3 - whatever the innermost loop counted."""
    loop = nested("fail_fast", "fail_fast") | {"in": "{{ [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]] }}"}
    start = {"step": "start", "loop": loop, "tool": task("a", result="{{ iter.i }}")}
    world = World(tool=fail_at(12))
    execution_id = world.start(playbook([start])).execution_id
    assert world.run(execution_id).status == "failed"
    world.drain()
    with pytest.raises(BadRedrive, match="3 iterations, 0 to 2"):
        redrive(world.controls[0], execution_id, Redrive(From.parse("start@3")))
    world.tool = echo
    redrive(world.controls[0], execution_id, Redrive(From.parse("start@2")))
    state = world.run(execution_id)
    assert state.status == "completed"
    assert state.steps["start"].loop == {"total": 12, "succeeded": 12, "failed": 0}
