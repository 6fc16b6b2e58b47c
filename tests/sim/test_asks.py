"""Workers that ask for the runs that follow: whatever is refused, lost, late, made twice or frozen, each run is carried out by one
worker at a time, and nothing depends on the call. Ten broken variants of the engine show that these tests would notice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from noetl_core.control import asks as control_asks
from noetl_core.control import core
from noetl_core.control.asks import Refused
from noetl_core.control.lifecycle.operate import cancel, pause, resume
from noetl_core.control.sweeping import reconcile
from noetl_core.engine import decide
from noetl_core.engine.claims import is_claimed
from noetl_core.engine.dispatch import asks as engine_asks
from noetl_core.engine.dispatch import effects
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Ask, Boundary, Command, StreamId
from noetl_core.events.event import new
from noetl_core.events.runs import StepDone
from noetl_core.ports import AskFailed, Conflict, Unavailable
from noetl_core.tools.base import ToolCall
from noetl_core.worker.claiming import claim as worker_claim
from noetl_core.worker.claiming.journal import Fenced, Journal
from noetl_core.worker.service import Worker
from tests.properties import TIMES, some
from tests.sim import invariants
from tests.sim.interleavings import HEAD, STEPS, chain, done
from tests.sim.ports import SECOND, Faults
from tests.sim.runs import rests
from tests.sim.world import World

NET = (
    HEAD
    + """
  - step: start
    tool: [{name: a, kind: noop, args: {n: 1}}]
    next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}, {step: long}]}
  - step: left
    tool: [{name: b, kind: noop, args: {n: 2}}]
    next: {arcs: [{step: left2}]}
  - step: left2
    tool:
      - {name: c, kind: noop, args: {n: 3}}
      - {name: d, kind: noop, args: {n: 4}}
    next: {arcs: [{step: end}]}
  - step: right
    tool: [{name: e, kind: python, code: "result = 1"}]
    next: {arcs: [{step: end}]}
  - step: long
    loop: {in: "{{ [1, 2] }}", iterator: i}
    tool: [{name: f, kind: noop, args: {n: "{{ iter.i }}"}}]
    next: {arcs: [{step: end}]}
  - step: end
    spec: {join: all}
    tool: [{name: g, kind: noop, args: {n: 7}}]
    next: {arcs: [{step: last}]}
  - step: last
    tool: [{name: h, kind: noop, args: {n: 8}}]
"""
)


def asking(faults: Faults | None = None, **more: Any) -> World:
    return World(faults or Faults(), asks=True, **more)


# --- without faults -----------------------------------------------------------------------------------------------------


def test_a_chain_is_carried_out_by_the_worker_of_its_first_step() -> None:
    world = asking()
    started = world.start(chain())
    done(world, started.execution_id)
    assert [c.step for c in world.queue.sent] == ["start"], "one command goes through the queue"
    assert [c.step for _, c in world.asking.replies] == [f"s{n}" for n in range(1, STEPS)]
    runs = {s: c for s, c in world.store.streams.items() if s.execution_id == started.execution_id and s.run_id is not None}
    assert Counter(len(c) for c in runs.values()) == {1: STEPS - 1, 2: 1}, "one commit a run, but for the first, which is claimed"
    assert len(world.store.streams[StreamId(started.execution_id)]) == STEPS + 1


def test_a_chain_ends_after_thirty_seconds() -> None:
    world = asking()

    def slow(_call: ToolCall) -> Outcome:
        world.clock.sleep(8)
        return Outcome.ok(1)

    world.tool = slow
    execution_id = world.start(chain()).execution_id
    done(world, execution_id)
    assert [c.step for c in world.queue.sent] == ["start", "s4"]


def test_more_than_four_open_runs_are_left_to_the_stream() -> None:
    arcs = ", ".join(f"{{step: s{n}}}" for n in range(5))
    steps = "".join(
        f"  - step: s{n}\n    tool: [{{name: t, kind: noop, args: {{n: 1}}}}]\n    next: {{arcs: [{{step: e}}]}}\n"
        for n in range(5)
    )
    head = f"  - step: start\n    tool: [{{name: t, kind: noop, args: {{n: 1}}}}]\n    next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}\n"
    end = "  - step: e\n    spec: {join: all}\n    tool: [{name: t, kind: noop, args: {n: 1}}]\n"
    world = asking()
    execution_id = world.start(HEAD + head + steps + end).execution_id
    done(world, execution_id)
    assert len(world.asking.asked) == 2, "the start's and the end's"


def test_commands_say_nothing_of_asks_where_nobody_can_ask() -> None:
    world = World(Faults())
    done(world, world.start(chain()).execution_id)
    assert len(world.queue.sent) == STEPS
    assert not any(c.asks for c in world.queue.sent)


def test_a_wake_for_a_boundary_that_was_asked_for_sends_nothing_again() -> None:
    """The other branch is at work for long, and every step of the chain beside it is followed by a wake."""
    world = asking()
    execution_id = world.start(NET).execution_id
    state = world.run(execution_id)
    assert state.status == "completed"
    world.drain()
    sent = Counter((c.run_id, c.expected_seq, c.mode) for c in world.queue.sent)
    assert set(sent.values()) == {1}


# --- with faults --------------------------------------------------------------------------------------------------------


def disturbed(seed: int) -> Faults:
    chance = random.Random(seed)
    return Faults(
        seed=seed,
        crash=chance.choice([0, 0.02]),
        throttle=chance.choice([0, 0.02]),
        lost_answer=chance.choice([0, 0.05]),
        duplicate=chance.choice([0, 0.3]),
        lose_record=chance.choice([0, 0.3]),
        delay=chance.choice([0, 0.5]),
        refuse_ask=chance.choice([0, 0.2]),
        lose_answer_of_ask=chance.choice([0, 0.3]),
        late_ask=chance.choice([0, 0.2]),
        freeze=chance.choice([0, 0.1, 0.3]),
        stream_first=chance.choice([0, 0.3, 1.0]),
    )


HOURS = 6
EXECUTIONS = 25 * max(1, TIMES)
"""Executions of each block; `make properties` has more."""


def trial(seed: int, faults: Faults | None = None) -> World:
    """Carry out an execution under faults, and check everything at its end."""
    world = asking(faults or disturbed(seed), routers=2)
    execution_id = world.start(chain(4) if seed % 3 == 0 else NET).execution_id
    ends = world.clock.time + HOURS * 3600 * SECOND
    if seed % 5 == 4:
        for _ in range(world.random.randrange(12)):
            world.step()
        _operated(world, execution_id, cancel if seed % 2 else pause)
    state = world.run(execution_id, until=lambda: world.state(execution_id).finished or world.clock.time > ends)
    assert state.finished, f"seed {seed}: it stands still: {state.status}"
    assert state.status in ("completed", "cancelled") or (state.failure is not None and state.failure["kind"] == "lost")
    rests(world, execution_id)
    return world


def _operated(world: World, execution_id: str, operation: Callable[..., Any]) -> None:
    quiet, world.faults.quiet = world.faults.quiet, True
    state = world.state(execution_id)
    if not state.finished:
        operation(world.controls[0], execution_id)
        if operation is pause:
            for _ in range(3):
                world.step()
            resume(world.controls[0], execution_id)
    world.faults.quiet = quiet


@pytest.mark.sized
@pytest.mark.parametrize("block", some(range(4), 4))
def test_whatever_goes_wrong_each_run_has_one_worker_at_a_time(block: int) -> None:
    seen: Counter[str] = Counter()
    replies = lapsed = 0
    for seed in range(block * EXECUTIONS, (block + 1) * EXECUTIONS):
        world = trial(seed)
        seen += world.faults.seen
        replies += len(world.asking.replies)
        lapsed += sum(c.mode == "first" for c in world.queue.sent)
    assert {"crash", "refuse_ask", "lose_answer_of_ask", "late_ask", "freeze", "stream_first", "duplicate ask"} <= set(seen)
    assert replies and lapsed


def test_an_ask_that_is_repeated_has_the_same_answer_from_the_log() -> None:
    world = asking()
    execution_id = world.start(chain()).execution_id
    answers = []

    def twice(control: Any, ask: Ask) -> Command | None:
        answers.append([control_asks.answer(control, ask), control_asks.answer(world.new_control(), ask)])
        return answers[-1][0]

    world.asking.carry_out = twice
    done(world, execution_id)
    assert len(answers) == STEPS
    assert all(first == again for first, again in answers), "the same command, with the same claim and context"


def test_an_ask_for_a_boundary_that_the_log_does_not_hold_is_refused() -> None:
    world = asking()
    execution_id = world.start(chain()).execution_id
    (run,) = world.state(execution_id).runs
    now = world.clock.time
    forged = Ask("a", execution_id, run, 0, 0, "w", "default", now + 600 * SECOND, now + SECOND)
    with pytest.raises(Refused):
        control_asks.answer(world.controls[0], forged)
    assert run in world.state(execution_id).runs


def test_a_resume_within_the_life_of_a_claim_waits_for_its_end_and_no_longer() -> None:
    """Its worker dropped the run because of the pause; nobody else may begin it while it might have begun."""
    world = asking()
    execution_id = world.start(chain()).execution_id
    handle = Worker.handle

    def paused(worker: Worker, command: Command, *arguments: Any) -> Any:
        if command.step == "s1" and not world.asking.replies[1:]:
            pause(world.controls[0], execution_id)
        return handle(worker, command, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "handle", paused)
        world.run(execution_id, until=lambda: world.state(execution_id).status == "paused" and not world.queue.messages)
    began = world.clock.time
    resume(world.controls[0], execution_id)
    assert not [m for m in world.queue.messages if m.command is not None]
    done(world, execution_id)
    assert world.clock.time - began < 40 * SECOND or [c.step for c in world.queue.sent] == ["start", "s1"]
    first = world.store.streams[StreamId(execution_id, next(c.run_id for c in world.queue.sent if c.step == "s1"))][0]
    assert first.ts - began < 25 * SECOND


def test_a_chained_failure_leaves_the_message_of_the_first_run_alone() -> None:
    world = asking()
    execution_id = world.start(chain()).execution_id
    failing = _fails_once(world, "s1")
    with pytest.MonkeyPatch.context() as patch:
        failing(patch)
        world.run(
            execution_id, until=lambda: not [m for m in world.queue.messages if m.command is not None] and bool(world.handled)
        )
    assert [(c.step, h.kind) for c, h in world.handled] == [("start", "done")]
    done(world, execution_id)
    run = next(c.run_id for _, c in world.asking.replies if c.step == "s1")
    assert world.names(execution_id, run)[:3] == ["StepStarted", "StepReleased", "StepStarted"], "it is released, and taken over"


def _fails_once(world: World, step: str) -> Callable[[pytest.MonkeyPatch], None]:
    run = Worker._run

    def fails(worker: Worker, command: Command, *arguments: Any) -> Any:
        if command.step == step and command.claim is not None:
            raise Unavailable("a port failed")
        return run(worker, command, *arguments)

    return lambda patch: patch.setattr(Worker, "_run", fails)


# --- broken variants ----------------------------------------------------------------------------------------------------


def wakes_send_claimed_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(effects, "unclaimed", lambda _state, runs, _now: list(runs))
    patch.setattr(decide, "was_asked", lambda *_: False)


def claims_never_lapse(patch: pytest.MonkeyPatch) -> None:
    for module in (effects, reconcile):
        if hasattr(module, "is_claimed"):
            patch.setattr(module, "is_claimed", lambda run, _now: run.claim is not None and run.status == "scheduled")
    patch.setattr(
        effects, "unclaimed", lambda state, runs, _now: [r for r in runs if r not in state.runs or state.runs[r].claim is None]
    )


def claims_runs_of_earlier_commits(patch: pytest.MonkeyPatch) -> None:
    def claim_run(p: Any, ask: Ask) -> None:
        if engine_asks._mark(p, ask):
            for run in p.state.runs.values():
                if run.claim is None and engine_asks._fits(p.playbook, run, ask, p.now):
                    run.claim = {"worker": ask.worker, "ask": ask.id, "until": p.now + 20 * SECOND}
                    return

    patch.setattr(engine_asks, "claim_run", claim_run)


def answers_after_a_conflict(patch: pytest.MonkeyPatch) -> None:
    commit = core.Control.commit

    def careless(control: Any, decision: Any) -> None:
        try:
            commit(control, decision)
        except Conflict:
            if decision.answer is None:
                raise
            control._keep = lambda _state: None

    patch.setattr(core.Control, "commit", careless)


def gives_a_run_to_another_ask(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        engine_asks, "claimed_for", lambda state, _ask, now: [run.id for run in state.runs.values() if is_claimed(run, now)]
    )


def starts_after_expiry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(worker_claim, "LEAST_CLAIM_S", -1_000_000)


def puts_without_a_condition(patch: pytest.MonkeyPatch) -> None:
    append = Journal._append

    def overwrites(journal: Any, commit: Any) -> None:
        try:
            append(journal, commit)
        except Fenced:
            if not (journal._claimed and commit.seq == 0):
                raise
            journal._store.streams[commit.stream][0] = commit
            if commit.wake:
                journal._store.on_wake(commit)
            journal._pending, journal.closed, journal._seq = None, commit.wake, 1

    patch.setattr(Journal, "_append", overwrites)


def deep_queues_hold_claimed_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile, "_is_lost", lambda run, now, _queues: False)


def accepts_unwritten_boundaries(patch: pytest.MonkeyPatch) -> None:
    def believed(_control: Any, ask: Ask) -> Boundary:
        return Boundary(ask.run_id, ask.seq, new(StepDone, 0, result=None))

    patch.setattr(control_asks, "_written_boundary", believed)


def fails_the_message_of_a_chain(patch: pytest.MonkeyPatch) -> None:
    chain = Worker._following

    def outlives(worker: Worker, *arguments: Any) -> Command | None:
        following = chain(worker, *arguments)
        if following is not None and following.claim is not None:
            raise Unavailable("a chained run failed")
        return following

    patch.setattr(Worker, "_following", outlives)


def claims_outlive_the_deadline(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_asks, "CLAIM_S", 120)


ALL = Faults(seed=0, duplicate=0.3, delay=0.5, lose_answer_of_ask=0.2, late_ask=0.1, freeze=0.3, refuse_ask=0.05)
"""Faults without those that end a run as lost."""


@pytest.mark.one_in(3)
@pytest.mark.sized
@pytest.mark.parametrize(
    "broken",
    some(
        [
            wakes_send_claimed_runs,
            claims_never_lapse,
            claims_runs_of_earlier_commits,
            answers_after_a_conflict,
            gives_a_run_to_another_ask,
            starts_after_expiry,
            puts_without_a_condition,
            claims_outlive_the_deadline,
        ],
        3,
    ),
)
def test_a_broken_variant_is_noticed(broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(150):
            trial(seed, replace(ALL, seed=seed).fresh())


def test_a_lapsed_claim_is_sent_however_deep_the_queue_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "DEEP_QUEUE", 0)
    lost_answers = Faults(lose_answer_of_ask=1.0)
    world = trial(3, lost_answers.fresh())
    assert world.queue.sent
    deep_queues_hold_claimed_runs(monkeypatch)
    with pytest.raises(AssertionError, match="stands still"):
        trial(3, lost_answers.fresh())


def test_an_unwritten_boundary_that_were_accepted_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    accepts_unwritten_boundaries(monkeypatch)
    world = asking()
    execution_id = world.start(chain()).execution_id
    (run,) = world.state(execution_id).runs
    now = world.clock.time
    control_asks.answer(world.controls[0], Ask("a", execution_id, run, 5, 0, "w", "default", now + 600 * SECOND, now + SECOND))
    with pytest.raises(AssertionError, match="never written"):
        invariants.boundaries_are_those_of_the_streams(world, execution_id)


def test_a_chain_that_failed_the_message_of_its_first_run_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_the_message_of_a_chain(monkeypatch)
    world = asking()
    execution_id = world.start(chain()).execution_id
    for _ in range(3):
        world.step()
    assert any(m.command is not None and m.command.step == "start" for m in world.queue.messages), "it comes again"
    assert execution_id


def test_asks_are_faults_that_the_port_raises() -> None:
    failed = AskFailed("late", "no answer", may_be_done=True)
    assert isinstance(failed, Unavailable)
    assert failed.may_be_done
