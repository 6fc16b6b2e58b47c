"""Runs executions to their end and to rest, with the checks that apply then."""

from __future__ import annotations

from typing import Any

from hypothesis import assume

from noetl_core.engine.fold.control_stream import fold_commits
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.views.explain.replay import replay
from tests.raw_events import Stored, data_of
from tests.sim import generated_playbooks, invariants
from tests.sim.ports import Faults
from tests.sim.world import World


def ends(world: World, execution_id: str, status: str) -> State:
    state = world.run(execution_id)
    assert state.status == status, (state.status, state.failure, state.stuck)
    return rests(world, execution_id)


def rests(world: World, execution_id: str) -> State:
    """Run to rest without further faults; check that the invariants hold and that a replay makes the same decisions."""
    world.faults.quiet = True
    world.drain()
    invariants.check(world, execution_id)
    assert replay(world.controls[0], execution_id).differences == ()
    return world.state(execution_id)


def run(source: str, tool: Any, faults: Faults, routers: int = 2, **settings: Any) -> tuple[World, State]:
    """Run a playbook to its end and to rest."""
    world = World(faults.fresh(), routers=routers, **settings)
    world.tool = tool
    execution_id = world.start(source).execution_id
    state = world.run(execution_id, limit=40_000)
    assert state.finished, (state.status, state.stuck)
    rested = rests(world, execution_id)
    assume(not generated_playbooks.is_abandoned(faults, state.failure))
    return world, rested


def events(world: World, execution_id: str, name: str) -> list[dict[str, Any]]:
    """Return the data of all events with that name in run streams."""
    streams = {s: c for s, c in world.store.streams.items() if s.execution_id == execution_id and s.run_id is not None}
    return [data for commits in streams.values() for data in data_of(commits, name)]


def window_is_kept(world: World, execution_id: str, window: int) -> None:
    """Assert I4 after every control commit and inside every run."""
    state = State(execution_id)
    for commit in world.store.streams[StreamId(execution_id)]:
        fold_commits(state, [commit])
        for lead in (r.loop for r in state.runs.values() if r.loop is not None):
            assert len(lead.open) * lead.plan["per_chunk"] <= window, "I4"
    for stream, commits in world.store.streams.items():
        if stream.execution_id != execution_id or stream.run_id is None:
            continue
        live: set[tuple[int, ...]] = set()
        events: list[Stored] = [e for c in commits for e in c.events]
        for event in events:
            path = tuple(event.data.get("path") or ())
            if event.name == "LoopIterationStarted" and len(path) == 1:
                live.add(path)
            elif event.name == "LoopIterationCompleted":
                live.discard(path)
            assert len(live) <= window, "I4"
