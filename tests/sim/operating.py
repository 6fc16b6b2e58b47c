"""What the tests of operators' requests and of limits have in common."""

from __future__ import annotations

from noetl_core.control.replay import replay
from noetl_core.engine.state import State
from tests.sim import invariants
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/operate}\nworkflow:\n"


def ends(world: World, execution_id: str, status: str) -> State:
    state = world.run(execution_id)
    assert state.status == status, (state.status, state.failure, state.stuck)
    world.faults.quiet = True
    world.drain()
    invariants.check(world, execution_id)
    assert replay(world.controls[0], execution_id).differences == ()
    return world.state(execution_id)
