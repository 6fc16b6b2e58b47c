"""Compensation: completed steps are undone in reverse order, one after another, through whatever happens on the way."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.lifecycle import operate
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.redrive.plan import Redrive
from noetl_core.engine.state import State
from noetl_core.ports import PortError
from noetl_core.tools.base import ToolCall
from noetl_core.views.executions import executions
from tests.properties import crash_points, some
from tests.sim import invariants
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.runs import ends
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/undo}\nworkflow:\n"
TRIP = (
    HEAD
    + """
  - step: start
    args: {city: Paris}
    tool: [{name: flight, kind: noop, result: {id: 1}}]
    compensate:
      - {name: cancel_flight, kind: noop, result: "{{ [steps.start.result.id, args.city, ctx.paid | default(0)] }}"}
      - {name: later, kind: wait, duration: 120}
      - {name: tell, kind: noop, result: "{{ cancel_flight }}"}
    next: {arcs: [{step: nights}]}
  - step: nights
    loop: {in: [10, 20, 30], iterator: price, spec: {mode: parallel, policy: {exec: distributed}}}
    tool: [{name: pay, kind: noop, result: "{{ iter.price }}"}]
    compensate:
      loop: {in: "{{ steps.nights.result }}", iterator: paid, spec: {mode: sequential}}
      tool:
        - name: refund
          kind: noop
          result: "{{ iter.paid }}"
          set_ctx: {back: "{{ (ctx.back | default(0)) + iter.paid }}"}
    set_ctx: {paid: "{{ event.result | sum }}"}
    next: {arcs: [{step: plain}]}
  - step: plain
    tool: [{name: nothing, kind: noop, result: 1}]
    next: {arcs: [{step: book}]}
  - step: book
    tool: [{name: fails, kind: http, url: x}]
    compensate: [{name: never, kind: noop}]
"""
)
UNDONE = ["refund", "refund", "refund", "cancel_flight", "tell"]


def tool(call: ToolCall) -> Outcome:
    if call.task == "fails":
        return Outcome.failed("client_error", "no room")
    return Outcome.ok(call.inputs.get("result"))


def tasks(world: World) -> list[str]:
    """Tasks in order, each once however often it was run."""
    return [c.task for c in {c.task_run_id: c for c in world.calls}.values()]


def undone(world: World, execution_id: str) -> list[str]:
    events = [e for c in world.store.streams[_control(execution_id)] for e in c.events]
    return [e.data["step"] for e in events if e.name == "CompensationDone"]


def _control(execution_id: str) -> Any:
    from noetl_core.engine.records import StreamId

    return StreamId(execution_id)


def failed_trip(world: World) -> State:
    world.tool = tool
    execution_id = world.start(TRIP).execution_id
    state = ends(world, execution_id, "failed")
    assert undone(world, execution_id) == ["nights", "start"]
    assert tasks(world)[-5:] == UNDONE
    assert state.failure is not None
    assert (state.failure["message"], state.failure["step"]) == ("no room", "book")
    assert state.ctx == {"paid": 60, "back": 60}
    invariants.faults_happened(world)
    return state


def test_completed_steps_are_undone_in_reverse_order_with_their_result_args_and_ctx() -> None:
    world = World()
    state = failed_trip(world)
    tells = [c.inputs["result"] for c in world.calls if c.task == "tell"]
    assert tells == [[1, "Paris", 60]]
    assert state.steps["start"].runs == 1, "a compensation does not count as a run of its step"
    assert executions.summary(world.controls[0], state.execution_id)["steps"]["start"]["result"] == {"id": 1}


@pytest.mark.sized
def test_a_crash_before_or_after_any_port_call_is_survived() -> None:
    calm = World()
    failed_trip(calm)
    for after in (False, True):
        for point in crash_points(calm.faults.calls, after):
            failed_trip(World(Faults(crash_at=point, crash_after=after)))


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(12), 4))
def test_any_mix_of_faults_changes_nothing_but_time(seed: int) -> None:
    faults = Faults(seed, crash=0.03, throttle=0.03, lost_answer=0.1, duplicate=0.3, lose_record=0.2, delay=0.3)
    failed_trip(World(faults, routers=2))


def test_the_sweeper_compensates_without_the_stream() -> None:
    failed_trip(World(stream_on=False))


def test_a_failing_compensation_is_recorded_and_the_others_continue() -> None:
    world = World()
    world.tool = lambda call: Outcome.failed("server_error", "closed") if call.task == "refund" else tool(call)
    execution_id = world.start(TRIP).execution_id
    state = ends(world, execution_id, "failed")
    assert undone(world, execution_id) == ["nights", "start"]
    assert state.failure is not None
    assert state.failure["message"] == "no room", "the error is the original one"
    error = executions.summary(world.controls[0], execution_id)["error"]
    assert error["not_undone"] == [{"step": "nights", "kind": "server_error", "message": "closed"}]


def waiting_trip(world: World) -> str:
    """A trip that waits for somebody once the nights are paid."""
    world.tool = tool
    source = TRIP.replace("{name: nothing, kind: noop, result: 1}", "{name: ask, kind: callback, signal: never}")
    execution_id = world.start(source).execution_id
    world.run(execution_id, until=lambda: any(r.waits for r in world.state(execution_id).runs.values() if r.step == "plain"))
    return execution_id


def test_a_cancel_with_compensation_undoes_and_ends_cancelled() -> None:
    world = World()
    execution_id = waiting_trip(world)
    assert operate.cancel(world.controls[0], execution_id, "rain", compensate=True).status == "cancelling"
    operate.cancel(world.controls[0], execution_id, compensate=True)  # asked twice
    ends(world, execution_id, "cancelled")
    assert undone(world, execution_id) == ["nights", "start"]
    assert tasks(world)[-5:] == UNDONE


def test_a_cancel_without_compensation_undoes_nothing() -> None:
    world = World()
    execution_id = waiting_trip(world)
    assert operate.cancel(world.controls[0], execution_id).status == "cancelled"
    assert undone(world, execution_id) == []
    ends(world, execution_id, "cancelled")


@pytest.mark.sized
def test_a_cancel_with_compensation_survives_a_crash_at_any_port_call() -> None:
    def run(faults: Faults) -> None:
        world = World()
        execution_id = waiting_trip(world)
        for part in (world, world.store, world.queue, world.results, world.index, world.gates):
            part.faults = faults
        while world.state(execution_id).status == "running":
            try:
                operate.cancel(world.controls[0], execution_id, compensate=True)
            except (Crash, PortError):
                world.controls[0] = world.new_control()
        ends(world, execution_id, "cancelled")
        invariants.faults_happened(world)
        assert undone(world, execution_id) == ["nights", "start"]

    calm = Faults()
    run(calm)
    for point in crash_points(calm.calls):
        run(Faults(crash_at=point))


def test_cancelling_stops_compensations_in_progress() -> None:
    world = World()
    world.tool = tool
    execution_id = world.start(TRIP).execution_id
    world.run(execution_id, until=lambda: any(r.undoes and r.waits for r in world.state(execution_id).runs.values()))
    state = operate.cancel(world.controls[0], execution_id, "leave it")
    assert state.status == "cancelled"
    ends(world, execution_id, "cancelled")
    assert tasks(world)[-1] == "cancel_flight", "the task after the wait never ran"


def test_undoing_can_be_paused() -> None:
    world = World()
    world.tool = tool
    execution_id = world.start(TRIP).execution_id
    world.run(execution_id, until=lambda: any(r.undoes and r.waits for r in world.state(execution_id).runs.values()))
    operate.pause(world.controls[0], execution_id)
    paused_at = world.clock.time
    while world.clock.time < paused_at + 3600 * SECOND:
        world.step()
    assert tasks(world)[-1] == "cancel_flight"
    operate.resume(world.controls[0], execution_id)
    ends(world, execution_id, "failed")
    assert tasks(world)[-1] == "tell"


def test_an_execution_that_took_too_long_is_undone_all_the_same() -> None:
    world = World()
    world.tool = tool
    source = TRIP.replace("workflow:", "executor: {spec: {policy: {lifecycle: {timeout_s: 300}}}}\nworkflow:").replace(
        "{name: nothing, kind: noop, result: 1}", "{name: ask, kind: callback, signal: never}"
    )
    execution_id = world.start(source).execution_id
    state = ends(world, execution_id, "failed")
    assert undone(world, execution_id) == ["nights", "start"]
    assert state.failure is not None
    assert state.failure["kind"] == "timeout"


def test_a_redrive_runs_compensated_steps_again() -> None:
    world = World()
    state = failed_trip(world)
    world.tool = lambda call: Outcome.ok(call.inputs.get("result", 1))
    before = len(world.calls)
    world.faults.quiet = False
    redrive(world.controls[0], state.execution_id, Redrive())
    ends(world, state.execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["flight", "pay", "pay", "pay", "nothing", "fails"]


def test_a_run_that_is_redriven_well_and_fails_later_is_undone_once_more() -> None:
    world = World()
    state = failed_trip(world)
    redrive(world.controls[0], state.execution_id, Redrive())
    ends(world, state.execution_id, "failed")
    assert undone(world, state.execution_id) == ["nights", "start"] * 2
