"""Whole executions under faults: any crash, duplicate, delay, loss or conflict, and still the same result, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from noetl_core.engine.state import State
from noetl_core.log.stored_values import Values
from noetl_core.views.explain.replay import replay
from tests.properties import crash_points, some
from tests.sim import invariants
from tests.sim.ports import Faults
from tests.sim.world import World

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: everything, path: sim/everything}
workload: {n: 3}
workflow:
  - step: start
    tool:
      - name: one
        kind: noop
        args: {x: "{{ workload.n }}"}
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {a: "{{ outcome.result.x }}"}}}}]}}
    next: {arcs: [{step: local, args: {q: "{{ event.result.x + 1 }}"}}]}
  - step: local
    loop: {in: "{{ range(5) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: 2}}
    tool:
      - {name: body, kind: noop, args: {v: "{{ iter.i * args.q }}"}}
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: spread, when: "{{ event.name == 'loop.done' }}"}
        - {step: route, when: "{{ steps.start.result.x == 3 }}"}
  - step: spread
    loop:
      in: "{{ steps.local.result }}"
      iterator: r
      spec: {mode: parallel, max_in_flight: 3, policy: {exec: distributed, reducers: {seen: count}}}
    tool:
      - name: body
        kind: noop
        args: {z: "{{ iter.r.v }}"}
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {seen: 1}}}}]}}
    next: {arcs: [{step: end}]}
  - step: route
    next: {arcs: [{step: end}]}
  - step: end
    spec: {join: all}
    tool: [{name: sum, kind: noop, args: {all: "{{ steps.spread.result | map(attribute='z') | sum }}", a: "{{ a }}", n: "{{ ctx.seen }}"}}]
"""
EXPECTED = {"all": 40, "a": 3, "n": 5}


def result_of(world: World, state: State) -> Any:
    world.faults.quiet = True
    return Values(world.store, world.results, state.execution_id).at(state.result)


def run(world: World) -> State:
    started = world.start(PLAYBOOK)
    state = world.run(started.execution_id)
    assert state.status == "completed", (state.status, state.failure, world.faults.seen)
    assert result_of(world, state) == EXPECTED
    world.drain()
    invariants.faults_happened(world)
    invariants.check(world, started.execution_id)
    assert replay(world.controls[0], started.execution_id).differences == (), "every decision is taken again as it was"
    return state


def test_without_faults_every_task_runs_once() -> None:
    world = World()
    run(world)
    assert len(world.calls) == 1 + 5 + 5 + 1
    assert len({c.task_run_id for c in world.calls}) == 12


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(40), 8))
def test_any_mix_of_faults_changes_nothing_but_time(seed: int) -> None:
    faults = Faults(seed, crash=0.04, throttle=0.03, lost_answer=0.1, duplicate=0.3, lose_record=0.2, delay=0.3)
    run(World(faults, routers=2))


@pytest.mark.sized
def test_a_crash_before_or_after_any_port_call_is_survived() -> None:
    """Crash points are enumerated: as many runs as the fault-free one makes port calls, twice."""
    calm = World()
    run(calm)
    points = calm.faults.calls
    assert points > 50
    for after in (False, True):
        for point in crash_points(points, after):
            run(World(Faults(crash_at=point, crash_after=after)))


def test_with_the_stream_off_everything_completes_by_the_sweeper_alone() -> None:
    run(World(stream_on=False))


def test_with_every_message_and_record_twice_and_shuffled_the_result_is_the_same() -> None:
    world = World(Faults(7, duplicate=1.0, delay=0.5))
    run(world)
    assert Counter(c.task_run_id for c in world.calls).most_common(1)[0][1] == 1, "a duplicate never runs a task again"
    assert world.faults.seen["duplicate command"] == len(world.queue.sent)
    assert world.faults.seen["duplicate record"] == sum(c.wake for commits in world.store.streams.values() for c in commits)


def test_the_same_key_and_request_is_the_same_execution_and_another_request_is_refused() -> None:
    from noetl_core.control.admit import KeyReused

    world = World()
    first = world.start(PLAYBOOK, {"n": 3})
    again = world.start(PLAYBOOK, {"n": 3})
    assert (again.execution_id, again.created) == (first.execution_id, False)
    with pytest.raises(KeyReused):
        world.start(PLAYBOOK, {"n": 4})
