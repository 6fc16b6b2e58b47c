"""Limits on how many run at a time: never more, in order, nobody asks while it waits, and no place is lost."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.lifecycle.operate import cancel, pause, resume
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.statuses import TERMINAL
from tests.properties import crash_points, some
from tests.sim import invariants
from tests.sim.concurrency import SHARED, STEPS, Server, all_end, start
from tests.sim.ports import SECOND, Faults
from tests.sim.redrives import again
from tests.sim.world import World


@pytest.mark.nightly
def test_five_hundred_executions_run_five_at_a_time_in_arrival_order() -> None:
    world = World(concurrency=50)
    server = Server(world)
    ids = start(world, SHARED, 505)
    assert world.state(ids[5]).awaits_place
    calls, began = world.places.calls, world.clock.time
    while world.clock.time < began + 15 * SECOND:
        assert world.step()
    assert world.places.calls == calls, "nobody asks while it waits"
    all_end(world, ids)
    assert server.most == 5
    assert world.places.most_held == {"orders-all": 5}
    assert [ids.index(x) // 5 for x in server.began] == sorted(n // 5 for n in range(505)), "in order, five by five"


def test_the_sweeper_checks_a_limit_once_a_minute_for_all_waiting_executions() -> None:
    world = World(concurrency=10)
    Server(world, seconds=3_000)
    ids = start(world, SHARED, 100)
    world.clock.time += 100 * SECOND
    while world.clock.time < world.next_sweep:
        world.step()
    for _ in range(2_000):  # the first reconciliations, after the start
        world.step()
    calls, reads, began = world.places.calls, sum(world.store.reads.values()), world.clock.time
    while world.clock.time < began + 600 * SECOND:
        assert world.step()
    assert world.places.calls - calls <= 10 * 5, "one look in a minute: the record, those that wait, the record again"
    looked = sum(world.store.reads.values()) - reads
    assert looked < 10 * 5 * 12, "the logs of the five that hold a place, not of those that wait"
    assert world.state(ids[50]).awaits_place


def test_a_higher_priority_comes_first_and_keys_that_differ_share_nothing() -> None:
    world = World(concurrency=20)
    server = Server(world)
    low = start(world, SHARED, 10)
    high = start(world, SHARED, 3, priority=5)
    other = start(world, SHARED, 2, shop="b")
    all_end(world, [*low, *high, *other])
    assert set(server.began[:7]) == {*low[:5], *other}, "the other shop has its own"
    assert set(server.began[7:10]) == set(high)


def test_steps_hold_places_while_they_run_and_joins_wait_for_waiting_steps() -> None:
    world = World(concurrency=20)
    tokens: list[int] = []

    def tool(call: Any) -> Outcome:
        if call.task == "work":
            world.take(30)
        tokens.append(len(world.places.held["shop"].holders))
        return Outcome.ok(1)

    world.tool = tool
    ids = start(world, STEPS, 10)
    all_end(world, ids)
    assert max(tokens) == 2
    assert world.places.most_held["shop"] == 2
    for execution_id in ids:
        assert world.state(execution_id).steps["end"].runs == 1, "the join fires once, with all"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source", [SHARED.replace("max: 5", "max: 1"), STEPS], ids=["playbook", "steps"])
@pytest.mark.sized
def test_a_crash_at_any_port_call_loses_no_place(source: str) -> None:
    calm = World()
    for execution_id in (ids := start(calm, source, 3)):
        calm.run(execution_id)
    points = calm.faults.calls  # afterwards they are only looked at now and then
    all_end(calm, ids)
    assert points > 60
    for after in (False, True):
        for point in crash_points(points, after):
            world = World(Faults(crash_at=point, crash_after=after))
            all_end(world, start(world, source, 3))
            assert max(world.places.most_held.values()) == (1 if source is not STEPS else 2)


@pytest.mark.one_in(2)
@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(12), 3))
def test_any_mix_of_faults_loses_no_place_and_gives_none_twice(seed: int) -> None:
    faults = Faults(seed, crash=0.02, throttle=0.02, lost_answer=0.05, duplicate=0.2, lose_record=0.1, delay=0.2)
    world = World(faults, routers=2)
    all_end(world, [*start(world, SHARED.replace("max: 5", "max: 2"), 8), *start(world, STEPS, 4)])
    assert world.places.most_held == {"orders-all": 2, "shop": 2}


def test_waiting_executions_can_be_cancelled_paused_and_resumed() -> None:
    world = World(concurrency=10)
    server = Server(world)
    ids = start(world, SHARED.replace("max: 5", "max: 1"), 4)
    cancel(world.controls[0], ids[1], "no")
    assert world.state(ids[1]).status == "cancelled"
    pause(world.controls[0], ids[2])
    world.drain(2_000)
    assert world.state(ids[0]).status == "completed"
    assert world.state(ids[2]).status == "paused"
    assert list(world.places.held["orders-all"].holders) == [ids[2]], "it has its turn, and keeps it"
    resume(world.controls[0], ids[2])
    all_end(world, [ids[0], ids[2], ids[3]])
    assert ids[1] not in server.began


def test_waiting_for_a_place_does_not_count_towards_the_timeout() -> None:
    world = World(concurrency=10)
    Server(world, seconds=100)
    timed = SHARED.replace("max: 5}", "max: 1}, lifecycle: {timeout_s: 150}")
    all_end(world, start(world, timed, 4))


def test_an_execution_over_the_limit_is_skipped() -> None:
    world = World(concurrency=10)
    server = Server(world)
    ids = start(world, SHARED.replace("max: 5", "max: 1, on_limit: skip"), 3)
    for execution_id in ids[1:]:
        state = world.state(execution_id)
        assert state.status == "cancelled"
        assert state.cancelled_for == "limit orders-all is full: 1 of 1 are taken, and on_limit is skip"
    all_end(world, ids[:1])
    assert server.began == ids[:1]


def test_a_step_over_the_limit_is_skipped() -> None:
    world = World(concurrency=10)
    Server(world)
    ids = start(world, STEPS.replace("max: 2", "max: 1, on_limit: skip"), 2)
    all_end(world, ids)
    skipped = [name for x in ids for name, step in world.state(x).steps.items() if step.status == "skipped"]
    assert skipped, "of four runs that begin at the same time"


def test_the_newest_takes_the_place_of_the_oldest() -> None:
    world = World(concurrency=10)
    server = Server(world, seconds=300)
    ids = start(world, SHARED.replace("max: 5", "max: 2, on_limit: cancel_oldest"), 6)
    for execution_id in ids:
        world.run(execution_id, limit=50_000)
    world.drain(5_000)
    statuses = [world.state(x).status for x in ids]
    assert statuses == ["cancelled"] * 4 + ["completed"] * 2
    assert world.state(ids[0]).cancelled_for == f"limit orders-all: execution {ids[2]} takes its place"
    assert set(ids[4:]) <= set(server.began)


CALLER = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: caller, path: sim/caller}
executor: {spec: {policy: {concurrency: {key: orders-all, max: 1}}}}
workflow:
  - step: start
    spec: {policy: {concurrency: {key: orders-all, max: 1}}}
    tool: {name: child, kind: playbook, path: sim/shared}
"""


def test_a_child_shares_the_place_of_its_parent_and_a_step_that_of_its_execution() -> None:
    from noetl_core.control.admit import register

    world = World(concurrency=10)
    Server(world)
    register(world.controls[0], SHARED.replace("max: 5", "max: 1"))
    all_end(world, start(world, CALLER.replace("workflow:", "workload: {n: 0}\nworkflow:"), 2))


@pytest.mark.parametrize(
    ("limit", "kind", "says"),
    [
        ("key: '{{ workload.none }}', max: 5", "template", "none"),
        ("key: \"{{ '' }}\", max: 5", "schema", "key in concurrency of the playbook must be text, and is empty"),
        ("key: a, max: '{{ workload.n }}'", "schema", "max in concurrency of the playbook must be a whole number between 1"),
        ("key: a, max: '{{ 5000 }}'", "schema", "max in concurrency"),
    ],
)
def test_an_invalid_limit_fails_with_the_reason(limit: str, kind: str, says: str) -> None:
    world = World()
    source = SHARED.replace("key: \"orders-{{ workload.shop | default('all') }}\", max: 5", limit)
    state = world.run(world.start(source).execution_id)
    assert state.failure is not None
    assert state.failure["kind"] == kind
    assert says in state.failure["message"]
    assert not world.calls
    in_step = STEPS.replace("key: shop, max: 2", limit)
    state = world.run(world.start(in_step, idempotency_key="step").execution_id)
    assert state.failure is not None
    assert state.failure["kind"] == kind
    assert state.failure["step"] in ("a", "b"), "its arcs could handle it"


def test_a_holder_without_a_log_frees_its_place() -> None:
    world = World(concurrency=10)
    Server(world)
    ids = start(world, SHARED.replace("max: 5", "max: 1"), 1)
    all_end(world, ids)
    world.faults.quiet = False
    from noetl_core.ports import LimitRecord

    world.places.held["orders-all"] = LimitRecord("orders-all", {"123": 1}, 1, False, 7)
    later = start(world, SHARED.replace("max: 5", "max: 1"), 2)
    began = world.clock.time
    all_end(world, later)
    assert (world.clock.time - began) / SECOND < 400, "a lease and a sweep"


def test_executions_of_other_versions_use_their_own_max() -> None:
    world = World(concurrency=10)
    server = Server(world)
    ids = start(world, SHARED.replace("max: 5", "max: 1"), 2)
    more = start(world, SHARED.replace("max: 5", "max: 3"), 4)
    all_end(world, [*ids, *more])
    assert server.most <= 3
    assert server.began[:2] == ids, "nobody overtakes"


def test_a_redriven_execution_asks_again() -> None:
    world = World(concurrency=10)
    world.tool = lambda call: Outcome.failed("client_error", "no", retryable=False)
    source = SHARED.replace("max: 5", "max: 1")
    (first,) = start(world, source, 1)
    assert world.run(first).status == "failed"
    Server(world)
    others = start(world, source, 2, priority=1)
    again(world, first)
    assert world.state(first).awaits_place
    all_end(world, [*others, first])
    assert world.state(first).status in TERMINAL


def test_with_the_stream_off_the_sweeper_alone_passes_places_on() -> None:
    world = World(stream_on=False)
    all_end(world, start(world, SHARED.replace("max: 5", "max: 1"), 4))


def test_without_a_single_wake_the_sweeper_alone_passes_places_on() -> None:
    world = World()
    world.queue.loses_wakes = True
    began = world.clock.time
    all_end(world, start(world, SHARED.replace("max: 5", "max: 1"), 4))
    assert (world.clock.time - began) / SECOND < 4 * 130, "a sweep each"


@pytest.mark.sized
def test_a_crash_at_any_port_call_cancels_nobody_but_the_oldest() -> None:
    source = SHARED.replace("max: 5", "max: 1, on_limit: cancel_oldest")

    def play(world: World) -> None:
        ids = start(world, source, 3)
        for execution_id in ids:
            world.run(execution_id, limit=50_000)
        world.faults.quiet = True
        world.drain(20_000)
        states = [world.state(x) for x in ids]
        assert states[-1].status == "completed", "nobody came after it"
        assert {state.status for state in states[:-1]} <= {"cancelled", "completed"}
        assert world.places.most_held["orders-all"] == 1
        assert not any(record.holders or record.waiting for record in world.places.held.values()), world.places.held
        for execution_id in ids:
            invariants.check(world, execution_id)

    calm = World()
    play(calm)
    for after in (False, True):
        for point in crash_points(calm.faults.calls, after):
            play(World(Faults(crash_at=point, crash_after=after)))
