"""Sub-playbooks: what they are given and give back, started once whatever happens, and none left behind."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from noetl_core.control.lifecycle import operate
from noetl_core.control.sweeping.sweep import sweep
from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine import ids
from noetl_core.engine.state import State
from noetl_core.log.stored_values import Values
from noetl_core.views.explain.replay import replay
from tests.properties import some
from tests.sim import invariants
from tests.sim.interleavings import only_command
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: PATH}\n"
CHILD = (
    HEAD.replace("PATH", "sim/child")
    + """
workload: {n: 0}
executor: {spec: {result: "{{ {'rows': [steps.start.result, {'n': workload.n, 'seed': ctx.seed | default(0)}]} }}"}}
workflow:
  - step: start
    tool:
      - {name: pause, kind: wait, duration: 60}
      - {name: double, kind: noop, args: "{{ [workload.n * 2, iter.parent.i | default(-1), iter.parent.parent.j | default(-1)] }}"}
"""
)


def parent(inputs: str, more: str = "") -> str:
    """A playbook of one step that calls another."""
    return (
        HEAD.replace("PATH", "sim/parent")
        + "workflow:\n  - step: start\n"
        + more
        + f"    tool: [{{name: call, kind: playbook, path: sim/child, {inputs}}}]\n"
    )


def world_with(*sources: str, faults: Faults | None = None, routers: int = 1) -> World:
    world = World(faults or Faults(), routers=routers)
    for source in sources or (CHILD,):
        playbook = parse_playbook(source)
        world.catalog.register(playbook.path, playbook.digest, source, 1)
    return world


def ended(world: World, execution_id: str, status: str = "completed") -> State:
    state = world.run(execution_id)
    assert state.status == status, (state.status, state.failure)
    world.faults.quiet = True
    world.drain()
    invariants.check(world, execution_id)
    assert replay(world.controls[0], execution_id).differences == ()
    return state


def result(world: World, execution_id: str) -> Any:
    state = world.state(execution_id)
    return Values(world.store, world.results, execution_id).at(state.result)


def executions(world: World) -> dict[str, State]:
    found = {s.execution_id for s in world.store.streams}
    return {x: world.state(x) for x in sorted(found)}


def others(world: World, execution_id: str) -> list[State]:
    return [s for x, s in executions(world).items() if x != execution_id]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("args: {n: 4}", {"rows": [[8, -1, -1], {"n": 4, "seed": 0}]}),
        ("payload: {n: 4}, ctx: {seed: 9}, result: rows.1", {"n": 4, "seed": 9}),
        ("workload: {n: 4}, version: 1, result: rows.0.0", 8),
    ],
)
def test_inputs_and_result_of_a_child(inputs: str, expected: Any) -> None:
    world = world_with()
    execution_id = world.start(parent(inputs)).execution_id
    ended(world, execution_id)
    assert result(world, execution_id) == expected


@pytest.mark.parametrize(
    ("inputs", "kind", "message"),
    [
        ("result: rows.7", "not_found", "has no 'rows.7'"),
        ("result: rows.first", "not_found", "has no 'rows.first'"),
        ("version: 9", "not_found", "version 9"),
        ('detach: "{{ 1 }}"', "schema", "`detach` is true or false"),
        ('idempotency_key: k, detach: "{{ false }}"', "schema", "needs `detach: true`"),
        ('ctx: "{{ [1] }}"', "schema", "`ctx` of a playbook is a mapping"),
    ],
)
def test_an_invalid_request_for_a_child_fails_the_task(inputs: str, kind: str, message: str) -> None:
    world = world_with()
    execution_id = world.start(parent(inputs)).execution_id
    failure = ended(world, execution_id, "failed").failure
    assert failure is not None
    assert failure["kind"] == kind
    assert message in failure["message"]


def test_the_iterations_around_a_call_are_the_childs_iter_parent() -> None:
    world = world_with()
    loop = "    loop:\n      in: [10, 20]\n      iterator: j\n      spec: {mode: parallel}\n      loop: {in: [1, 2], iterator: i, spec: {mode: parallel}}\n"
    execution_id = world.start(parent('args: {n: "{{ iter.i }}"}, result: rows.0', loop)).execution_id
    ended(world, execution_id)
    assert result(world, execution_id) == [[[2, 1, 10], [4, 2, 10]], [[2, 1, 20], [4, 2, 20]]]


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(8), 4))
def test_a_detached_child_starts_once_and_its_parent_does_not_wait(seed: int) -> None:
    faults = Faults(seed, crash=0.03, throttle=0.02, lost_answer=0.05, duplicate=0.3, lose_record=0.2, delay=0.3)
    world = world_with(faults=faults if seed else Faults(), routers=2)
    execution_id = world.start(parent("args: {n: 3}, detach: true")).execution_id
    world.run(execution_id)
    answer = result(world, execution_id) if world.faults.quiet or seed == 0 else None
    state = ended(world, execution_id)
    (child,) = others(world, execution_id)
    assert (answer or result(world, execution_id)) == {"execution_id": child.execution_id, "status": "started"}
    assert child.started_at < (state.finished_at or 0)
    world.run(child.execution_id)
    invariants.faults_happened(world)
    assert world.state(child.execution_id).status == "completed"
    assert "ChildFinished" in world.names(execution_id)


def test_cancelling_a_parent_leaves_its_detached_children_alone() -> None:
    world = world_with()
    source = (
        parent("detach: true").replace("tool: [", "tool: [").rstrip()[:-1] + ", {name: ask, kind: callback, signal: never}]\n"
    )
    execution_id = world.start(source).execution_id
    world.run(execution_id, until=lambda: any(w.get("signal") for r in world.state(execution_id).runs.values() for w in r.waits))
    operate.cancel(world.controls[0], execution_id)
    (child,) = others(world, execution_id)
    world.run(child.execution_id)
    invariants.faults_happened(world)
    assert world.state(child.execution_id).status == "completed"
    assert world.state(execution_id).status == "cancelled"


def test_callers_with_the_same_key_start_one_detached_child() -> None:
    world = world_with()
    runs = [
        world.start(parent("args: {n: 3}, detach: true, idempotency_key: nightly"), idempotency_key=f"p{n}").execution_id
        for n in range(3)
    ]
    for execution_id in runs:
        ended(world, execution_id)
    other = world.start(parent("args: {n: 4}, detach: true, idempotency_key: nightly"), idempotency_key="q").execution_id
    failure = ended(world, other, "failed").failure
    assert {result(world, x)["execution_id"] for x in runs} == {ids.execution_id_from_key("nightly")}
    assert failure is not None
    assert failure["kind"] == "client_error"
    assert len(executions(world)) == 5


def test_children_that_call_themselves_end_at_the_depth_limit() -> None:
    recursive = HEAD.replace("PATH", "sim/child") + "workflow:\n  - step: start\n    tool: {kind: playbook, path: sim/child}\n"
    world = world_with(recursive)
    execution_id = world.start(parent("args: {}")).execution_id
    failure = ended(world, execution_id, "failed").failure
    assert failure is not None
    assert failure["kind"] == "limit"
    assert "nested more than 20 deep" in failure["message"]
    assert len(executions(world)) == 21


FAILING = HEAD.replace("PATH", "sim/child") + "workflow:\n  - step: start\n    tool: {kind: playbook, path: sim/missing}\n"


def test_a_failure_comes_up_through_every_level_with_its_kind() -> None:
    world = world_with(FAILING)
    execution_id = world.start(parent("args: {}")).execution_id
    failure = ended(world, execution_id, "failed").failure
    assert failure is not None
    assert failure["kind"] == "not_found"
    assert failure["message"].startswith("playbook sim/child failed: playbook sim/missing failed: ")


# --- none left behind -------------------------------------------------------------------------------------------------------

WAITS = HEAD.replace("PATH", "sim/child") + "workflow:\n  - step: start\n    tool: {kind: callback, signal: never}\n"
MIDDLE = HEAD.replace("PATH", "sim/middle") + "workflow:\n  - step: start\n    tool: {kind: playbook, path: sim/child}\n"
TOP = parent("args: {}").replace("sim/child", "sim/middle")


def nobody_is_left(world: World, status: str = "cancelled") -> None:
    world.faults.quiet = True
    world.drain(2_000)
    assert {s.status for s in executions(world).values()} == {status}
    assert world.index.due_at == {}


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(8), 4))
def test_a_cancel_reaches_children_and_grandchildren(seed: int) -> None:
    world = world_with(
        WAITS, MIDDLE, faults=Faults(seed, crash=0.03, duplicate=0.3, delay=0.3, lose_record=0.1) if seed else None
    )
    execution_id = world.start(TOP).execution_id
    world.run(execution_id, until=lambda: len(executions(world)) == 3)
    while not world.state(execution_id).finished:
        try:
            operate.cancel(world.controls[0], execution_id)
        except Crash:
            world.controls[0] = world.new_control()
        except operate.NotNow:
            break
    invariants.faults_happened(world)
    nobody_is_left(world)


def test_a_cancel_between_asking_for_a_child_and_creating_it_leaves_no_orphan() -> None:
    world = world_with(WAITS)
    execution_id = world.start(parent("args: {}")).execution_id
    world.handle(only_command(world))
    dying = Mock(wraps=world.controls[0].children, start=Mock())
    world.controls[0].children = dying
    world.deliver_record(world.records[0])  # the router dies between its commit and the child
    world.controls[0] = world.new_control()
    ((_, wanted),) = [call.args for call in dying.start.call_args_list]
    operate.cancel(world.controls[0], execution_id)
    world.controls[0].children.start(world.controls[0], wanted)  # and another comes to life again
    world.drain(500)
    nobody_is_left(world)
    assert world.calls == []
    assert len(executions(world)) == 2
    assert replay(world.controls[0], wanted.child).differences == ()


def test_a_parent_that_dies_before_its_child_exists_has_it_created_by_the_sweeper() -> None:
    world = world_with()
    execution_id = world.start(parent("args: {n: 2}, result: rows.0.0")).execution_id
    world.handle(only_command(world))
    world.controls[0].children = Mock(wraps=world.controls[0].children, start=Mock(side_effect=Crash))
    with pytest.raises(Crash):
        world.route(execution_id, [world.records.pop().commit])
    assert len(executions(world)) == 1
    world.controls[0] = world.new_control()
    world.clock.time += 120 * SECOND
    sweep(world.controls[0])
    assert len(executions(world)) == 2
    ended(world, execution_id)
    assert result(world, execution_id) == 4


def test_a_step_that_times_out_takes_its_child_with_it() -> None:
    world = world_with(WAITS)
    source = parent("args: {}", "    spec: {policy: {lifecycle: {timeout_s: 120}}}\n")
    execution_id = world.start(source).execution_id
    failure = ended(world, execution_id, "failed").failure
    assert failure is not None
    assert failure["kind"] == "timeout"
    (child,) = others(world, execution_id)
    assert child.status == "cancelled"


def test_a_paused_parent_starts_no_child_until_it_is_resumed() -> None:
    world = world_with()
    execution_id = world.start(parent("args: {n: 2}, result: rows.0.0")).execution_id
    world.handle(only_command(world))
    operate.pause(world.controls[0], execution_id)
    world.drain(200)
    assert len(executions(world)) == 1
    operate.resume(world.controls[0], execution_id)
    ended(world, execution_id)
    assert result(world, execution_id) == 4
