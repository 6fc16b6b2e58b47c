"""Nobody's trouble stops anybody else: dead letters, duplicates, slow and deadly looks, long streams, versions side by side."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from noetl_core.control.lifecycle import operate
from noetl_core.control.sweeping import reconcile as reconcile_module
from noetl_core.control.sweeping.dead_letters import handle_dead_letter
from noetl_core.engine.dispatch.commands import commands_of
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.engine.statuses import TERMINAL
from noetl_core.ports import DeadLetter
from noetl_core.tools.base import ToolCall
from tests.properties import TIMES, some
from tests.sim.liveness import HEAD, TWO, WAITS, ended, minutes, start
from tests.sim.ports import SECOND, Crash, Faults, Message
from tests.sim.world import World


def letter(execution_id: str, **command: Any) -> Message:
    return Message(execution_id, 0, command.get("command"))


# --- dead letters -----------------------------------------------------------------------------------------------------------


def test_a_dead_letter_that_fails_stops_neither_the_sweep_nor_other_letters() -> None:
    world = World(stream_on=False)
    bad = start(world, WAITS)
    world.store.spoiled.add(StreamId(bad))
    world.controls = [world.new_control()]
    good = start(world, TWO, 1)
    world.queue.letters = [letter(bad), letter(good)]
    minutes(world, [good], 400)
    ended(world, good)
    world.drain(200)
    assert world.queue.letters == []
    assert world.index.all_heads[bad].status == "stuck"


# --- duplicates -------------------------------------------------------------------------------------------------------------

LONG = (
    HEAD
    + """
workflow:
  - step: start
    loop: {in: "{{ range(N) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: N, policy: {exec: distributed, chunk_size: 1}}}
    tool: {name: body, kind: http, url: "http://x/{{ iter.i }}"}
"""
)


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(3), 3))
def test_tasks_that_take_minutes_and_wait_for_workers_all_end(seed: int) -> None:
    world = World(Faults(seed), concurrency=5)

    def tool(call: ToolCall) -> Outcome:
        world.take(12 * 60)
        return Outcome.ok(1)

    world.tool = tool
    execution_id = start(world, LONG.replace("N", "7"))
    took = minutes(world, [execution_id], 3 * 3600)
    ended(world, execution_id)
    assert len(world.calls) == 7, "none of them twice"
    assert took < 12 * 2 + 3
    assert world.queue.letters == []


# --- the sweep --------------------------------------------------------------------------------------------------------------


def test_an_execution_that_kills_the_sweeper_is_not_first_again_for_ever() -> None:
    world = World(stream_on=False)
    poisoned = [start(world, WAITS, n) for n in range(3)]
    world.queue.messages.clear()
    world.controls = [world.new_control()]
    world.store.poison.update(poisoned)
    healthy = [start(world, TWO, 10 + n) for n in range(20)]
    assert minutes(world, healthy, 3600) < 12
    for execution_id in healthy:
        ended(world, execution_id)
    assert world.faults.seen["poison"] >= 3
    minutes(world, poisoned, 4 * 3600)
    assert {world.index.all_heads[x].status for x in poisoned} == {"stuck"}, "given up, with a reason an operator can see"
    assert world.faults.seen["poison"] < 70
    assert world.index.due_at == {}


def crowd(world: World, count: int) -> float:
    """Return the minutes that `count` executions take that wait for 20 minutes each."""
    source = WAITS.replace("2h", "20m")
    began = world.clock.time
    everyone = [start(world, source, n) for n in range(count)]
    left = set(everyone)
    while left and world.clock.time - began < 3 * 3600 * SECOND:
        left -= {x for x in left if world.index.all_heads[x].status in TERMINAL}
        for _ in range(500):
            world.step()
    assert not left
    return (max(world.state(x).finished_at or 0 for x in everyone) - began) / SECOND / 60


@pytest.mark.sized
@pytest.mark.parametrize(
    "how", some(["its log does not read, and it has a dead letter", "it kills what looks at it", "its decision raises"], 3, 1)
)
def test_a_poisoned_execution_does_not_slow_down_others(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = World(crowd_faults())
    bad = start(beside, WAITS, -1)
    beside.controls = [beside.new_control()]
    if how.startswith("its log"):
        beside.store.spoiled.add(StreamId(bad))
        beside.queue.letters = [letter(bad)]
    elif how.startswith("it kills"):
        beside.store.poison.add(bad)
    else:

        def raises(playbook: Any, state: State, runs: Any) -> Any:
            if state.execution_id == bad:
                raise RecursionError("a decision that raises")
            return commands_of(playbook, state, runs)

        monkeypatch.setattr(reconcile_module, "commands_of", raises)
    assert crowd(beside, CROWD) <= alone() * 1.2
    minutes(beside, [bad], 3600)
    assert beside.index.all_heads[bad].status == "stuck"


CROWD = 1_000 if TIMES else 100
"""Executions: a poisoned one costs what it costs, however many stand beside it."""


def crowd_faults() -> Faults:
    return Faults(1, lose_record=0.05)


@cache
def alone() -> float:
    return crowd(World(crowd_faults()), CROWD)


def test_a_sweeper_without_time_still_makes_progress() -> None:
    world = World(Faults(latency_s=2), stream_on=False)
    executions = [start(world, TWO, n) for n in range(6)]
    took = minutes(world, executions, 2 * 3600)
    for execution_id in executions:
        ended(world, execution_id)
    assert world.faults.seen["out of time"] == 0, "it stops before it is stopped"
    assert took < 30


def waiting(world: World, count: int) -> list[str]:
    """Executions that all wait for the same moment, and whose wakes are lost."""
    source = WAITS.replace("nap, kind: wait, duration: 2h", "nap, kind: wait, duration: 1h")
    executions = [start(world, source, n) for n in range(count)]
    while world.records or any(m.visible_at <= world.clock.time for m in world.queue.messages):
        world.deliver_all()
    world.queue.messages.clear()
    return executions


@pytest.mark.nightly
@pytest.mark.sized
def test_timers_due_in_one_minute_fire_within_two() -> None:
    """Ten thousand, or fewer that take the sweeper as long: each of their calls takes the longer."""
    world = World()
    executions = waiting(world, TIMERS)
    due = world.clock.time + 3_600 * SECOND
    world.faults.latency_s = 0.005 * 10_000 / TIMERS
    fired: dict[str, int] = {}
    world.queue.messages.clear()
    while len(fired) < TIMERS and world.clock.time < due + 600 * SECOND:
        world.clock.time = max(world.clock.time, world.next_sweep)
        world._sweep()
        while world.records or any(m.visible_at <= world.clock.time for m in world.queue.messages):
            world.deliver_all()
        fired.update({c.execution_id: world.clock.time for c in world.calls if c.execution_id not in fired})
    assert sorted(fired) == sorted(executions)
    assert max(fired.values()) < due + 125 * SECOND


TIMERS = 10_000 if TIMES else 2_000


# --- versions side by side ----------------------------------------------------------------------------------------------------


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(4), 4))
def test_during_a_rollout_old_code_leaves_commits_of_new_code_alone(seed: int) -> None:
    world = World(Faults(seed, duplicate=0.2, delay=0.2))
    old, new = world.new_control(version=1), world.new_control(version=2)
    world.controls = [old, new]
    executions = [start(world, TWO, n) for n in range(10)] + [start(world, WAITS, 50 + n) for n in range(5)]
    minutes(world, executions, 600)
    newer = {s.execution_id for s, commits in world.store.streams.items() if any(c.v == 2 for c in commits)}
    assert newer
    assert world.faults.seen["newer log"] > 10
    assert not {x for x in executions if world.state(x).status == "stuck" or world.index.all_heads[x].status == "stuck"}
    world.controls = [old]  # rolled back: what new code wrote waits for as long as it takes
    minutes(world, executions, 6 * 3600)
    assert not {x for x in executions if world.state(x).status == "stuck" or world.index.all_heads[x].status == "stuck"}
    assert any(world.state(x).status == "running" for x in newer)
    world.controls = [new]
    minutes(world, executions, 3 * 3600)
    for execution_id in executions:
        ended(world, execution_id)


# --- commands' dead letters that mark executions stuck --------------------------------------------------------------------------


def dead_command(world: World, execution_id: str) -> DeadLetter:
    command = next(m.command for m in world.queue.messages if m.command is not None and m.execution_id == execution_id)
    return DeadLetter(execution_id, command.run_id, command.step, command.expected_seq)


def test_a_dead_letter_of_an_unclaimed_run_marks_its_execution_stuck_until_it_is_resumed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    execution_id = start(world, TWO)
    handle_dead_letter(world.controls[0], dead_command(world, execution_id))
    (told,) = [r.getMessage() for r in caplog.records if execution_id in r.getMessage()]
    assert "step start" in told, "the alarm counts; the log names which"
    state = world.state(execution_id)
    assert state.status == "stuck"
    assert "step start" in (state.stuck or "")
    operate.resume(world.controls[0], execution_id)
    minutes(world, [execution_id], 600)
    ended(world, execution_id)


@pytest.mark.parametrize(
    "standing", ["ended", "suspended", "held", "taken over", "resumed since", "the execution has ended", "no such execution"]
)
def test_a_dead_letter_of_a_duplicate_changes_nothing(standing: str) -> None:
    world = World()
    source = TWO if standing == "ended" else WAITS
    execution_id = start(world, source)
    control = world.controls[0]
    letter = dead_command(world, execution_id)
    command = next(m.command for m in world.queue.messages if m.command is not None)
    if standing in ("held", "taken over"):

        def dies(call: ToolCall) -> Outcome:
            raise Crash

        world.tool = dies
        execution_id = start(world, TWO, 1)
        letter = dead_command(world, execution_id)
        command = next(m.command for m in world.queue.messages if m.command is not None and m.execution_id == execution_id)
        with pytest.raises(Crash):
            world.handle(command)
        world.clock.time += (10 if standing == "held" else 100) * SECOND
        world.controls = [control]
    elif standing == "no such execution":
        letter = DeadLetter("4711", "r1", "start", 0)
    elif standing == "the execution has ended":
        operate.cancel(control, execution_id)
    else:
        world.handle(command)
        world.records.clear()
        if standing == "resumed since":
            world.route(execution_id, world.store.streams[StreamId(execution_id, command.run_id)])
            world.clock.time += 3 * 3600 * SECOND
            world.route(execution_id)
    before = len(world.store.streams[StreamId(execution_id)])
    handle_dead_letter(control, letter)
    assert len(world.store.streams[StreamId(execution_id)]) == before
    assert world.state(execution_id).status != "stuck"
