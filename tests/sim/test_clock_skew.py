"""Clocks that differ: those of workers from each other and from that of the control plane."""

from __future__ import annotations

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.views.explain.replay import replay
from tests.sim import invariants
from tests.sim.interleavings import HEAD
from tests.sim.ports import Faults
from tests.sim.world import World

SKEW_S = 15
"""More than clocks of machines differ that ask a time server; less than what is left of a lease when it is renewed."""
BUSY = (
    HEAD
    + """
  - step: start
    loop: {in: [1, 2, 3, 4], iterator: n, spec: {mode: parallel, max_in_flight: 2, policy: {exec: distributed}, chunk_size: 1}}
    tool:
      - name: slow
        kind: http
        url: "http://x/{{ iter.n }}"
        spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 20}}]}}
      - {name: nap, kind: wait, duration: 5}
    next: {arcs: [{step: then}]}
  - step: then
    tool: [{name: last, kind: noop}]
"""
)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("skew_s", [0, SKEW_S])
@pytest.mark.parametrize("seed", range(4))
def test_workers_with_wrong_clocks_do_each_task_once(seed: int, skew_s: int) -> None:
    world = World(Faults(seed, duplicate=0.5, delay=0.3), concurrency=3, skew_s=skew_s)

    def tool(call: ToolCall) -> Outcome:
        if call.kind == "http":
            world.take(90)
        return Outcome.failed("server_error", "busy") if call.task == "slow" and call.attempt == 1 else Outcome.ok(1)

    world.tool = tool
    execution_id = world.start(BUSY).execution_id
    assert world.run(execution_id).status == "completed"
    world.faults.quiet = True
    world.drain()
    invariants.check(world, execution_id)
    invariants.faults_happened(world)
    assert replay(world.controls[0], execution_id).differences == ()
    calls = [(call.task_run_id, call.attempt) for call in world.calls]
    assert len(set(calls)) == len(calls), "no live worker lost its lease"
    starts = [e for stream, commits in world.store.streams.items() if stream.run_id for c in commits for e in c.events]
    assert not any(e.name == "StepStarted" and e.data.get("takeover") for e in starts)


@pytest.mark.parametrize("skew_s", [0, SKEW_S])
@pytest.mark.parametrize("seed", range(4))
def test_workers_that_die_are_taken_over_not_earlier_than_their_clocks_differ(seed: int, skew_s: int) -> None:
    world = World(Faults(seed, crash=0.02, duplicate=0.5), skew_s=skew_s)
    execution_id = world.start(BUSY).execution_id
    assert world.run(execution_id).status == "completed"
    world.faults.quiet = True
    world.drain()
    invariants.check(world, execution_id)
