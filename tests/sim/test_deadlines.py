"""Timeouts of steps and executions: kept by the control plane, whatever the worker does."""

from __future__ import annotations

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from tests.sim import invariants
from tests.sim.ports import SECOND
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/late}\n"
STEP = (
    HEAD
    + """
workflow:
  - step: start
    spec: {policy: {lifecycle: {timeout_s: 120}}}
    tool: [{name: ask, kind: callback, signal: never}]
    next:
      arcs:
        - {step: late, when: "{{ event.name == 'step.failed' and event.error.kind == 'timeout' }}"}
  - step: late
    tool: [{name: done, kind: noop, args: {ok: true}}]
"""
)
WHOLE = (
    HEAD
    + """
executor: {spec: {policy: {lifecycle: {timeout_s: 300}}}}
workflow:
  - step: start
    tool: [{name: ask, kind: callback, signal: never}]
"""
)


def test_a_step_that_takes_too_long_fails_with_timeout_and_its_arcs_are_taken() -> None:
    world = World()
    began = world.clock.time
    execution_id = world.start(STEP).execution_id
    state = world.run(execution_id)
    assert state.status == "completed"
    assert state.finished_at is not None
    assert 120 <= (state.finished_at - began) / SECOND < 200
    world.drain()
    invariants.check(world, execution_id)


def test_an_execution_that_takes_too_long_fails_with_timeout() -> None:
    world = World()
    began = world.clock.time
    execution_id = world.start(WHOLE).execution_id
    state = world.run(execution_id)
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "timeout")
    assert state.finished_at is not None
    assert 300 <= (state.finished_at - began) / SECOND < 380
    world.drain()
    invariants.check(world, execution_id)


def test_a_worker_that_outlives_its_steps_timeout_is_fenced() -> None:
    world = World()
    execution_id = world.start(STEP.replace("kind: callback, signal: never", "kind: noop")).execution_id

    def slow(call: ToolCall) -> Outcome:
        if call.task == "ask":
            world.clock.time += 150 * SECOND
            for message in [m for m in world.queue.messages if m.command is None]:
                world.deliver_message(message)  # meanwhile the deadline's wake arrives
        return Outcome.ok(1)

    world.tool = slow
    state = world.run(execution_id)
    assert state.status == "completed"
    assert state.steps["start"].status == "error"
    world.drain()
    invariants.check(world, execution_id)
