"""Under the services' limits nothing is lost and nothing is done twice, however many writes are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noetl_core.ports import Unavailable
from tests.sim.limited_ports import ATTEMPTS, Limits, Partitions, Throughput, quiet
from tests.sim.limits_services import Account, Function, Queue, Queued, Timeline
from tests.sim.limits_world import LimitedWorld
from tests.sim.ports import SECOND, SimClock

ONE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: one, path: sim/one}
workflow:
  - {step: start, tool: {kind: noop}}
"""
LOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: loop, path: sim/loop}
workflow:
  - step: start
    loop:
      in: "{{ range(3000) }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 300, chunk_size: 100, policy: {exec: distributed}}
    tool: {kind: noop, result: "{{ iter.n }}"}
"""
SMALL = Limits(
    partition_writes=500,
    log_partitions=1,
    split_after_s=2,
    index_partitions=1,
    api_rate=300,
    api_burst=100,
    concurrency=60,
    ramp_per_10s=40,
    pollers_at_first=5,
    pollers_per_minute=120,
    worker_concurrency=40,
    in_flight=30,
)
"""Too tight for 200 starts a second: the key of the due items and the log's partition take 125 executions each."""


def all_ended(world: LimitedWorld, asked: int) -> None:
    assert world.asked == set(), "an execution that was asked for did not end"
    assert world.live == set()
    assert world.checked["completed"] == asked
    assert world.store.streams == {}, "there is an execution that nobody asked for"
    assert world.stream.disorder == {}
    assert not world.commands.letters
    assert not world.wakes.letters


@pytest.mark.nightly
def test_two_hundred_starts_a_second_are_refused_and_split_and_every_execution_ends_once() -> None:
    world = LimitedWorld(replace(SMALL, index_partitions=4, concurrency=80), ONE, task_s=0.01)
    world.start_many(200, 10)
    world.run()
    all_ended(world, 2_000)
    assert world.checked["tasks called"] == 2_000, "each task once"
    assert world.checked["against all invariants"] > 20
    assert world.throughput.refused["log"] > 100, "the log's partition refused nothing"
    assert world.stream.splits >= 1
    assert world.tried_again.total() > 0, "no client came again"
    assert world.commands.most_in_flight <= SMALL.in_flight
    assert max(sum(running.values()) for running in world.seen.running.values()) <= 80
    assert all(lag < 120 for lag in world.stream.lags.values())


@pytest.mark.nightly
def test_a_key_of_the_index_that_takes_a_seventh_of_the_load_delays_and_loses_nothing() -> None:
    world = LimitedWorld(replace(SMALL, log_partitions=8, partition_writes=60), ONE, seed=3, task_s=0.01)
    world.start_many(100, 8)
    world.run()
    all_ended(world, 800)
    assert world.throughput.refused["due"] > 100
    assert world.throughput.gave_up > 0, "no call was given up after all its attempts"
    assert world.tried_again["503: the log or the index refused"] > 0


@pytest.mark.nightly
def test_a_spread_loop_under_the_limits_runs_each_iteration_once() -> None:
    world = LimitedWorld(replace(SMALL, partition_writes=20, split_after_s=99), LOOP, task_s=0.002, whole_every=1)
    world.start_many(1, 1)
    world.run()
    all_ended(world, 1)
    assert world.checked["tasks called"] == 3_000
    assert world.throughput.refused["log"] > 0


# --- the limits themselves --------------------------------------------------------------------------------------------------


def test_a_partition_takes_its_units_a_second_and_a_refused_call_waits_longer_each_time() -> None:
    clock = SimClock()
    throughput = Throughput(clock, 10, quiet().random)
    began = clock.time
    for _ in range(10):
        throughput.take("write", {"a": 1})
    throughput.take("write", {"b": 10})
    assert clock.time == began, "another partition has units of its own"
    throughput.take("write", {"a": 1})
    assert clock.time > began
    assert throughput.refused["a"] >= 1


def test_a_call_that_is_refused_every_time_is_unavailable_as_the_adapters_say_it() -> None:
    clock = SimClock()
    throughput = Throughput(clock, 10, quiet().random)
    for second in range(100):
        throughput.taken[clock.time // SECOND + second]["a"] = 10
    with pytest.raises(Unavailable, match="append x: ThrottlingException"):
        throughput.take("append x", {"a": 1})
    assert throughput.gave_up == 1
    assert ATTEMPTS == 5


def test_a_partition_that_refuses_for_long_is_split_and_its_keys_stay_in_one_of_the_halves() -> None:
    splits: list[tuple[int, int, int]] = []
    partitions = Partitions(2, 3, lambda *names: splits.append(names))
    before = {key: partitions.of(key) for key in map(str, range(200))}
    for second in (1, 1, 1, 2, 3):
        partitions.refused(0, second)
    ((parent, left, right),) = splits
    after = {key: partitions.of(key) for key in before}
    assert {after[key] for key, name in before.items() if name == parent} == {left, right}
    assert all(after[key] == name for key, name in before.items() if name != parent)
    partitions.refused(0, 9)
    assert len(splits) == 1, "it is there no more"


def test_a_queue_adds_pollers_and_takes_failed_messages_back() -> None:
    clock = SimClock()
    timeline = Timeline(clock)
    tried: list[str] = []

    def handle(message: Queued) -> None:
        clock.sleep(1)
        tried.append(message.execution_id)
        if message.execution_id == "7" and tried.count("7") < 3:
            raise Unavailable("refused")

    limits = replace(SMALL, pollers_at_first=2, pollers_per_minute=60)
    function = Function(timeline, Account(limits))
    queue = Queue(timeline, function, handle, (Unavailable,), batch=1, pollers_at_most=6, again_s=5)
    for n in range(60):
        queue.send(Queued(str(n), None, clock.time))
    began = clock.time
    timeline.run(began + 100 * SECOND, lambda: False)
    assert sorted(set(tried), key=int) == [str(n) for n in range(60)]
    assert tried.count("7") == 3
    assert len(tried) == 62
    assert function.most == 6, "as many as there may be, and no more"


def test_a_store_returns_the_stored_commits() -> None:
    world = LimitedWorld(SMALL, ONE)
    world.start_many(1, 1)
    world.timeline.run(world.began + SECOND, lambda: bool(world.live))
    (execution_id,) = world.live
    (commit,) = next(iter(world.store.streams.values()))
    assert commit.events[0].name == "PlaybookExecutionRequested"
    assert world.controls[1].load(execution_id).status == "running"
