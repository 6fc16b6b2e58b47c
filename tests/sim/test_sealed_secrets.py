"""Secrets that a resumed pipeline needs: sealed in the log, open to its worker, and nowhere else to be found (I10, P5)."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import pytest

from noetl_core.adapters.local.sealer import LocalSealer
from noetl_core.control.lifecycle.operate import signal
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.expr import Secret
from noetl_core.tools.base import ToolCall
from tests.properties import some
from tests.raw_events import Stored
from tests.sim import invariants
from tests.sim.ports import Crash, Faults
from tests.sim.world import World

TOKEN = "s3cr3t-t0ken/with+signs"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/sealed}\n"
LOGIN = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      - name: login
        kind: http
        url: http://auth
        spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {t: "{{ outcome.result.token }}"}, set_ctx: {u: "{{ outcome.result.user }}"}}}}]}}
      - {name: nap, kind: wait, duration: 600}
      - {name: fetch, kind: http, url: "http://data/{{ login.token }}"}
      - {name: nap_again, kind: callback, signal: go}
      - {name: again, kind: http, url: "http://data/{{ iter.t }}/{{ login.user }}/{{ ctx.u }}"}
"""
)
LOOP = (
    HEAD
    + """
workflow:
  - step: start
    loop: {in: [0, 1, 2], iterator: n, spec: {mode: parallel, policy: {exec: EXEC}}}
    tool:
      - {name: login, kind: http, url: "http://auth/{{ iter.n }}"}
      - {name: nap, kind: wait, duration: 600}
      - {name: fetch, kind: http, url: "{{ login.token }}"}
"""
)


def tool(call: ToolCall) -> Outcome:
    if call.task == "login":
        return Outcome.ok({"user": "ada", "token": Secret(TOKEN + str(call.inputs["url"])[-1])})
    return Outcome.ok(str(call.inputs["url"]).count(TOKEN))


def fetched(world: World) -> list[str]:
    return [str(c.inputs["url"]) for c in world.calls if c.task in ("fetch", "again")]


def nothing_shows(world: World) -> None:
    """I10: neither the secret nor its usual disguises outside the workers."""
    stored = repr([world.store.streams, world.store.snapshots, world.results.objects, world.queue.sent, world.index.all_heads])
    raw = TOKEN.encode()
    for text in (TOKEN, TOKEN[::-1], quote(TOKEN, safe=""), raw.hex(), base64.b64encode(raw).decode()[:-4]):
        assert text not in stored
    for offset in range(3):  # base64 of it anywhere in a longer text
        assert base64.b64encode(b"x" * offset + raw).decode()[4:-4] not in stored


def sealed(world: World, execution_id: str) -> list[str]:
    streams = [c for s, c in world.store.streams.items() if s.execution_id == execution_id]
    events: list[Stored] = [e for commits in streams for c in commits for e in c.events]
    return [e.data["sealed"] for e in events if e.data.get("sealed")]


def test_a_token_is_available_after_a_wait_and_in_no_log() -> None:
    world = World()
    world.tool = tool
    execution_id = world.start(LOGIN).execution_id
    world.run(execution_id, until=lambda: any(w.get("signal") for r in world.state(execution_id).runs.values() for w in r.waits))
    signal(world.controls[0], execution_id, "go", {})
    assert world.run(execution_id).status == "completed"
    assert fetched(world) == [f"http://data/{TOKEN}h", f"http://data/{TOKEN}h/ada/ada"]
    assert len(sealed(world, execution_id)) == 2
    nothing_shows(world)
    invariants.check(world, execution_id)


@pytest.mark.parametrize("where", ["local", "distributed"])
@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(6), 3))
def test_every_iteration_gets_its_own_secret_back_under_faults(where: str, seed: int) -> None:
    world = World(Faults(seed, crash=0.02, throttle=0.02, lost_answer=0.1, duplicate=0.3, delay=0.3) if seed else Faults())
    world.tool = tool
    execution_id = world.start(LOOP.replace("EXEC", where)).execution_id
    state = world.run(execution_id)
    assert state.status in ("completed", "failed"), state.stuck
    if state.status == "failed":  # killed after it had the token and before it could seal it: said, and not sent as ***
        assert state.failure is not None
        assert state.failure["kind"] == "template"
        assert seed
    else:
        assert set(fetched(world)) == {f"{TOKEN}{n}" for n in range(3)}
    assert not any("***" in url for url in fetched(world))
    invariants.faults_happened(world)
    nothing_shows(world)
    world.faults.quiet = True
    world.drain()
    invariants.check(world, execution_id)


def test_a_takeover_after_the_resume_decrypts_the_token_too() -> None:
    world = World()
    deaths: list[Any] = []

    def dies_once(call: ToolCall) -> Outcome:
        if call.task == "fetch" and not deaths:
            deaths.append(call)
            raise Crash
        return tool(call)

    world.tool = dies_once
    execution_id = world.start(LOOP.replace("[0, 1, 2]", "[0]").replace("EXEC", "local")).execution_id
    assert world.run(execution_id).status == "completed"
    assert fetched(world) == [f"{TOKEN}0"] * 2


def test_without_a_sealer_a_later_read_is_undefined_with_the_reason() -> None:
    world = World(sealer=None)
    world.tool = tool
    execution_id = world.start(LOOP.replace("EXEC", "local")).execution_id
    state = world.run(execution_id)
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "template")
    assert sealed(world, execution_id) == []
    nothing_shows(world)


def test_secrets_sealed_for_one_run_cannot_be_opened_by_another() -> None:
    world = World()
    world.tool = tool
    one = world.start(LOOP.replace("EXEC", "local"), idempotency_key="one").execution_id
    world.run(one, until=lambda: bool(sealed(world, one)))
    (text,) = sealed(world, one)
    (run,) = world.state(one).runs
    sealer = LocalSealer(lambda: (b"sim" * 11)[:32])
    assert TOKEN.encode() in sealer.open(text, {"execution_id": one, "run_id": run})
    with pytest.raises(Exception, match="cannot be decrypted"):
        sealer.open(text, {"execution_id": "1", "run_id": run})
    assert StreamId(one, run) in world.store.streams


def test_runs_without_secrets_seal_nothing() -> None:
    world = World()
    world.tool = lambda call: Outcome.ok({"token": "plain"})
    execution_id = world.start(LOOP.replace("EXEC", "local")).execution_id
    assert world.run(execution_id).status == "completed"
    assert sealed(world, execution_id) == []


SEQUENCE = (
    HEAD
    + """
workflow:
  - step: start
    loop: {in: [0, 1, 2], iterator: n, spec: {mode: sequential}}
    tool:
      - {name: use, kind: http, url: "{{ ctx.token | default('none') }}"}
      - {name: login, kind: http, url: "http://auth/{{ iter.n }}", set_ctx: {token: "{{ outcome.result.token }}"}}
      - {name: nap, kind: wait, duration: 600}
"""
)


def test_later_iterations_read_secret_ctx_writes_of_earlier_ones_and_never_the_mask() -> None:
    world = World()
    world.tool = tool
    execution_id = world.start(SEQUENCE).execution_id
    assert world.run(execution_id).status == "completed"
    assert [c.inputs["url"] for c in world.calls if c.task == "use"] == ["none", f"{TOKEN}0", f"{TOKEN}1"]
    nothing_shows(world)


DECLARED = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      - {name: login, kind: http, url: http://auth, spec: {result: {secret: SECRET}}}
      - {name: between, kind: noop, result: 1}
      - {name: fetch, kind: http, url: "INPUT"}
"""
)


def gives_plain(call: ToolCall) -> Outcome:
    if call.task == "login":
        return Outcome.ok({"user": "ada", "token": TOKEN, "rows": ["x" * 200] * 100})
    return Outcome.ok(str(call.inputs.get("url", "")).count(TOKEN))


@pytest.mark.parametrize(
    "text", ["Bearer {{ login.token }}", "{{ login.token }}", "{{ [login] }}", "{{ _prev }}{{ login.token | default('none') }}"]
)
@pytest.mark.parametrize("secret", ["true", "[token]"])
def test_a_takeover_without_the_secret_says_so_and_sends_nothing(secret: str, text: str) -> None:
    world = World()
    deaths: list[Any] = []

    def dies_once(call: ToolCall) -> Outcome:
        if call.task == "fetch":
            if not deaths:
                deaths.append(call)
                raise Crash
            raise AssertionError(f"sent {call.inputs}")
        if call.task == "between":
            world.clock.sleep(2)  # so that what login gave is committed, masked
        return gives_plain(call)

    world.tool = dies_once
    execution_id = world.start(DECLARED.replace("SECRET", secret).replace("INPUT", text)).execution_id
    state = world.run(execution_id)
    assert deaths and state.failure is not None
    assert state.failure["kind"] == "template"
    assert "a secret is gone" in state.failure["message"] and "redrive" in state.failure["message"]
    nothing_shows(world)
    invariants.check(world, execution_id)


@pytest.mark.parametrize("secret", ["true", "[token]"])
def test_a_declared_secret_is_usable_within_an_activation_and_shown_nowhere(secret: str) -> None:
    world = World()
    world.tool = gives_plain
    execution_id = world.start(DECLARED.replace("SECRET", secret).replace("INPUT", "Bearer {{ login.token }}")).execution_id
    assert world.run(execution_id).status == "completed"
    assert fetched(world) == [f"Bearer {TOKEN}"]
    nothing_shows(world)
    invariants.check(world, execution_id)
