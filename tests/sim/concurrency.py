"""Executions that share a limit of concurrency, and the service that their tasks call."""

from __future__ import annotations

from typing import Any

from noetl_core.engine.outcome import Outcome
from noetl_core.engine.state import State
from noetl_core.views.explain.replay import replay
from tests.sim import invariants
from tests.sim.world import World

SHARED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: shared, path: sim/shared}
workload: {n: 0, priority: 0}
executor: {spec: {policy: {concurrency: {key: "orders-{{ workload.shop | default('all') }}", max: 5}, priority: "{{ workload.priority }}"}}}
workflow:
  - step: start
    tool: {name: work, kind: http, url: "http://x/{{ workload.n }}"}
"""


class Server:
    """The service that the tasks call. It records how many tasks run concurrently, and in which order they begin."""

    def __init__(self, world: World, seconds: float = 20) -> None:
        self.world, self.seconds = world, seconds
        self.now: set[str] = set()
        self.most = 0
        self.began: list[str] = []
        world.tool = self

    def __call__(self, call: Any) -> Outcome:
        self.now.add(call.execution_id)
        self.most = max(self.most, len(self.now))
        self.began.append(call.execution_id)
        self.world.take(self.seconds)
        self.now.discard(call.execution_id)
        return Outcome.ok(1)


def start(world: World, source: str, count: int, **payload: Any) -> list[str]:
    first = len(world.store.streams)
    return [world.start(source, {"n": n, **payload}, idempotency_key=f"{first}-{n}").execution_id for n in range(count)]


def at_rest(world: World, ids: list[str], limit: int = 100_000) -> list[State]:
    """Run until all executions have ended, check that no place is left and that the invariants hold, and return the states."""
    for execution_id in ids:
        world.run(execution_id, limit=limit)
    world.faults.quiet = True
    world.drain(50_000)
    for execution_id in ids:
        invariants.check(world, execution_id)
        assert replay(world.controls[0], execution_id).differences == ()
    assert not any(r.holders or r.waiting or r.displaced for r in world.places.held.values()), world.places.held
    assert not any(world.places.queues.values()), world.places.queues
    return [world.state(execution_id) for execution_id in ids]


def all_end(world: World, ids: list[str]) -> None:
    for state in at_rest(world, ids, limit=200_000):
        assert state.status == "completed", (state.status, state.failure, state.limits, world.places.held)


STEPS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: steps, path: sim/steps}
workload: {n: 0}
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - step: a
    spec: {policy: {concurrency: {key: shop, max: 2}}}
    tool: {name: work, kind: http, url: "http://x"}
    next: {arcs: [{step: end}]}
  - step: b
    loop: {in: [1, 2], iterator: i, spec: {mode: parallel, policy: {exec: distributed}, chunk_size: 1}}
    spec: {policy: {concurrency: {key: shop, max: 2}}}
    tool: {name: more, kind: noop}
    next: {arcs: [{step: end}]}
  - step: end
    spec: {join: all}
    tool: {name: sum, kind: noop}
"""
