"""Checks a world that has come to rest after two operations, and at its end."""

from __future__ import annotations

from noetl_core.control.callbacks import answer, token_for
from noetl_core.control.lifecycle.operate import resume, signal
from noetl_core.engine.dispatch.effects import caller_run
from noetl_core.engine.state import State
from noetl_core.engine.waits import signal_name
from noetl_core.views.explain.replay import replay
from tests.sim import invariants
from tests.sim.pairs.scenes import Scene
from tests.sim.ports import SECOND
from tests.sim.world import World

REST_S = 240
"""As long as two sweeps need, the second of an execution whose first reconciliation was not due yet."""
ROUNDS = 12
"""Questions of a scene, one after the other, before it counts as standing still."""
GATES = {"paused": "pause", "cancelling": "stop"}


def executions(world: World) -> list[State]:
    return [world.state(x) for x in dict.fromkeys(stream.execution_id for stream in world.store.streams)]


def rest(world: World, seconds: int = REST_S) -> None:
    """Let virtual time pass, with everything that happens in it."""
    until = world.clock.time + seconds * SECOND
    while world.clock.time < until and world.step():
        pass


def check_now(scene: Scene) -> None:
    """Check what holds as soon as both operations have ended, before anything repairs it: workers see what the log says, and the
    sweeper finds every live execution though all messages be lost."""
    for state in executions(scene.world):
        gate = scene.world.gates.held.get(state.execution_id)
        mode = "run" if gate is None else gate.mode
        assert state.finished or mode == GATES.get(state.status, "run"), f"{state.path} is {state.status}, its gate says {mode}"
    invariants.what_goes_on_is_due(scene.world)


def check_rest(scene: Scene) -> None:
    """Check that what belongs together agrees: executions with their gates, children with parents, limits with logs."""
    world = scene.world
    states = {state.execution_id: state for state in executions(world)}
    for state in states.values():
        if state.finished:
            continue
        assert state.status != "stuck", f"{state.execution_id} is stuck: {state.stuck}"
        gate = world.gates.held.get(state.execution_id)
        mode = "run" if gate is None else gate.mode
        assert mode == GATES.get(state.status, "run"), f"{state.path} is {state.status}, its gate says {mode}"
        parent = states.get(caller_run(state)[0] or "")
        if parent is not None and not parent.finished:
            aligned = state.status == parent.status or (parent.status == "running" and scene.paused_alone)
            assert aligned, f"the child {state.path} is {state.status}, its parent {parent.status}"
    invariants.places_are_those_of_the_logs(world)
    invariants.what_goes_on_is_due(world)


def check_end(scene: Scene) -> None:
    """Answer whatever waits until all executions have ended, then check every invariant on each log."""
    world = scene.world
    for _ in range(ROUNDS):
        if all(state.finished for state in executions(world)):
            break
        for state in executions(world):
            _answer(world, state, scene.paused_alone)
        rest(world)
    left = [
        (state.path, state.status, [run.waits for run in state.runs.values()])
        for state in executions(world)
        if not state.finished
    ]
    assert not left, f"I7: these stand still: {left}"
    world.drain()
    for state in executions(world):
        invariants.check(world, state.execution_id)
        assert replay(world.controls[0], state.execution_id).differences == ()
    invariants.no_place_is_left(world)


def _answer(world: World, state: State, paused_alone: bool) -> None:
    control, state = world.controls[0], world.state(state.execution_id)  # another answer may have ended it
    if state.finished:
        return
    if state.status == "paused" and (paused_alone or caller_run(state)[0] is None):
        resume(control, state.execution_id)
    for run in state.runs.values():
        for wait in run.waits:
            if any(mail["wait_id"] == wait["wait_id"] for mail in run.ready) or world.state(state.execution_id).finished:
                continue
            if wait["kind"] == "signal":
                signal(control, state.execution_id, signal_name(wait), 1)
            elif "callback" in wait and state.status == "running":
                answer(control, token_for(control, state, run, wait), 1)
