"""Redrive of loops: single iterations, what failed and what never ran, under faults; what is kept is never run again."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from noetl_core.control.lifecycle import operate
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from tests.properties import crash_points, some
from tests.sim import invariants
from tests.sim.ports import SECOND, Faults
from tests.sim.redrives import HEAD, again, failing, result
from tests.sim.runs import ends
from tests.sim.world import World

LOOP = (
    HEAD
    + """
  - step: start
    loop:
      in: "{{ range(1000) | list }}"
      iterator: i
      spec: {mode: parallel, max_in_flight: 8, policy: {exec: EXEC, failure: {mode: MODE}, reducers: {sum: sum}}}
    tool:
      - {name: get, kind: http, url: "{{ iter.i }}"}
      - name: put
        kind: noop
        result: "{{ get }}"
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: "{{ iter.i }}"}}}}]}}
    next: {arcs: [{step: check}]}
  - step: check
    tool:
      - name: count
        kind: noop
        result: {sum: "{{ ctx.sum }}", n: "{{ steps.start.result | select | list | length }}"}
        spec:
          policy:
            rules: [{when: "{{ steps.start.loop.failed > 0 }}", then: {do: fail}}]
"""
)


@pytest.mark.nightly
@pytest.mark.sized
@pytest.mark.parametrize("exec_", some(["local", "distributed"], 2, 1))
def test_one_failed_iteration_of_a_thousand_and_only_that_one_and_its_successors_run_again(exec_: str) -> None:
    world = World()
    failing(world, lambda call: call.task == "get" and int(call.inputs["url"]) == 617)
    execution_id = world.start(LOOP.replace("EXEC", exec_).replace("MODE", "best_effort")).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    shown = again(world, execution_id, "start@617", preview=True).description
    assert shown["again"][0]["iterations"] == ["617"]
    assert (shown["again"][0]["kept_iterations"], shown["then"]) == (999, ["check"])
    before = len(world.calls)
    again(world, execution_id, "start@617")
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["get", "put", "count"]
    assert result(world, state) == {"sum": sum(range(1000)), "n": 999}  # 0 is not selected
    assert state.steps["start"].loop == {"total": 1000, "succeeded": 1000, "failed": 0}


@pytest.mark.nightly
@pytest.mark.sized
@pytest.mark.parametrize("exec_", some(["local", "distributed"], 2, 0))
def test_a_failed_loop_continues_with_failed_and_unstarted_iterations(exec_: str) -> None:
    world = World()
    failing(world, lambda call: call.task == "get" and int(call.inputs["url"]) == 617)
    execution_id = world.start(LOOP.replace("EXEC", exec_).replace("MODE", "fail_fast")).execution_id
    ends(world, execution_id, "failed")
    kept = {c.inputs["url"] for c in world.calls if c.task == "get"} - {617, "617"}
    assert 500 < len(kept) < 1000
    failing(world, lambda call: False)
    before = len(world.calls)
    again(world, execution_id)
    state = ends(world, execution_id, "completed")
    ran = Counter(str(c.inputs["url"]) for c in world.calls[before:] if c.task == "get")
    assert set(ran).isdisjoint({str(k) for k in kept})
    assert set(ran.values()) == {1}
    assert len(ran) + len(kept) == 1000
    assert result(world, state) == {"sum": sum(range(1000)), "n": 999}


def test_from_a_task_in_every_iteration_and_twice_over() -> None:
    world = World()
    failing(world, lambda call: False)
    source = LOOP.replace("EXEC", "local").replace("MODE", "best_effort").replace("range(1000)", "range(5)")
    execution_id = world.start(source).execution_id
    ends(world, execution_id, "completed")
    for epoch in (1, 2):
        before = len(world.calls)
        again(world, execution_id, "start/put")
        state = ends(world, execution_id, "completed")
        assert Counter(c.task for c in world.calls[before:]) == {"put": 5, "count": 1}
        assert (result(world, state), state.epoch) == ({"sum": 10, "n": 4}, epoch)
    before = len(world.calls)
    again(world, execution_id, "start/put@3")
    state = ends(world, execution_id, "completed")
    assert Counter(c.task for c in world.calls[before:]) == {"put": 1, "count": 1}
    assert result(world, state) == {"sum": 10, "n": 4}


@pytest.mark.parametrize("exec_", ["local", "distributed"])
def test_the_preview_of_a_second_redrive_counts_iterations_the_first_kept(exec_: str) -> None:
    world = World()
    failing(world, lambda call: call.task == "get" and int(call.inputs["url"]) == 17)
    source = LOOP.replace("EXEC", exec_).replace("MODE", "best_effort").replace("range(1000)", "range(40)")
    execution_id = world.start(source).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    again(world, execution_id, "start@17")
    ends(world, execution_id, "completed")
    shown = again(world, execution_id, "start/put@5", preview=True).description["again"][0]
    assert (shown["tasks"], shown["iterations"], shown["kept_iterations"]) == (["put"], ["5"], 39)
    before = len(world.calls)
    again(world, execution_id, "start/put@5")
    ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["put", "count"]


@pytest.mark.one_in(4)
@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(4), 2))
@pytest.mark.parametrize("exec_", ["local", "distributed"])
def test_each_redrive_of_many_runs_only_the_iteration_it_names(exec_: str, seed: int) -> None:
    """This holds independently of what earlier redrives ran again and what they kept."""
    chance, world = random.Random(seed), World()
    n = chance.choice([40, 100, 300])
    failing(world, lambda call: False)
    source = LOOP.replace("EXEC", exec_).replace("MODE", "best_effort").replace("range(1000)", f"range({n})")
    execution_id = world.start(source).execution_id
    ends(world, execution_id, "completed")
    for epoch in range(1, 7):
        index, before = chance.randrange(n), len(world.calls)
        begin, tasks = chance.choice([("start@{}", ["get", "put", "count"]), ("start/put@{}", ["put", "count"])])
        again(world, execution_id, begin.format(index))
        state = ends(world, execution_id, "completed")
        assert [c.task for c in world.calls[before:]] == tasks, (begin, index)
        assert (result(world, state), state.epoch) == ({"sum": sum(range(n)), "n": n - 1}, epoch)


NESTED = (
    HEAD
    + """
  - step: start
    loop:
      in: [0, 1, 2]
      iterator: x
      spec: {mode: parallel, policy: {failure: {mode: best_effort}}}
      loop: {in: [0, 1, 2, 3], iterator: y, spec: {mode: sequential}}
    tool: [{name: body, kind: http, url: "{{ iter.parent.x * 10 + iter.y }}"}]
"""
)


def test_one_inner_iteration_of_a_nested_loop() -> None:
    world = World()
    failing(world, lambda call: False)
    execution_id = world.start(NESTED).execution_id
    ends(world, execution_id, "completed")
    before = len(world.calls)
    again(world, execution_id, "start@1.2")
    state = ends(world, execution_id, "completed")
    assert [c.inputs["url"] for c in world.calls[before:]] == [12]
    assert result(world, state) == [[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]]
    before = len(world.calls)
    again(world, execution_id, "start@2")
    ends(world, execution_id, "completed")
    assert [c.inputs["url"] for c in world.calls[before:]] == [20, 21, 22, 23]


@pytest.mark.sized
@pytest.mark.parametrize("exec_", some(["local", "distributed"], 2, 0))
def test_a_loop_cancelled_half_way_continues_and_keeps_recorded_iterations(exec_: str) -> None:
    world = World()
    source = LOOP.replace("EXEC", exec_).replace("MODE", "fail_fast").replace("range(1000)", "range(60)")
    execution_id = world.start(source).execution_id

    def tool(call: ToolCall) -> Outcome:
        world.clock.time += SECOND // 2
        if call.task == "get" and str(call.inputs["url"]) == "30" and not world.state(execution_id).epoch:
            operate.cancel(world.controls[0], execution_id)
        return Outcome.ok(call.inputs.get("result", call.inputs.get("url")))

    world.tool = tool
    ends(world, execution_id, "cancelled")
    recorded = {
        e.data["path"][0]
        for stream, commits in world.store.streams.items()
        if stream.run_id is not None
        for c in commits
        for e in c.events
        if e.name == "LoopIterationCompleted"
    }
    assert len(recorded) > 10
    before = len(world.calls)
    shown = again(world, execution_id, preview=True).description
    assert shown["again"][0]["kept_iterations"] == len(recorded)
    again(world, execution_id)
    state = ends(world, execution_id, "completed")
    assert result(world, state) == {"sum": sum(range(60)), "n": 59}
    ran = Counter(int(c.inputs["url"]) for c in world.calls[before:] if c.task == "get")
    assert set(ran).isdisjoint(recorded)
    assert len(ran) <= 60 - len(recorded)


SMALL = LOOP.replace("EXEC", "distributed").replace("MODE", "best_effort").replace("range(1000)", "range(6)")


def _redriven_under(faults: Faults, stream_on: bool = True) -> World:
    """A loop with a failed iteration, redriven; faults begin with the redrive."""
    world = World(stream_on=stream_on, routers=2)
    failing(world, lambda call: call.task == "get" and int(call.inputs["url"]) == 4)
    execution_id = world.start(SMALL).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    for part in (world, world.store, world.queue, world.results, world.index, world.gates):
        part.faults = faults
    before = len(world.calls)
    again(world, execution_id, "start@4")
    state = ends(world, execution_id, "completed")
    assert result(world, state) == {"sum": 15, "n": 5}
    assert {str(c.inputs.get("url")) for c in world.calls[before:] if c.task == "get"} == {"4"}, "the kept ones never run again"
    invariants.faults_happened(world)
    return world


@pytest.mark.sized
def test_a_crash_before_or_after_any_port_call_of_a_redrive_is_survived() -> None:
    calm = Faults()
    _redriven_under(calm)
    assert calm.calls > 20
    for after in (False, True):
        for point in crash_points(calm.calls, after):
            _redriven_under(Faults(crash_at=point, crash_after=after))


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(12), 4))
def test_any_mix_of_faults_after_a_redrive_changes_nothing_but_time(seed: int) -> None:
    _redriven_under(Faults(seed, crash=0.04, throttle=0.03, lost_answer=0.1, duplicate=0.3, lose_record=0.2, delay=0.3))


def test_with_the_stream_off_a_redrive_completes_by_the_sweeper_alone() -> None:
    _redriven_under(Faults(), stream_on=False)


@pytest.mark.nightly
@pytest.mark.sized
@pytest.mark.parametrize("exec_", some(["local", "distributed"], 2, 1))
def test_failed_iterations_of_a_completed_execution_run_again_by_default(exec_: str) -> None:
    world = World()
    failing(world, lambda call: call.task == "get" and int(call.inputs["url"]) in (3, 617))
    source = LOOP.replace("EXEC", exec_).replace("MODE", "best_effort").replace("loop.failed > 0", "loop.failed > 9")
    execution_id = world.start(source).execution_id
    ends(world, execution_id, "completed")
    failing(world, lambda call: False)
    shown = again(world, execution_id, preview=True).description
    assert shown["again"][0]["iterations"] == ["3", "617"]
    before = len(world.calls)
    again(world, execution_id)
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["get", "put", "get", "put", "count"]
    assert result(world, state) == {"sum": sum(range(1000)), "n": 999}
