"""Playbooks and helpers of the tests that one execution's failure does not stop others."""

from __future__ import annotations

from noetl_core.engine.state import State
from noetl_core.engine.statuses import TERMINAL
from noetl_core.views.explain.replay import replay
from tests.sim import invariants
from tests.sim.ports import SECOND
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/live}\n"
TWO = (
    HEAD
    + """
workflow:
  - step: start
    tool: {name: a, kind: noop, args: {n: 1}}
    next: {arcs: [{step: second}]}
  - step: second
    tool: {name: b, kind: noop, args: {n: 2}}
"""
)
WAITS = (
    HEAD
    + """
workflow:
  - step: start
    tool: [{name: nap, kind: wait, duration: 2h}, {name: after, kind: noop}]
"""
)


def start(world: World, source: str, n: int = 0) -> str:
    return world.start(source, idempotency_key=f"key {n}").execution_id


def ended(world: World, execution_id: str, status: str = "completed") -> State:
    state = world.state(execution_id)
    assert state.status == status, (state.status, state.failure, state.stuck)
    world.faults.quiet = True
    invariants.check(world, execution_id)
    assert replay(world.controls[0], execution_id).differences == ()
    return state


def minutes(world: World, execution_ids: list[str], limit_s: float) -> float:
    """Return the minutes until all executions have ended, waiting at most `limit_s` seconds."""
    began = world.clock.time
    for _ in range(500_000):
        if all(world.state(x).status in TERMINAL for x in execution_ids):
            break
        if world.clock.time - began > limit_s * SECOND or not world.step():
            break
    return (world.clock.time - began) / SECOND / 60
