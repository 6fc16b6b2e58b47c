"""Loops that are handed over while they run (`exec: auto`): wherever that happens, and whatever fails meanwhile, they end as a loop
that stays with one worker, and what was committed is not run again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.control.lifecycle import operate
from noetl_core.engine.loops import SpreadRule
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.log.stored_values import Values
from noetl_core.tools.base import ToolCall
from noetl_core.views.executions import executions
from tests.properties import crash_points, examples
from tests.sim import generated_playbooks
from tests.sim.generated_playbooks import GenLoop
from tests.sim.ports import Faults
from tests.sim.redrives import HEAD, again, failing
from tests.sim.runs import ends, events, run, window_is_kept
from tests.sim.world import World

AT_ONCE = SpreadRule(measured_s=0, left_s=0, busy=0)
"""After the first iteration."""

LOOP = (
    HEAD
    + """
  - step: start
    loop:
      in: "{{ range(40) | list }}"
      iterator: i
      spec: {mode: parallel, max_in_flight: 4, policy: {failure: {mode: best_effort}, reducers: {sum: sum, seen: append}}}
    tool:
      - {name: get, kind: http, url: "{{ iter.i }}"}
      - {name: put, kind: noop, result: "{{ get }}", set_ctx: {sum: "{{ iter.i }}", seen: "{{ iter.i }}"}}
    next: {arcs: [{step: check}]}
  - step: check
    tool:
      - name: count
        kind: noop
        result: {sum: "{{ ctx.sum }}", seen: "{{ ctx.seen }}", all: "{{ steps.start.result }}", loop: "{{ steps.start.loop }}"}
        spec: {policy: {rules: [{when: "{{ steps.start.loop.failed > 0 }}", then: {do: fail}}]}}
"""
)


def test_a_loop_that_is_handed_over_has_the_same_result() -> None:
    came_to = {}
    for rule in (None, AT_ONCE):
        world = World(spread=rule)
        failing(world, lambda call: call.task == "get" and int(call.inputs["url"]) in (2, 30))
        state = ends(world, world.start(LOOP).execution_id, "failed")
        iterations = state.steps["start"].iterations
        assert iterations is not None
        assert sum(iterations["us"].values()) == 40
        came_to[rule] = (iterations["errors"], iterations["failed"])
    assert came_to[None] == came_to[AT_ONCE]


def told(world: World, state: State) -> dict[str, Any]:
    """Return the view of a loop for a reader and for the templates after it."""
    shown = executions.summary(world.controls[0], state.execution_id)
    loop = state.steps["start"].loop
    value = Values(world.store, world.results, state.execution_id)
    result = value.whole(value.at(state.result)) if state.status == "completed" else None
    return {"status": state.status, "result": result, "ctx": state.ctx, "loop": loop, "shown": shown["status"]}


def ended(world: World, execution_id: str) -> Counter[tuple[int, ...]]:
    """Return the number of times that each iteration's end was committed."""
    return Counter(tuple(d["path"]) for d in events(world, execution_id, "LoopIterationCompleted"))


@pytest.mark.nightly
@given(
    loop=generated_playbooks.loops().map(lambda loop: replace(loop, mode="parallel", where="auto")),
    faults=generated_playbooks.faults,
    after=st.integers(0, 300),
)
@examples(150)
def test_a_loop_that_is_handed_over_anywhere_ends_as_one_that_stays(loop: GenLoop, faults: Faults, after: int) -> None:
    source = generated_playbooks.playbook([loop.step()])
    stays = run(source, loop.tool, Faults())
    goes = run(source, loop.tool, faults, spread=SpreadRule(measured_s=after / 1_000_000, left_s=0, busy=0))
    world, state = goes
    here, there = told(*stays), told(*goes)
    if stays[1].status == "failed":  # fail_fast: which iterations had begun is a matter of order
        assert (there["status"], there["shown"]) == (here["status"], here["shown"])
    else:
        assert there == here
    assert all(n == 1 for n in ended(world, state.execution_id).values()), "what was committed is not run again"
    assert world.names(state.execution_id).count("LoopDone") == 1
    window_is_kept(world, state.execution_id, loop.window)


def test_the_lead_runs_the_first_chunk_and_hands_over_the_others() -> None:
    world = World(spread=AT_ONCE)
    failing(world, lambda call: False)
    execution_id = world.start(LOOP).execution_id
    state = ends(world, execution_id, "completed")
    (sliced,) = [e for c in world.store.streams[StreamId(execution_id)] for e in c.events if e.name == "LoopSliced"]
    plan, done = sliced.data["plan"], sliced.data["done"]
    assert done is not None
    assert (plan["total"], plan["first"], done["succeeded"]) == (40, 4, 4)
    chunks = [
        e.data["chunk"] for c in world.store.streams[StreamId(execution_id)] for e in c.events if e.name == "LoopChunkScheduled"
    ]
    assert chunks == list(range(1, plan["chunks"]))
    value = Values(world.store, world.results, execution_id)
    assert value.whole(value.at(state.result)) == {
        "sum": sum(range(40)),
        "seen": list(range(40)),
        "all": list(range(40)),
        "loop": {"total": 40, "succeeded": 40, "failed": 0},
    }
    assert set(ended(world, execution_id).values()) == {1}
    assert len([c for c in world.calls if c.task == "get"]) == 40
    assert [h.kind for _, h in world.handled].count("spread") == 1


@pytest.mark.parametrize("rule", [None, AT_ONCE])
@pytest.mark.parametrize("where", ["local", "distributed"])
def test_a_loop_with_explicit_exec_is_not_handed_over(where: str, rule: SpreadRule | None) -> None:
    source = LOOP.replace("policy: {failure", f"policy: {{exec: {where}, failure")
    world = World(spread=rule)
    failing(world, lambda call: False)
    execution_id = world.start(source).execution_id
    ends(world, execution_id, "completed")
    sliced = [e.data for c in world.store.streams[StreamId(execution_id)] for e in c.events if e.name == "LoopSliced"]
    assert [("first" in d["plan"], "done" in d) for d in sliced] == ([] if where == "local" else [(False, False)])


@pytest.mark.nightly
@pytest.mark.sized
def test_every_crash_point_of_the_hand_over_leads_to_the_same_end() -> None:
    whole = World(spread=AT_ONCE)
    failing(whole, lambda call: False)
    wanted = told(whole, ends(whole, whole.start(LOOP).execution_id, "completed"))
    calls = whole.faults.calls
    for after in (False, True):
        for at in crash_points(calls, after):
            world = World(Faults(crash_at=at, crash_after=after), spread=AT_ONCE)
            failing(world, lambda call: False)
            execution_id = world.start(LOOP).execution_id
            assert told(world, ends(world, execution_id, "completed")) == wanted, (at, after)
            assert set(ended(world, execution_id).values()) == {1}


def test_a_cancel_between_the_hand_over_and_its_routing_ends_the_loop() -> None:
    world = World(spread=AT_ONCE)
    failing(world, lambda call: False)
    execution_id = world.start(LOOP).execution_id
    world.run(execution_id, until=lambda: any(h.kind == "spread" for _, h in world.handled))
    operate.cancel(world.controls[0], execution_id, "enough")
    state = ends(world, execution_id, "cancelled")
    assert len([c for c in world.calls if c.task == "get"]) == 4
    assert not state.runs


def test_a_pause_between_the_hand_over_and_its_routing_holds_the_chunks_back() -> None:
    world = World(spread=AT_ONCE)
    failing(world, lambda call: False)
    execution_id = world.start(LOOP).execution_id
    world.run(execution_id, until=lambda: any(h.kind == "spread" for _, h in world.handled))
    operate.pause(world.controls[0], execution_id)
    for _ in range(200):
        world.step()
    assert len([c for c in world.calls if c.task == "get"]) == 4
    operate.resume(world.controls[0], execution_id)
    ends(world, execution_id, "completed")
    assert len([c for c in world.calls if c.task == "get"]) == 40


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [2, 30])
def test_one_iteration_of_a_spread_loop_runs_again_and_only_that(n: int) -> None:
    """In the part that the lead ran, and in a chunk; twice over, and once more on the other side."""
    world = World(spread=AT_ONCE)
    failing(world, lambda call: call.task == "get" and int(call.inputs["url"]) == n)
    execution_id = world.start(LOOP).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    shown = again(world, execution_id, f"start@{n}", preview=True).description["again"][0]
    assert (shown["iterations"], shown["kept_iterations"]) == ([str(n)], 39)
    for more in (n, n, 32 - n):
        before = len(world.calls)
        again(world, execution_id, f"start@{more}")
        state = ends(world, execution_id, "completed")
        assert [c.task for c in world.calls[before:]] == ["get", "put", "count"]
        assert state.steps["start"].loop == {"total": 40, "succeeded": 40, "failed": 0}
        assert state.ctx == {"sum": sum(range(40)), "seen": list(range(40))}


def test_a_redriven_loop_may_be_handed_over_too() -> None:
    """The lead continues with the history of a run before it, and hands over what had never begun."""
    world = World()
    source = LOOP.replace("failure: {mode: best_effort}", "failure: {mode: fail_fast}")
    failing(world, lambda call: call.task == "get" and int(call.inputs["url"]) == 9)
    execution_id = world.start(source).execution_id
    ends(world, execution_id, "failed")
    kept = {int(c.inputs["url"]) for c in world.calls if c.task == "get"} - {9}
    failing(world, lambda call: False)
    world.spread = AT_ONCE
    before = len(world.calls)
    again(world, execution_id)
    state = ends(world, execution_id, "completed")
    ran = [int(c.inputs["url"]) for c in world.calls[before:] if c.task == "get"]
    assert sorted(ran) == sorted(set(range(40)) - kept)
    assert [h.kind for _, h in world.handled].count("spread") == 1
    assert state.ctx == {"sum": sum(range(40)), "seen": list(range(40))}
    before = len(world.calls)
    again(world, execution_id, "start@3")
    ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["get", "put", "count"], "what the run before the lead ran is kept"


def test_older_code_leaves_a_spread_loop_to_newer_code() -> None:
    """It would run the first chunk again: so the commit asks for a newer reader."""
    world = World(spread=AT_ONCE)
    failing(world, lambda call: False)
    execution_id = world.start(LOOP).execution_id
    ends(world, execution_id, "completed")
    asks = {s.run_id is None: c.v for s, commits in world.store.streams.items() for c in commits if c.v > 1}
    assert asks == {True: 2, False: 2}
    plain = World()
    failing(plain, lambda call: False)
    ends(plain, plain.start(LOOP).execution_id, "completed")
    assert {c.v for commits in plain.store.streams.values() for c in commits} == {1}


def test_a_step_timeout_counts_from_the_beginning_of_the_lead() -> None:
    world = World(spread=AT_ONCE)

    def slow(call: ToolCall) -> Outcome:
        world.take(3)
        return Outcome.ok(call.inputs.get("url"))

    world.tool = slow
    source = LOOP.replace("  - step: start\n", "  - step: start\n    spec: {policy: {lifecycle: {timeout_s: 60}}}\n", 1)
    execution_id = world.start(source).execution_id
    state = ends(world, execution_id, "failed")
    assert state.failure is not None
    assert state.failure["kind"] == "timeout"
