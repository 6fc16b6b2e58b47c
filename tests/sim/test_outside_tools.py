"""Work that a plugin's tool has done outside: begun once, looked at, and stopped whenever nobody wants it any more."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from noetl_core.control.lifecycle import operate
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.ports import PortError
from noetl_core.tools.base import ToolCall
from noetl_core.views.executions import executions
from noetl_core.views.explain.replay import replay
from tests.properties import crash_points, some
from tests.sim import invariants
from tests.sim.outside_service import Crane, CraneTool
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.runs import ends
from tests.sim.world import World

HEAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: sim/outside}
executor: {spec: {extensions: true}}
workflow:
"""
ONE = (
    HEAD
    + """
  - step: start
    tool:
      - {name: before, kind: noop, result: 7}
      - {name: lift, kind: crane, seconds: 4000, load: "{{ before }}"}
      - {name: after, kind: noop, result: "{{ lift.up + 1 }}"}
"""
)
LOOP = (
    HEAD
    + """
  - step: start
    loop: {in: [500, 900, 1300, 1700], iterator: s, spec: {mode: parallel, max_in_flight: 2%s}}
    tool: {name: lift, kind: crane, seconds: "{{ iter.s }}", load: "{{ iter.s }}"}
"""
)
TIMED = ONE.replace("seconds: 4000", "seconds: 4000, spec: {timeout: 1000}")
STEP_TIMEOUT = ONE.replace("  - step: start\n", "  - step: start\n    spec: {timeout_s: 1000}\n")


def world_of(faults: Faults | None = None, **more: Any) -> tuple[World, CraneTool]:
    world = World(faults or Faults(), **more)
    tool = CraneTool(Crane(world.faults, world.clock))
    world.tools = {"crane": tool}
    return world, tool


def at_rest(world: World, tool: CraneTool, execution_id: str) -> None:
    """The log is sound, and nothing hangs."""
    world.faults.quiet = True
    world.drain()
    invariants.check(world, execution_id)
    assert not tool.crane.hanging()
    assert all(n == 1 for n in tool.crane.begun.values())
    assert replay(world.controls[0], execution_id).differences == ()


def done(world: World, tool: CraneTool, source: str, expected: Any) -> State:
    execution_id = world.start(source).execution_id
    state = world.run(execution_id, limit=40_000)
    assert state.status == "completed", (state.status, state.failure, dict(world.faults.seen))
    at_rest(world, tool, execution_id)
    assert executions.summary(world.controls[0], execution_id)["result"] == expected
    return state


def cancelled(world: World, tool: CraneTool, source: str, when: Callable[[str], bool]) -> str:
    execution_id = world.start(source).execution_id
    world.run(execution_id, until=lambda: when(execution_id))
    while not world.state(execution_id).finished and world.state(execution_id).status != "cancelling":
        try:
            operate.cancel(world.controls[0], execution_id)
        except (Crash, PortError):
            world.controls[0] = world.new_control()
    ends(world, execution_id, "cancelled")
    at_rest(world, tool, execution_id)
    return execution_id


def lifting(tool: CraneTool) -> Callable[[str], bool]:
    return lambda _: bool(tool.crane.lifted)


def test_work_begins_after_it_is_recorded_and_no_worker_waits_for_it() -> None:
    world, tool = world_of()
    execution_id = world.start(ONE).execution_id
    world.run(execution_id, until=lambda: bool(tool.crane.lifted))
    run = next(iter(world.state(execution_id).runs))
    assert world.names(execution_id, run)[:4] == ["StepStarted", "TaskProcessed", "StepSuspended", "StepResumed"]
    state = world.run(execution_id)
    assert state.status == "completed"
    at_rest(world, tool, execution_id)
    processed = [e for c in world.store.streams[StreamId(execution_id, run)] for e in c.events if e.name == "TaskProcessed"]
    assert executions.summary(world.controls[0], execution_id)["result"] == 8
    assert 4000 * 1000 <= processed[1].data["outcome"]["meta"]["duration_ms"] < 4200 * 1000, "that of all of it"
    assert tool.crane.begun.total() == 1
    assert {c.outside.looks for c in tool.calls if c.outside} == set(range(len(tool.calls)))


def test_invalid_inputs_are_reported_before_anything_is_recorded() -> None:
    world, _ = world_of()
    execution_id = world.start(ONE.replace("seconds: 4000, ", "")).execution_id
    state = ends(world, execution_id, "failed")
    assert state.failure is not None
    assert state.failure["message"] == "crane: `seconds` is missing"
    assert "StepSuspended" not in world.names(execution_id, state.step("start").last_run)


@pytest.mark.sized
def test_a_crash_before_or_after_any_port_call_begins_nothing_twice() -> None:
    world, tool = world_of()
    done(world, tool, ONE.replace("4000", "200"), 8)
    points = world.faults.calls
    assert points > 50
    for after in (False, True):
        for point in crash_points(points, after):
            done(*world_of(Faults(crash_at=point, crash_after=after)), ONE.replace("4000", "200"), 8)


@pytest.mark.one_in(4)
@pytest.mark.sized
@pytest.mark.parametrize(("seed", "spec"), some(product(range(12), ["", ", policy: {exec: local}"]), 7))
def test_under_any_faults_a_loop_lifts_each_load_once(seed: int, spec: str) -> None:
    faults = Faults(seed=seed, crash=0.02, throttle=0.02, lost_answer=0.05, duplicate=0.2, lose_record=0.1, delay=0.2)
    world, tool = world_of(faults, routers=2)
    done(world, tool, LOOP % spec, [{"up": s} for s in (500, 900, 1300, 1700)])
    assert tool.crane.begun.total() == 4


def test_with_the_stream_off_the_sweeper_alone_polls_the_work() -> None:
    done(*world_of(stream_on=False), ONE, 8)


def test_a_loop_keeps_its_window_and_holds_no_worker() -> None:
    world, tool = world_of()
    most = [0]

    def count(_: ToolCall) -> None:
        most[0] = max(most[0], len(tool.crane.hanging()))

    tool.before = count
    done(world, tool, LOOP % "", [{"up": s} for s in (500, 900, 1300, 1700)])
    assert most[0] <= 2
    assert all(c.chunk is not None or c.mode == "first" for c in world.queue.sent), "each item is a chunk of its own"


def test_each_attempt_begins_work_of_its_own() -> None:
    world, tool = world_of()
    again = "breaks: 1, spec: {policy: {rules: [{when: \"{{ outcome.error.kind == 'server_error' }}\", then: {do: retry, attempts: 2, delay: 60}}]}}"
    done(world, tool, ONE.replace("seconds: 4000", f"seconds: 200, {again}"), 8)
    assert [name.rpartition("-")[2] for name in tool.crane.begun] == ["1", "2"]


@pytest.mark.parametrize("source", [ONE, LOOP % "", LOOP % ", policy: {exec: local}"])
def test_a_cancel_stops_the_work(source: str) -> None:
    world, tool = world_of()
    execution_id = cancelled(world, tool, source, lifting(tool))
    assert set(tool.crane.lowered) == set(tool.crane.lifted)
    names = world.names(execution_id)
    assert names.count("StopStarted") == names.count("StopDone") > 0
    assert names.index("StopDone") < names.index("WorkflowFinished"), "who waits for the end knows that nothing goes on"


@pytest.mark.sized
def test_a_cancel_stops_the_work_through_a_crash_at_any_point() -> None:
    calm, tool = world_of()
    cancelled(calm, tool, ONE, lifting(tool))
    for after in (False, True):
        for point in crash_points(calm.faults.calls, after):
            world, tool = world_of(Faults(crash_at=point, crash_after=after))
            cancelled(world, tool, ONE, lifting(tool))
            assert tool.crane.lowered or not tool.crane.lifted


@pytest.mark.nightly
def test_a_cancel_at_any_moment_leaves_no_work_in_progress() -> None:
    steps = 0
    while True:
        world, tool = world_of()
        execution_id = world.start(ONE.replace("4000", "200")).execution_id
        for _ in range(steps):
            if not world.step():
                break
        if world.state(execution_id).finished:
            break
        operate.cancel(world.controls[0], execution_id)
        ends(world, execution_id, "cancelled")
        at_rest(world, tool, execution_id)
        steps += 1
    assert steps > 15


def test_a_cancel_while_the_work_begins_stops_it() -> None:
    world, tool = world_of()

    def cancel(call: ToolCall) -> None:
        if call.outside is not None and not call.outside.looks:
            operate.cancel(world.controls[0], call.execution_id)
            while any(m.command is not None and m.command.undoes for m in world.queue.messages):
                message = next(m for m in world.queue.messages if m.command is not None and m.command.undoes)
                message.receives += 1
                world.carry_out(message)
                assert not tool.crane.lifted, "it is stopped before it has begun"
                break

    tool.before = cancel
    execution_id = world.start(ONE).execution_id
    ends(world, execution_id, "cancelled")
    at_rest(world, tool, execution_id)
    assert tool.crane.begun.total() == 1
    assert tool.crane.lowered


def begin_frozen(world: World, tool: CraneTool, meanwhile: Callable[[str], None]) -> str:
    """A worker stands still just before it begins the work, and continues when all of `meanwhile` has happened."""
    execution_id = world.start(ONE).execution_id

    def resumed() -> bool:
        return any(m.command is not None and m.command.mode == "resume" for m in world.queue.messages)

    world.run(execution_id, until=resumed)
    message = next(m for m in world.queue.messages if m.command is not None and m.command.mode == "resume")
    world.queue.messages.remove(message)

    def freeze(call: ToolCall) -> None:
        tool.before = None
        meanwhile(call.execution_id)

    tool.before = freeze
    assert message.command is not None
    world.handle(message.command)
    return execution_id


def test_a_frozen_worker_that_begins_it_long_after_the_end_stops_it_itself() -> None:
    world, tool = world_of()

    def cancel(execution_id: str) -> None:
        operate.cancel(world.controls[0], execution_id)
        ends(world, execution_id, "cancelled")
        assert not tool.crane.lifted

    execution_id = begin_frozen(world, tool, cancel)
    at_rest(world, tool, execution_id)
    assert tool.crane.begun.total() == 1
    assert tool.crane.lowered


def test_a_worker_that_was_taken_over_leaves_the_work_to_its_successor() -> None:
    world, tool = world_of()

    def take_over(execution_id: str) -> None:
        world.run(execution_id, until=lambda: len(tool.calls) == 4)

    execution_id = begin_frozen(world, tool, take_over)
    ends(world, execution_id, "completed")
    at_rest(world, tool, execution_id)
    assert not tool.crane.stops


def test_work_is_stopped_at_its_timeout() -> None:
    world, tool = world_of()
    execution_id = world.start(TIMED).execution_id
    state = ends(world, execution_id, "failed")
    at_rest(world, tool, execution_id)
    assert state.failure is not None
    assert state.failure["kind"] == "timeout"
    assert "was stopped" in state.failure["message"]
    assert tool.crane.stops.total() == 1
    assert "StopStarted" not in world.names(execution_id), "the task has its outcome: nothing is left"


def test_a_step_that_took_too_long_stops_its_work_and_other_branches_go_on() -> None:
    world, tool = world_of()
    source = (
        STEP_TIMEOUT
        + "    next: {arcs: [{step: then, when: \"{{ event.name == 'step.failed' }}\"}]}\n  - {step: then, tool: {kind: noop, result: fine}}\n"
    )
    execution_id = world.start(source).execution_id
    ends(world, execution_id, "completed")
    at_rest(world, tool, execution_id)
    assert tool.crane.stops.total() == 1


def test_an_execution_that_took_too_long_stops_its_work() -> None:
    world, tool = world_of()
    source = ONE.replace("extensions: true", "extensions: true, policy: {lifecycle: {timeout_s: 600}}")
    execution_id = world.start(source).execution_id
    ends(world, execution_id, "failed")
    at_rest(world, tool, execution_id)
    assert tool.crane.lowered


def test_outside_work_is_stopped_when_its_workers_keep_dying() -> None:
    world, tool = world_of()

    def die(call: ToolCall) -> None:
        if call.outside is not None and call.outside.looks == 1:
            raise Crash

    tool.before = die
    execution_id = world.start(ONE.replace("4000", "400000")).execution_id
    state = ends(world, execution_id, "failed")
    at_rest(world, tool, execution_id)
    assert state.failure is not None
    assert state.failure["kind"] == "lost"
    assert tool.crane.lowered


def test_stopping_is_retried_and_its_failure_reported_at_the_end() -> None:
    world, tool = world_of()
    tool.refusals = [Outcome.failed("server_error", "the crane does not answer") for _ in range(3)]
    cancelled(world, tool, ONE, lifting(tool))
    assert tool.crane.lowered
    world, tool = world_of()
    tool.refusals = [Outcome.failed("auth", "not yours", retryable=False)]
    execution_id = world.start(ONE).execution_id
    world.run(execution_id, until=lambda: bool(tool.crane.lifted))
    operate.cancel(world.controls[0], execution_id)
    ends(world, execution_id, "cancelled")
    stops = [e for c in world.store.streams[StreamId(execution_id)] for e in c.events if e.name == "StopDone"]
    told = [error["message"] for stop in stops if (error := stop.data.get("error"))]
    assert told == ["the task's work outside may go on: not yours"]


def test_work_continues_during_a_pause_and_is_polled_after_it() -> None:
    world, tool = world_of()
    execution_id = world.start(ONE).execution_id
    world.run(execution_id, until=lambda: bool(tool.crane.lifted))
    operate.pause(world.controls[0], execution_id)
    paused_at = world.clock.time
    while world.clock.time < paused_at + 6 * 3600 * SECOND and world.step():
        pass
    looks = len(tool.calls)
    operate.resume(world.controls[0], execution_id)
    state = ends(world, execution_id, "completed")
    assert len(tool.calls) == looks + 1
    at_rest(world, tool, state.execution_id)


def test_a_rate_counts_the_work_and_not_its_polls() -> None:
    world, tool = world_of()
    done(world, tool, ONE.replace("seconds: 4000", "seconds: 400, spec: {policy: {rate: {key: cranes, per_second: 1}}}"), 8)
    assert [key for key, _ in world.rates.reserved] == ["cranes"]
    assert len(tool.calls) > 3
