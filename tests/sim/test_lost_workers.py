"""Workers that die, never start or wake up late: who continues with their runs, and when."""

from __future__ import annotations

from functools import partial
from typing import Any

from noetl_core.control.sweeping.sweep import sweep
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import MAX_TAKEOVERS, Command
from noetl_core.tools.base import ToolCall
from tests.sim.interleavings import CHAIN, done, failed_with, only_command
from tests.sim.ports import SECOND, Crash
from tests.sim.world import World


def test_a_worker_killed_in_the_middle_is_taken_over_when_its_lease_ends() -> None:
    world = World()
    execution_id = world.start(CHAIN).execution_id
    began = world.clock.time

    def die_once(call: ToolCall) -> Outcome:
        if len(world.calls) == 1:
            raise Crash
        return Outcome.ok(call.task)

    world.tool = die_once
    done(world, execution_id)
    assert [c.task for c in world.calls] == ["a", "a", "b", "c"]
    assert world.calls[0].task_run_id == world.calls[1].task_run_id, "the idempotency key survives the crash"
    ended = world.state(execution_id).finished_at
    assert ended is not None
    assert ended - began < 200 * SECOND, "lease, sweep interval and some"


LONG = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: long, path: sim/long}
workflow:
  - step: start
    loop: {in: "{{ range(40) | list }}", iterator: n, spec: {mode: sequential}}
    tool: {name: slow, kind: http, url: "http://x/{{ iter.n }}"}
"""


def test_a_worker_killed_after_a_quarter_of_an_hour_is_noticed_as_soon_as_one_killed_at_once() -> None:
    world = World()
    execution_id = world.start(LONG).execution_id
    began: list[int] = []

    def tool(call: ToolCall) -> Outcome:
        began.append(world.clock.time)
        world.clock.time += 30 * SECOND
        if len(began) == 30:
            raise Crash
        return Outcome.ok(call.inputs["url"])

    world.tool = tool
    world.run(execution_id, until=lambda: len(began) == 30)
    world.queue.messages.clear()  # its message does not come back before the function's visibility timeout
    done(world, execution_id)
    assert len(began) == 41
    assert began[30] - began[29] <= (30 + 60 + 60) * SECOND, "the task itself, the lease and a sweep"


def test_a_successor_that_dies_late_in_a_long_run_is_noticed_as_soon_as_the_first_worker() -> None:
    world = World()
    execution_id = world.start(LONG).execution_id
    began: list[int] = []

    def tool(call: ToolCall) -> Outcome:
        began.append(world.clock.time)
        world.clock.time += 30 * SECOND
        if len(began) in (30, 31, 32):
            raise Crash
        return Outcome.ok(call.inputs["url"])

    world.tool = tool
    for deaths in (30, 31, 32):
        world.run(execution_id, until=partial(lambda n: len(began) == n, deaths))
        world.queue.messages.clear()
    done(world, execution_id)
    waits = [(began[n] - began[n - 1]) // SECOND for n in (30, 31, 32)]
    assert all(wait <= 30 + 60 + 60 for wait in waits), f"the task itself, the lease and a sweep: {waits}"


def test_a_task_that_kills_its_worker_every_time_is_given_up_with_a_reason() -> None:
    world = World()

    def die(call: ToolCall) -> Outcome:
        raise Crash

    world.tool = die
    execution_id = world.start(CHAIN).execution_id
    done(world, execution_id, "failed")
    assert failed_with(world, execution_id) == "lost"
    assert len(world.calls) == MAX_TAKEOVERS + 1


def test_a_run_that_makes_progress_is_never_given_up_however_often_its_workers_die() -> None:
    world = World()
    seen: set[str] = set()

    def dies_once_each(call: ToolCall) -> Outcome:
        if call.task not in seen:
            seen.add(call.task)
            raise Crash
        world.clock.sleep(5)  # long enough for its outcome to be committed before the next task begins
        return Outcome.ok(call.task)

    world.tool = dies_once_each
    tasks = "".join(f"      - {{name: t{n}, kind: noop}}\n" for n in range(MAX_TAKEOVERS + 3))
    source = CHAIN[: CHAIN.index("workflow:")] + "workflow:\n  - step: start\n    tool:\n" + tasks
    execution_id = world.start(source).execution_id
    done(world, execution_id)
    assert len(world.calls) == 2 * (MAX_TAKEOVERS + 3)


def test_a_worker_that_cannot_start_leaves_the_command_to_be_sent_again() -> None:
    world = World()
    execution_id = world.start(CHAIN).execution_id
    attempts = 0

    def broken(command: Command) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 4:
            raise Crash
        World.handle(world, command)

    world.handle = broken  # type: ignore[method-assign]
    done(world, execution_id)
    assert attempts >= 6


def test_a_stale_worker_thawed_after_a_takeover_commits_nothing() -> None:
    world = World()
    execution_id = world.start(CHAIN).execution_id
    command = only_command(world)
    frozen: list[Any] = []

    def freeze(call: ToolCall) -> Outcome:
        if not frozen:
            frozen.append(call)
            world.clock.time += 300 * SECOND  # frozen for five minutes; meanwhile the sweeper and another worker go on
            sweep(world.controls[0])
            takeover = only_command(world)
            assert takeover.mode == "takeover"
            world.handle(takeover)
        return Outcome.ok(len(world.calls))

    world.tool = freeze
    world.handle(command)
    kinds = [h.kind for c, h in world.handled if c.run_id == command.run_id]
    assert sorted(kinds) == ["done", "dropped"]
    done(world, execution_id)
