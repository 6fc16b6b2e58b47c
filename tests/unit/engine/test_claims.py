"""Selects the run of a decision that is claimed for the asking worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from noetl_core.control.asks import answer
from noetl_core.engine.claims import ASKED_RUNS, MARKED, mark_asked, was_asked
from noetl_core.engine.records import Ask, Command, StreamId
from noetl_core.engine.state import State
from noetl_core.events.table import CLAIM_VERSION
from tests.sim.interleavings import HEAD
from tests.sim.ports import SECOND
from tests.sim.world import World


def asked(following: str, **more: Any) -> tuple[World, Command | None]:
    """Return the answer after a step before the steps in `following`."""
    names = [line.split()[2] for line in following.splitlines() if line.startswith("  - step:")]
    arcs = ", ".join(f"{{step: {name}}}" for name in names)
    first = f"  - step: start\n    tool: [{{kind: noop}}]\n    next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}\n"
    world = World()
    world.controls[0].asks = True
    execution_id = world.start(HEAD + "\n" + first + following).execution_id
    message = world.queue.messages.pop()
    assert message.command is not None
    world.handle(message.command)
    run, now = message.command.run_id, world.clock.time
    ask = Ask("a", execution_id, run, 1, 0, "w", "default", now + 600 * SECOND, now + SECOND)
    ask = replace(ask, **{k: now + v * SECOND if k in ("deadline", "until") else v for k, v in more.items()})
    return world, answer(world.controls[0], ask)


ONE = "  - step: one\n    tool: [{kind: noop}]\n"
TWO = "  - step: two\n    tool: [{kind: noop}]\n"
COMPUTES = "  - step: computes\n    tool: [{kind: python, code: 'result = 1'}]\n"
LONG = "  - step: long\n    tool: [{kind: http, url: 'http://x/', spec: {timeout_s: 500}}]\n"
LOOP = "  - step: loop\n    loop: {in: '{{ [1] }}', iterator: i}\n    tool: [{kind: noop}]\n"
ELSEWHERE = "  - step: elsewhere\n    spec: {pool: python}\n    tool: [{kind: noop}]\n"


@pytest.mark.parametrize(
    ("following", "more", "step"),
    [
        (ONE, {}, "one"),
        (ONE + TWO, {}, "one"),
        (COMPUTES, {}, "computes"),
        (COMPUTES, {"computes": False}, None),
        (COMPUTES + TWO, {"computes": False}, "two"),
        (LONG + TWO, {}, "long"),
        (LONG + TWO, {"deadline": 120}, "two"),
        (ONE, {"deadline": 60}, None),
        (LOOP + TWO, {}, "two"),
        (ELSEWHERE + TWO, {}, "two"),
        (ONE, {"pool": "python"}, None),
        (ONE, {"until": -1}, None),
    ],
    ids=str,
)
def test_a_run_is_claimed_that_the_worker_can_carry_out_at_once(following: str, more: dict[str, Any], step: str | None) -> None:
    world, command = asked(following, **more)
    assert (command.step if command is not None else None) == step
    sent = {c.step for c in world.queue.sent if c.step != "start"}
    steps = {line.split()[2] for line in following.splitlines() if line.startswith("  - step:")}
    assert sent == steps - {step}, "every other run goes through its queue"
    commit = world.store.streams[StreamId(world.queue.sent[0].execution_id)][-1]
    assert commit.v == CLAIM_VERSION, "the mark of the boundary asks for this reader, too"


def test_a_claim_ends_with_the_worker() -> None:
    _, command = asked("  - step: quick\n    tool: [{kind: noop, spec: {timeout_s: 1}}]\n", deadline=17)
    assert command is not None and command.claim is not None
    world, other = asked(ONE, deadline=600)
    assert other is not None and other.claim is not None
    assert command.claim["until"] - other.claim["until"] < -2 * SECOND
    assert other.claim["until"] - world.clock.time <= 20 * SECOND


def test_an_ask_about_a_boundary_that_is_routed_does_nothing() -> None:
    world, command = asked(ONE)
    execution_id = world.queue.sent[0].execution_id
    sent, seq = len(world.queue.sent), world.state(execution_id).seq
    run = world.queue.sent[0].run_id
    now = world.clock.time
    other = Ask("b", execution_id, run, 1, 0, "v", "default", now + 600 * SECOND, now + SECOND)
    assert answer(world.controls[0], other) is None
    assert (len(world.queue.sent), world.state(execution_id).seq) == (sent, seq)
    assert command is not None


def test_the_state_keeps_the_newest_marks() -> None:
    state = State("7")
    for n in range(MARKED + 5):
        mark_asked(state, "r", n)
    assert len(state.asked) == MARKED
    assert was_asked(state, "r", MARKED + 4) and not was_asked(state, "r", 4)


@pytest.mark.parametrize("width", [ASKED_RUNS, ASKED_RUNS + 1])
def test_commands_say_that_workers_may_ask_while_few_runs_are_open(width: int) -> None:
    _, _ = asked("".join(f"  - step: s{n}\n    tool: [{{kind: noop}}]\n" for n in range(width)))
    world, command = asked("".join(f"  - step: s{n}\n    tool: [{{kind: noop}}]\n" for n in range(width)))
    assert command is not None
    flags = {c.asks for c in world.queue.sent if c.step != "start"} | {command.asks}
    assert flags == {width <= ASKED_RUNS}
