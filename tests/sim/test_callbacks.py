"""Callbacks by token: early, double, late, forged and unfit answers, timeouts, heartbeats; under faults, and still once."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control import callbacks
from noetl_core.control.callbacks import Answered, Forged, Gone, Unfit
from noetl_core.control.lifecycle import operate
from noetl_core.engine.outcome import Outcome
from noetl_core.ports import PortError
from noetl_core.tools.base import ToolCall
from tests.properties import some
from tests.sim import invariants
from tests.sim.callbacks import ASK, BEATING, HEAD, Mail, asked, ended, everything_stored, result, waits
from tests.sim.interleavings import only_command
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.world import World


def test_an_answer_is_the_tasks_result_and_its_token_is_stored_nowhere() -> None:
    world = World()
    execution_id, token = asked(world)
    assert callbacks.answer(world.controls[0], token, {"ok": True}).became == "answered"
    assert result(world, ended(world, execution_id)) == {"ok": True}
    assert token.rsplit(".", 1)[1] not in everything_stored(world)


def test_open_callbacks_show_the_very_token_that_was_sent() -> None:
    world = World()
    execution_id, token = asked(world)
    (shown,) = callbacks.open_callbacks(world.controls[0], execution_id)
    assert (shown["token"], shown["step"], shown["task"]) == (token, "start", "ask")
    callbacks.answer(world.controls[0], token, {"ok": True})
    assert callbacks.open_callbacks(world.controls[0], execution_id) == []


def test_an_answer_before_the_suspension_is_kept_and_found() -> None:
    world = World()
    replies = []

    def answer_at_once(call: ToolCall) -> Outcome:
        if call.task == "send":
            token = str(call.inputs["url"]).removeprefix("http://mail/")
            with pytest.raises(Unfit):  # constants of the playbook are checked even before it asks
                callbacks.answer(world.controls[0], token, {"ok": "maybe"})
            replies.append(callbacks.heartbeat(world.controls[0], token).became)
            replies.append(callbacks.answer(world.controls[0], token, {"ok": True}).became)
            replies.append(callbacks.answer(world.controls[0], token, {"ok": True}).became)
            with pytest.raises(Answered):
                callbacks.answer(world.controls[0], token, {"ok": False})
        return Outcome.ok(call.inputs.get("result"))

    world.tool = answer_at_once
    execution_id = world.start(ASK).execution_id
    assert result(world, ended(world, execution_id)) == {"ok": True}
    assert replies == ["early", "early", "recorded"]


def test_the_first_answer_counts_and_a_different_second_is_refused() -> None:
    world = World(routers=2)
    execution_id, token = asked(world)
    callbacks.answer(world.controls[0], token, {"ok": True})
    assert callbacks.answer(world.controls[1], token, {"ok": True}).became == "recorded"
    with pytest.raises(Answered):
        callbacks.answer(world.controls[1], token, {"ok": False})
    with pytest.raises(Answered):
        callbacks.heartbeat(world.controls[1], token)
    assert result(world, ended(world, execution_id)) == {"ok": True}
    assert callbacks.answer(world.controls[0], token, {"ok": True}).became == "recorded", "even when all is over"
    with pytest.raises(Answered):
        callbacks.answer(world.controls[0], token, {"ok": False})


def test_the_log_decides_between_answers_that_race() -> None:
    world = World(routers=2)
    execution_id, token = asked(world)
    mine, theirs = world.controls
    append = world.store.append

    def overtaken(commit: Any) -> None:
        world.store.append = append  # type: ignore[method-assign]
        callbacks.answer(theirs, token, {"ok": False})
        append(commit)

    world.store.append = overtaken  # type: ignore[method-assign]
    with pytest.raises(Answered):
        callbacks.answer(mine, token, {"ok": True})
    assert result(world, ended(world, execution_id)) == {"ok": False}


def test_an_invalid_answer_is_refused_with_the_reason_and_the_wait_stays_open() -> None:
    world = World()
    execution_id, token = asked(world)
    with pytest.raises(Unfit) as refused:
        callbacks.answer(world.controls[0], token, {"ok": "yes"})
    assert refused.value.wrong == ["the answer.ok is string, not boolean"]
    assert [w["task"] for w in waits(world, execution_id)] == ["ask"]
    callbacks.answer(world.controls[0], token, {"ok": False})
    assert result(world, ended(world, execution_id)) == {"ok": False}


def test_an_error_answer_fails_the_task_with_it() -> None:
    world = World()
    execution_id, token = asked(world)
    with pytest.raises(Unfit):
        callbacks.answer(world.controls[0], token, error={"kind": "sorrow"})
    callbacks.answer(world.controls[0], token, error={"kind": "auth", "message": "not allowed", "code": 7})
    failure = ended(world, execution_id, "failed").failure
    assert failure is not None
    assert {k: failure[k] for k in ("kind", "message", "code", "task")} == {
        "kind": "auth",
        "message": "not allowed",
        "code": 7,
        "task": "ask",
    }


def test_a_late_answer_is_gone_after_the_timeout_and_after_the_end() -> None:
    world = World()
    execution_id, token = asked(world)
    world.clock.time += 3600 * SECOND
    world.controls[0].route(execution_id)  # the timeout is in the log, the run has not gone on yet
    with pytest.raises(Gone, match="timed out"):
        callbacks.answer(world.controls[0], token, {"ok": True})
    failure = ended(world, execution_id, "failed").failure
    assert failure is not None
    assert failure["kind"] == "timeout"
    with pytest.raises(Gone, match="has ended"):
        callbacks.answer(world.controls[0], token, {"ok": True})
    with pytest.raises(Gone):
        callbacks.heartbeat(world.controls[0], token)


def test_an_answer_that_loses_against_the_timeout_is_not_accepted() -> None:
    world = World(routers=2)
    execution_id, token = asked(world)
    append = world.store.append

    def too_late(commit: Any) -> None:
        world.store.append = append  # type: ignore[method-assign]
        world.clock.time += 3600 * SECOND
        world.controls[1].route(execution_id)
        append(commit)

    world.store.append = too_late  # type: ignore[method-assign]
    with pytest.raises(Gone, match="timed out"):
        callbacks.answer(world.controls[0], token, {"ok": True})
    ended(world, execution_id, "failed")


def test_an_answer_to_a_cancelled_execution_is_gone() -> None:
    world = World()
    execution_id, token = asked(world)
    operate.cancel(world.controls[0], execution_id)
    with pytest.raises(Gone, match="cancelled"):
        callbacks.answer(world.controls[0], token, {"ok": True})


@pytest.mark.parametrize("change", ["mark", "execution", "task", "length", "nothing"])
def test_forged_tokens_are_refused(change: str) -> None:
    world = World()
    execution_id, token = asked(world)
    parts = token.split(".")
    forged = {
        "mark": ".".join([*parts[:4], parts[4][::-1]]),
        "execution": ".".join(["1", *parts[1:]]),
        "task": ".".join([*parts[:2], "k" + "0" * 24, *parts[3:]]),
        "length": token + "A" * 500,
        "nothing": "",
    }[change]
    with pytest.raises(Forged):
        callbacks.answer(world.controls[0], forged, {"ok": True})
    with pytest.raises(Forged):
        callbacks.heartbeat(world.controls[0], forged)
    assert waits(world, execution_id)


def test_a_signal_by_name_never_passes_for_an_answer_by_token() -> None:
    world = World()
    execution_id, _ = asked(world)
    (wait,) = waits(world, execution_id)
    for name in (wait["wait_id"], wait["callback"], "ask"):
        operate.signal(world.controls[0], execution_id, name, {"ok": True})
    assert waits(world, execution_id), "still waiting"


def test_heartbeats_keep_a_callback_alive_and_silence_fails_it() -> None:
    world = World()
    execution_id, token = asked(world, BEATING)
    for _ in range(20):
        target = world.clock.time + 50 * SECOND
        world.run(execution_id, until=lambda: world.clock.time >= target)  # noqa: B023
        world.clock.time = max(world.clock.time, target)
        assert callbacks.heartbeat(world.controls[0], token).became == "alive"
    alive_until = world.clock.time
    state = ended(world, execution_id, "failed")
    assert state.failure is not None
    assert state.finished_at is not None
    assert state.failure["kind"] == "timeout"
    assert "no heartbeat within 60 s" in state.failure["message"]
    assert 60 <= (state.finished_at - alive_until) / SECOND < 130
    with pytest.raises(Gone):
        callbacks.heartbeat(world.controls[0], token)


def test_pings_in_quick_succession_are_one_event() -> None:
    world = World()
    execution_id, token = asked(world, BEATING)
    for _ in range(100):
        world.clock.time += SECOND // 1000
        callbacks.heartbeat(world.controls[0], token)
    assert world.names(execution_id).count("SignalReceived") <= 1
    world.clock.time += 10 * SECOND
    callbacks.heartbeat(world.controls[0], token)
    assert world.names(execution_id).count("SignalReceived") in (1, 2)
    callbacks.answer(world.controls[0], token, "done")
    assert result(world, ended(world, execution_id)) == "done"


def test_a_policy_that_asks_again_is_answered_with_the_token_already_sent() -> None:
    world = World()
    source = ASK.replace(
        "timeout: 3600\n",
        "timeout: 100\n        spec: {policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 3}}]}}\n",
    )
    execution_id, token = asked(world, source)
    begun = world.clock.time
    world.run(execution_id, until=lambda: world.clock.time > begun + 250 * SECOND)
    world.run(execution_id, until=lambda: bool(waits(world, execution_id)))
    assert callbacks.answer(world.controls[0], token, {"ok": True}).became in ("answered", "early")
    assert result(world, ended(world, execution_id)) == {"ok": True}


LOOP = (
    HEAD
    + """
workflow:
  - step: start
    loop: {in: [10, 20, 30], iterator: n, spec: {mode: parallel, policy: {exec: EXEC}}}
    tool:
      - {name: send, kind: http, url: "http://mail/{{ callback.token }}"}
      - {name: ask, kind: callback}
      - {name: sum, kind: noop, result: "{{ iter.n + ask }}"}
"""
)


@pytest.mark.parametrize("where", ["local", "distributed"])
@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(6), 3))
def test_every_iteration_is_answered_by_its_own_token_whatever_happens_on_the_way(where: str, seed: int) -> None:
    faults = Faults(seed, crash=0.02, throttle=0.02, lost_answer=0.05, duplicate=0.3, lose_record=0.1, delay=0.3)
    world = World(faults, routers=2)
    world.tool = mail = Mail()
    execution_id = world.start(LOOP.replace("EXEC", where)).execution_id
    world.run(execution_id, until=lambda: len(set(mail.tokens)) == 3 or world.state(execution_id).finished)
    for n, token in enumerate(dict.fromkeys(mail.tokens)):
        _insist(world, token, n)
        _insist(world, token, n)
    invariants.faults_happened(world)
    state = ended(world, execution_id)
    assert sorted(v % 10 for v in result(world, state)) == [0, 1, 2]
    assert [v // 10 for v in result(world, state)] == [1, 2, 3]


def _insist(world: World, token: str, data: Any) -> None:
    while True:
        try:
            callbacks.answer(world.controls[0], token, data)
            return
        except (Crash, PortError):
            world.controls[0] = world.new_control()


def test_a_command_redelivered_while_the_callback_waits_asks_nobody_again() -> None:
    world = World()
    world.tool = mail = Mail()
    execution_id = world.start(ASK).execution_id
    command = only_command(world)
    world.handle(command)
    world.deliver_record(world.records[0])
    world.handle(command)
    assert len(mail.tokens) == 1
    callbacks.answer(world.controls[0], mail.tokens[0], {"ok": True})
    assert result(world, ended(world, execution_id)) == {"ok": True}


def test_an_answer_to_a_paused_execution_is_kept_until_it_is_resumed() -> None:
    world = World()
    execution_id, token = asked(world)
    operate.pause(world.controls[0], execution_id)
    assert callbacks.answer(world.controls[0], token, {"ok": True}).became == "answered"
    assert callbacks.answer(world.controls[0], token, {"ok": True}).became == "recorded"
    with pytest.raises(Answered):
        callbacks.answer(world.controls[0], token, {"ok": False})
    world.clock.time += 7200 * SECOND  # its timeout passes meanwhile; the answer was first
    world.drain(200)
    assert world.state(execution_id).status == "paused"
    operate.resume(world.controls[0], execution_id)
    assert result(world, ended(world, execution_id)) == {"ok": True}


def test_a_compensation_may_ask_and_is_answered_by_a_token_of_its_own() -> None:
    source = (
        HEAD
        + """
workflow:
  - step: start
    tool: {name: book, kind: http, url: "http://x"}
    compensate:
      - {name: send, kind: http, url: "http://mail/{{ callback.token }}"}
      - {name: ask, kind: callback, schema: {type: boolean}}
    next: {arcs: [{step: fails}]}
  - step: fails
    tool:
      - {name: other, kind: callback, signal: never, timeout: 60}
"""
    )
    world = World()
    world.tool = mail = Mail()
    execution_id = world.start(source).execution_id
    world.run(execution_id, until=lambda: bool(mail.tokens) and bool(waits(world, execution_id)))
    (shown,) = callbacks.open_callbacks(world.controls[0], execution_id)
    assert shown["token"] == mail.tokens[-1]
    with pytest.raises(Unfit):
        callbacks.answer(world.controls[0], mail.tokens[-1], "yes")
    assert callbacks.answer(world.controls[0], mail.tokens[-1], True).became == "answered"
    failure = ended(world, execution_id, "failed").failure
    assert failure is not None
    assert failure["kind"] == "timeout"
    assert "CompensationDone" in world.names(execution_id)


def test_with_the_stream_off_the_sweeper_alone_delivers_an_answer() -> None:
    world = World(stream_on=False)
    execution_id, token = asked(world)
    assert callbacks.answer(world.controls[0], token, {"ok": True}).became == "answered"
    assert result(world, ended(world, execution_id)) == {"ok": True}
