"""Rates that executions share: never more in a second than promised, hardly less, despite deaths."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.engine.statuses import TERMINAL
from tests.properties import crash_points
from tests.sim import invariants
from tests.sim.ports import SECOND, Faults
from tests.sim.runs import events
from tests.sim.world import World

SHARED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: shared, path: sim/shared}
workload: {calls: 200, in_flight: 10}
workflow:
  - step: start
    loop: {in: "{{ range(workload.calls) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: "{{ workload.in_flight }}"}}
    tool:
      name: call
      kind: http
      url: "http://api/{{ iter.n }}"
      spec: {policy: {rate: {key: "api-{{ workload.tenant | default('all') }}", per_second: 5}}}
"""


def most_in_a_second(times: Sequence[int]) -> int:
    """The most calls in any second."""
    ordered = sorted(times)
    return max(n - bisect_left(ordered, at - SECOND + 1) + 1 for n, at in enumerate(ordered))


@pytest.mark.nightly
def test_ten_executions_of_200_calls_keep_to_five_a_second() -> None:
    world = World(concurrency=20)
    seen: list[int] = []

    def called(call: object) -> Outcome:
        seen.append(world.clock.time)
        return Outcome.ok(1)

    world.tool = called
    ids = [world.start(SHARED, idempotency_key=str(n)).execution_id for n in range(10)]
    for execution_id in ids:
        assert world.run(execution_id, limit=200_000).status == "completed"
    assert len(seen) == 2_000
    assert most_in_a_second(seen) <= 5 + 1
    took = (max(seen) - min(seen)) / SECOND
    assert 400 <= took <= 440, f"2,000 calls took {took} s"
    assert len(world.rates.reserved) <= 600, "one request reserves many permits"


@pytest.mark.nightly
def test_dead_workers_lose_only_the_permits_that_they_had_reserved() -> None:
    """Every ten seconds one dies, while the others go on: its two seconds' worth of permits is what nobody uses."""
    world = World(concurrency=20)
    seen: list[int] = []

    def called(call: object) -> Outcome:
        seen.append(world.clock.time)
        return Outcome.ok(1)

    world.tool = called
    ids = [world.start(SHARED, idempotency_key=str(n)).execution_id for n in range(10)]
    deaths, next_at = 0, world.clock.time + 10 * SECOND
    while not all(world.state(x).status in TERMINAL for x in ids):
        assert world.step(), "it stands still"
        if world.clock.time > next_at and len(world.workers):
            world.workers.kill(world.random.randrange(len(world.workers)))
            deaths, next_at = deaths + 1, world.clock.time + 10 * SECOND
    assert deaths > 20, "workers died"
    assert len(seen) >= 2_000
    assert most_in_a_second(seen) <= 5 + 1
    busy = [at for at in seen if at < min(seen) + 300 * SECOND]  # in the end few are left, and one of them may wait for its lease
    assert len(busy) >= 0.9 * 5 * 300 - deaths * 10
    for execution_id in ids:
        invariants.check(world, execution_id)


def test_nothing_is_billed_while_a_permit_is_far_away() -> None:
    world = World(concurrency=20)
    ids = [world.start(SHARED, {"calls": 20}, idempotency_key=str(n)).execution_id for n in range(10)]
    for execution_id in ids:
        assert world.run(execution_id).status == "completed"
    waits = [wait for x in ids for suspended in events(world, x, "StepSuspended") for wait in suspended["waits"]]
    assert waits, "a run whose permit is far away is suspended"
    assert {wait["limit"] for wait in waits} == {"api-all"}
    assert all(wait["permit"] - wait["at"] == 3 * SECOND for wait in waits), "it wakes before its permit, and does not miss it"


def test_keys_that_differ_share_nothing() -> None:
    world = World(concurrency=4)
    began = world.clock.time
    for n in range(4):
        world.start(SHARED, {"calls": 25, "tenant": f"t{n}"}, idempotency_key=str(n))
    world.drain()
    assert (world.clock.time - began) / SECOND < 100, "25 calls of each take as long as 25 calls of one"
    assert sorted(world.rates.held) == ["api-t0", "api-t1", "api-t2", "api-t3"]


RETRIED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: retried, path: sim/retried}
workflow:
  - step: start
    tool:
      - name: call
        kind: http
        url: "http://api"
        spec:
          policy:
            rate: {key: api, per_second: "{{ 0.5 }}", burst: 2}
            rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 6, delay: 0}}]
"""


def test_every_attempt_takes_a_permit_and_a_burst_is_available_at_once() -> None:
    world = World(concurrency=2)
    seen: list[int] = []

    def fails(call: object) -> Outcome:
        seen.append(world.clock.time)
        return Outcome.failed("server_error", "no")

    world.tool = fails
    world.run(world.start(RETRIED).execution_id)
    gaps = [round((b - a) / SECOND, 1) for a, b in pairwise(seen)]
    assert gaps[0] == 0, "the burst"
    assert all(2.0 <= gap <= 2.2 for gap in gaps[1:]), gaps


@pytest.mark.parametrize(
    ("rate", "kind", "says"),
    [
        ("{key: '{{ workload.none }}', per_second: 5}", "template", "rate of task call"),
        ("{key: '{{ workload.empty }}', per_second: 5}", "schema", "rate.key of task call must be text, and is empty"),
        ("{key: '{{ workload.list }}', per_second: 5}", "schema", "rate.key of task call must be text"),
        ("{key: \"{{ 'x' * 300 }}\", per_second: 5}", "schema", "at most 200 characters"),
        ("{key: a, per_second: '{{ workload.zero }}'}", "schema", "per_second"),
        ("{key: a, per_second: '{{ workload.empty }}'}", "schema", "per_second"),
        ("{key: a, per_second: 5, burst: '{{ workload.zero }}'}", "schema", "burst"),
        ("{key: a, per_second: '{{ 1e9 }}'}", "schema", "per_second"),
    ],
)
def test_an_invalid_rate_fails_its_task_with_the_reason(rate: str, kind: str, says: str) -> None:
    world = World()
    source = RETRIED.replace('{key: api, per_second: "{{ 0.5 }}", burst: 2}', rate).replace("attempts: 6", "attempts: 1")
    source = source.replace("workflow:", "workload: {empty: '', zero: 0, list: [1]}\nworkflow:")
    state = world.run(world.start(source).execution_id)
    assert state.failure is not None
    assert state.failure["kind"] == kind
    assert says in state.failure["message"]
    assert not world.calls, "it is not called"


def test_a_permit_after_the_end_of_the_execution_is_refused() -> None:
    world = World(concurrency=4)
    slow = SHARED.replace("per_second: 5", "per_second: 0.00002").replace(
        "workload:", "executor: {spec: {lifetime_s: 7200}}\nworkload:"
    )
    state = world.run(world.start(slow, {"calls": 2}).execution_id)
    assert state.failure is not None
    assert state.failure["kind"] == "rate_limit"
    assert "after the latest end of the execution" in state.failure["message"]


@pytest.mark.sized
def test_a_crash_at_any_port_call_leaves_every_call_made_and_the_rate_kept() -> None:
    def run(world: World) -> None:
        seen: list[int] = []

        def called(call: object) -> Outcome:
            seen.append(world.clock.time)
            return Outcome.ok(1)

        world.tool = called
        ids = [world.start(SHARED, {"calls": 8, "in_flight": 4}, idempotency_key=str(n)).execution_id for n in range(2)]
        for execution_id in ids:
            assert world.run(execution_id).status == "completed"
            world.drain()
            invariants.check(world, execution_id)
        assert len({call.inputs["url"] + call.execution_id for call in world.calls}) == 16
        assert most_in_a_second(seen) <= 6

    calm = World()
    run(calm)
    points = calm.faults.calls
    assert points > 30
    for after in (False, True):
        for point in crash_points(points, after):
            run(World(Faults(crash_at=point, crash_after=after)))
