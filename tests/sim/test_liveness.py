"""Nobody's trouble stops anybody else: dead letters, duplicates, slow and deadly looks, long streams, versions side by side."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from noetl_core.control import operate
from noetl_core.control import reconcile as reconcile_module
from noetl_core.control.dead_letters import handle_dead_letter
from noetl_core.control.fence import fence_runs
from noetl_core.control.replay import replay
from noetl_core.control.sweep import Swept, reconcile
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Commit, Event, StreamId, envelopes_of
from noetl_core.engine.state import TERMINAL, State
from noetl_core.ports import DeadLetter
from noetl_core.tools.base import ToolCall
from noetl_core.worker.journal import Fenced, Journal
from tests.properties import TIMES
from tests.sim import invariants
from tests.sim.ports import SECOND, Crash, Faults, Message
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/live}\n"
TWO = (
    HEAD
    + """
workflow:
  - step: start
    tool: {name: a, kind: noop, args: {n: 1}}
    next: {arcs: [{step: second}]}
  - step: second
    tool: {name: b, kind: noop, args: {n: 2}}
"""
)
WAITS = (
    HEAD
    + """
workflow:
  - step: start
    tool: [{name: nap, kind: wait, duration: 2h}, {name: after, kind: noop}]
"""
)


def start(world: World, source: str, n: int = 0) -> str:
    return world.start(source, idempotency_key=f"key {n}").execution_id


def ended(world: World, execution_id: str, status: str = "completed") -> State:
    state = world.state(execution_id)
    assert state.status == status, (state.status, state.failure, state.stuck)
    world.faults.quiet = True
    invariants.check(world, execution_id)
    assert replay(world.controls[0], execution_id).differences == ()
    return state


def letter(execution_id: str, **command: Any) -> Message:
    return Message(execution_id, 0, command.get("command"))


def minutes(world: World, execution_ids: list[str], limit_s: float) -> float:
    """Minutes until all have ended; at most `limit_s` seconds are waited for that."""
    began = world.clock.time
    for _ in range(500_000):
        if all(world.state(x).status in TERMINAL for x in execution_ids):
            break
        if world.clock.time - began > limit_s * SECOND or not world.step():
            break
    return (world.clock.time - began) / SECOND / 60


# --- dead letters -----------------------------------------------------------------------------------------------------------


def test_a_letter_that_cannot_be_dealt_with_stops_neither_the_sweep_nor_other_letters() -> None:
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


@pytest.mark.parametrize("seed", range(3))
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
    """How many minutes `count` executions take that wait for 20 minutes each."""
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
@pytest.mark.xdist_group("crowd")  # what the crowd takes alone is found out once
@pytest.mark.parametrize(
    "how", ["its log does not read, and it has a dead letter", "it kills what looks at it", "its decision raises"]
)
def test_a_crowd_beside_a_poisoned_execution_takes_what_it_takes_alone(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = World(crowd_faults())
    bad = start(beside, WAITS, -1)
    beside.controls = [beside.new_control()]
    if how.startswith("its log"):
        beside.store.spoiled.add(StreamId(bad))
        beside.queue.letters = [letter(bad)]
    elif how.startswith("it kills"):
        beside.store.poison.add(bad)
    else:
        commands = reconcile_module.commands_of

        def raises(playbook: Any, state: State, runs: Any) -> Any:
            if state.execution_id == bad:
                raise RecursionError("a decision that raises")
            return commands(playbook, state, runs)

        monkeypatch.setattr(reconcile_module, "commands_of", raises)
    assert crowd(beside, CROWD) <= alone() * 1.2
    minutes(beside, [bad], 3600)
    assert beside.index.all_heads[bad].status == "stuck"


CROWD = 1_000 if TIMES else 250
"""Executions: a poisoned one costs what it costs, however many stand beside it."""


def crowd_faults() -> Faults:
    return Faults(1, lose_record=0.05)


@cache
def alone() -> float:
    return crowd(World(crowd_faults()), CROWD)


def test_a_sweeper_without_time_gets_on_all_the_same() -> None:
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


# --- long streams -----------------------------------------------------------------------------------------------------------

BIG = (
    HEAD
    + """
workflow:
  - step: start
    spec: {policy: {lifecycle: {timeout_s: 5}}}
    loop: {in: "{{ (range(ITERATIONS) | list) + (range(ITERATIONS) | list) }}", iterator: i, spec: {mode: sequential}}
    tool: {name: body, kind: http, url: x}
"""
)


@pytest.mark.parametrize(("lost", "within_s", "task_ms"), [(False, 70, 1), (True, 125, 10)], ids=["woken", "wake lost"])
def test_a_step_timeout_strikes_a_loop_that_commits_every_second(lost: bool, within_s: int, task_ms: int) -> None:
    world = World(Faults(latency_s=0.003))
    iterations = 2 * 62_500

    def tool(call: ToolCall) -> Outcome:
        world.clock.time += SECOND // 1000 * task_ms
        if len(world.calls) % 50 == 0:
            world.meanwhile()
        return Outcome.ok(1)

    world.tool = tool
    execution_id = start(world, BIG.replace("ITERATIONS", str(iterations // 2)))
    began = world.clock.time
    if lost:
        world.queue.messages = [m for m in world.queue.messages if m.command is not None]
    minutes(world, [execution_id], 600)
    state = ended(world, execution_id, "failed")
    assert state.failure is not None
    assert state.failure["kind"] == "timeout"
    assert (state.finished_at or 0) - began < within_s * SECOND


class Committing:
    """A worker of a long run that commits every second, on the events of another's port calls; reading a commit takes time."""

    def __init__(self, world: World, execution_id: str, run_id: str, commits: int) -> None:
        self.world, self.stream = world, StreamId(execution_id, run_id)
        self.stopped = False
        self.tries = 0
        self._read, self._last, self._append = world.store.read, world.store.last, world.store.append
        self.journal = Journal(self, world.clock, self.stream, 0, 0, None)  # type: ignore[arg-type]
        for n in range(commits):
            self._commit(n)
        world.store.read, world.store.last, world.store.append = self.read, self.last, self.other  # type: ignore[method-assign]
        self.next = world.clock.time + SECOND

    def append(self, commit: Commit) -> None:
        self._append(commit)

    def _commit(self, n: int) -> None:
        name, data = (
            ("StepStarted", {"step": "start", "as_of": 0, "worker": "w"}) if n == 0 else ("TaskProcessed", {"started": 1})
        )
        self.journal.put(Event(name, self.world.clock.time, {**data, "n": n}))
        self.journal.flush()

    def _time_passes(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)
        while not self.stopped and self.world.clock.time >= self.next:
            self.next += SECOND
            try:
                self._commit(1)
            except Fenced:
                self.stopped = True
            gate = self.world.gates.gate(self.stream.execution_id)
            self.stopped = self.stopped or self.stream.run_id in gate.stopped_runs

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Any:
        found = self._read(stream, after, limit)
        self._time_passes(0.005 + 0.002 * len(found))
        return found

    def last(self, stream: StreamId) -> Any:
        found = self._last(stream)
        self._time_passes(0.3)
        return found

    def other(self, commit: Commit) -> None:
        self.tries += commit.stream == self.stream
        assert self.tries < 20, "it never wins"
        self._time_passes(0.8)
        self._append(commit)


def test_a_fence_wins_against_a_worker_that_commits_every_second_and_reads_little() -> None:
    world = World()
    execution_id = start(world, TWO)
    (run,) = world.state(execution_id).runs
    worker = Committing(world, execution_id, run, 2_000)
    error = {"kind": "timeout", "message": "late", "retryable": False}
    state = world.controls[0].load(execution_id)
    before = world.store.reads[worker.stream]
    (boundary,) = fence_runs(world.controls[0], state, {run: error})
    assert boundary.event.data["error"]["kind"] == "timeout"
    assert worker.tries <= 4
    assert world.store.reads[worker.stream] - before <= 5
    commits = world.store.streams[worker.stream]
    assert boundary.event.data["events"] == sum(envelopes_of(e) for c in commits for e in c.events)


def test_reconciling_a_long_run_reads_its_last_commit_alone() -> None:
    world = World()
    execution_id = start(world, TWO)
    (run,) = world.state(execution_id).runs
    worker = Committing(world, execution_id, run, 2_000)
    world.clock.time += 300 * SECOND
    worker.stopped = True
    before = world.store.reads[worker.stream]
    swept = reconcile(world.controls[0], execution_id, Swept())
    assert swept.takeovers == 1
    assert world.store.reads[worker.stream] - before == 1


def without_tallies(world: World, stream: StreamId) -> None:
    """As an older version wrote it."""
    world.store.streams[stream] = [replace(c, tally=None) for c in world.store.streams[stream]]


def test_logs_of_before_that_do_not_count_are_counted() -> None:
    worlds = []
    for old in (False, True):
        world = World()
        execution_id = start(world, TWO)
        (run,) = world.state(execution_id).runs
        worker = Committing(world, execution_id, run, 50)
        worker.stopped = True
        if old:
            without_tallies(world, worker.stream)
        state = world.controls[0].load(execution_id)
        (boundary,) = fence_runs(world.controls[0], state, {run: {"kind": "timeout", "message": "late"}})
        worlds.append(boundary.event.data["events"])
    assert worlds[0] == worlds[1] > 50


# --- versions side by side ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_while_a_release_is_rolled_out_old_code_waits_for_what_new_code_wrote(seed: int) -> None:
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


# --- what a dead letter of a command marks stuck --------------------------------------------------------------------------------


def dead_command(world: World, execution_id: str) -> DeadLetter:
    command = next(m.command for m in world.queue.messages if m.command is not None and m.execution_id == execution_id)
    return DeadLetter(execution_id, command.run_id, command.step, command.expected_seq)


def test_a_dead_letter_of_what_was_never_claimed_marks_it_stuck_and_resuming_goes_on(caplog: pytest.LogCaptureFixture) -> None:
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
