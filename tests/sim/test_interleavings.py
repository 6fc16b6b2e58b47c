"""The interleavings that broke the first draft of the design, each as a test at the level of services and ports."""

from __future__ import annotations

import pytest

from noetl_core.control.lifecycle import operate
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Commit, StreamId
from noetl_core.ports import Conflict
from noetl_core.tools.base import ToolCall
from tests.raw_events import stored
from tests.sim import invariants
from tests.sim.interleavings import CHAIN, HEAD, done, failed_with, only_command
from tests.sim.ports import SECOND, Faults
from tests.sim.world import World

APPROVAL = (
    HEAD
    + """
  - step: start
    tool:
      - {name: before, kind: noop, args: {n: 1}}
      - {name: ask, kind: callback, signal: approve, timeout: 3600}
      - {name: wait, kind: wait, duration: 600}
      - {name: ask_again, kind: callback, signal: approve, timeout: 3600}
      - {name: after, kind: noop, args: {answer: "{{ _prev }}"}}
"""
)


# 1 ------------------------------------------------------------------------------------------------------------------------


def test_a_router_whose_cached_state_lacks_the_run_reads_the_log() -> None:
    world = World(routers=2)
    execution_id = world.start(CHAIN).execution_id
    first, second = world.controls
    first.load(execution_id)
    for control in world.controls:  # both are warm with the state before R1 is routed
        control.states.put(control.load(execution_id))
    world.handle(only_command(world))
    boundary_1 = world.records.pop().commit
    world.controls = [first]
    world.route(execution_id, [boundary_1])
    world.handle(only_command(world))
    boundary_2 = world.records.pop().commit
    world.controls = [second]
    world.route(execution_id, [boundary_2])
    assert {r.step for r in world.state(execution_id).runs.values()} == {"third"}
    world.controls = [first, second]
    done(world, execution_id)


# 2 ------------------------------------------------------------------------------------------------------------------------


def test_the_first_command_redelivered_while_the_run_waits_for_an_approval_is_dropped() -> None:
    world = World()
    execution_id = world.start(APPROVAL).execution_id
    command = only_command(world)
    world.handle(command)
    world.deliver_record(world.records[0])
    before = len(world.store.streams[StreamId(execution_id, command.run_id)])
    world.handle(command)
    assert world.handled[-1][1].kind == "dropped"
    assert len(world.store.streams[StreamId(execution_id, command.run_id)]) == before
    assert [c.task for c in world.calls] == ["before"]


def test_an_old_timer_that_arrives_in_a_later_suspension_wakes_nothing() -> None:
    world = World()
    execution_id = world.start(APPROVAL).execution_id
    control = world.controls[0]

    def waits_on(name: str) -> bool:
        return any(w["task"] == name for r in world.state(execution_id).runs.values() for w in r.waits)

    world.run(execution_id, until=lambda: waits_on("ask"))
    operate.signal(control, execution_id, "approve", {"by": "ada"}, "s1")
    world.run(execution_id, until=lambda: waits_on("wait"))
    world.run(execution_id, until=lambda: waits_on("ask_again"))
    commits = len(world.store.streams[StreamId(execution_id)])
    for _ in range(3):
        control.queue.wake(execution_id)  # the old timer's message, again and again
        message = world.queue.messages[-1]
        world.deliver_message(message)
    assert len(world.store.streams[StreamId(execution_id)]) == commits
    assert waits_on("ask_again")
    operate.signal(control, execution_id, "approve", {"by": "bob"}, "s2")
    done(world, execution_id)
    assert world.calls[-1].inputs["args"] == {"answer": {"by": "bob"}}


# 3 ------------------------------------------------------------------------------------------------------------------------


def test_an_answer_that_comes_before_the_suspension_is_committed_is_found_in_the_mailbox() -> None:
    world = World()
    execution_id = world.start(APPROVAL).execution_id
    operate.signal(world.controls[0], execution_id, "approve", {"by": "early"}, "s1")
    operate.signal(world.controls[0], execution_id, "approve", {"by": "early"}, "s1")  # and its retry
    operate.signal(world.controls[0], execution_id, "approve", {"by": "second"}, "s2")
    done(world, execution_id)
    assert world.calls[-1].inputs["args"] == {"answer": {"by": "second"}}


PARENT = (
    HEAD
    + """
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, policy: {exec: local}}}
    tool:
      - {name: child, kind: playbook, path: sim/child, args: {n: "{{ iter.n }}"}}
      - {name: after, kind: noop, args: {got: "{{ _prev }}"}}
"""
)
CHILD = (
    HEAD.replace("sim/t", "sim/child")
    + """
  - step: start
    tool: [{name: double, kind: noop, args: {n: "{{ workload.n * 2 }}"}}]
"""
)


def test_children_that_end_while_sibling_iterations_still_run_are_not_lost_and_start_once() -> None:
    for seed in range(10):
        world = World(Faults(seed, duplicate=0.5, delay=0.5, crash=0.02))
        world.controls[0].catalog.register("sim/child", _digest(CHILD), CHILD, 1)
        execution_id = world.start(PARENT).execution_id
        done(world, execution_id)
        invariants.faults_happened(world)
        doubled = sorted(c.inputs["args"]["n"] for c in world.calls if c.task == "double")
        assert sorted(set(doubled)) == [2, 4, 6]
        children = {c.execution_id for c in world.calls if c.task == "double"}
        assert len(children) == 3, "each visit of the task starts one child, whatever is redelivered"


def _digest(source: str) -> str:
    from noetl_core.dsl.parse import digest_of

    return digest_of(source)


# 4 ------------------------------------------------------------------------------------------------------------------------


def test_a_put_succeeds_if_its_answer_is_lost_and_its_retry_refused() -> None:
    world = World(Faults(1, lost_answer=1.0))
    done(world, world.start(CHAIN).execution_id)
    assert world.faults.seen["lost answer"] > 6


def test_a_taken_position_is_a_conflict_with_the_stored_commit() -> None:
    world = World()
    stream = StreamId("1")
    world.store.append(Commit(stream, 0, 1, "a", (stored("X", 1, {}),)))
    world.store.append(Commit(stream, 0, 1, "a", (stored("X", 1, {}),)))
    with pytest.raises(Conflict) as refused:
        world.store.append(Commit(stream, 0, 1, "b", (stored("Y", 1, {}),)))
    assert refused.value.existing is not None
    assert refused.value.existing.writer == "a"


# 5 ------------------------------------------------------------------------------------------------------------------------


def test_a_cancel_while_a_worker_holds_a_live_lease_fences_it_and_its_outcome_does_not_count() -> None:
    world = World()
    execution_id = world.start(CHAIN).execution_id

    def cancel_inside(call: ToolCall) -> Outcome:
        if call.task == "a":
            operate.cancel(world.controls[0], execution_id, "enough")
        return Outcome.ok(1)

    world.tool = cancel_inside
    world.handle(only_command(world))
    assert world.handled[-1][1].kind == "dropped"
    state = world.state(execution_id)
    assert (state.status, state.steps["start"].status) == ("cancelled", "error")
    world.drain()
    invariants.check(world, execution_id)
    assert [c.task for c in world.calls] == ["a"]


def test_a_command_still_queued_when_the_execution_ends_does_nothing() -> None:
    world = World()
    execution_id = world.start(CHAIN).execution_id
    command = only_command(world)
    operate.cancel(world.controls[0], execution_id)
    world.handle(command)
    assert world.calls == []
    assert world.state(execution_id).status == "cancelled"


def test_pausing_lets_the_running_task_end_and_resuming_continues_after_it() -> None:
    world = World()
    execution_id = world.start(CHAIN).execution_id

    def pause_inside(call: ToolCall) -> Outcome:
        if call.task == "b" and world.state(execution_id).status == "running":
            operate.pause(world.controls[0], execution_id)
        return Outcome.ok(call.task)

    world.tool = pause_inside
    world.run(execution_id, until=lambda: world.state(execution_id).status == "paused")
    world.drain(300)
    assert world.state(execution_id).status == "paused"
    assert [c.task for c in world.calls] == ["a", "b"]
    operate.resume(world.controls[0], execution_id)
    world.tool = None
    done(world, execution_id)
    assert [c.task for c in world.calls] == ["a", "b", "c"]


FAIL_FAST = (
    HEAD
    + """
  - step: start
    loop: {in: "{{ range(20) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 4, policy: {exec: distributed}}}
    tool: [{name: body, kind: http, url: "http://x/{{ iter.n }}"}]
"""
)


def test_fail_fast_schedules_no_further_chunk_and_lets_the_running_ones_end() -> None:
    world = World()

    def fail_the_third(call: ToolCall) -> Outcome:
        return Outcome.failed("server_error", "no") if call.inputs["url"].endswith("/2") else Outcome.ok(1)

    world.tool = fail_the_third
    execution_id = world.start(FAIL_FAST).execution_id
    done(world, execution_id, "failed")
    assert len(world.calls) < 20
    assert failed_with(world, execution_id) == "server_error"


def test_an_execution_past_its_lifetime_fails_clearly_and_its_worker_is_fenced() -> None:
    world = World()
    execution_id = world.start(APPROVAL).execution_id
    world.run(execution_id, until=lambda: any(r.waits for r in world.state(execution_id).runs.values()))
    world.clock.time += 40 * 24 * 3600 * SECOND
    state = world.run(execution_id)
    assert (state.status, failed_with(world, execution_id)) == ("failed", "timeout")


# 6 ------------------------------------------------------------------------------------------------------------------------
