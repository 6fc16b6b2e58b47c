"""Parked tokens are judged again when what their admission reads has changed: ctx, or the steps that have ended (resolution 12)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.engine.routing import rules as routing
from noetl_core.views.explain.replay import replay
from tests.sim import invariants
from tests.sim.generated_playbooks import playbook
from tests.sim.world import World


def gated(when: str, name: str = "gated") -> dict[str, Any]:
    rules = [{"when": when, "then": {"allow": True}}, {"else": {"then": {"allow": False}}}]
    return {"step": name, "spec": {"policy": {"admit": {"rules": rules}}}, "tool": {"kind": "noop", "result": "in"}}


def fork(*targets: str) -> dict[str, Any]:
    return {"step": "start", "next": {"spec": {"mode": "inclusive"}, "arcs": [{"step": t} for t in targets]}}


def waits(name: str, seconds: int) -> dict[str, Any]:
    return {"step": name, "tool": {"kind": "wait", "duration": seconds, "result": 7}}


def run(steps: list[dict[str, Any]], tool: Any = None) -> tuple[World, Any]:
    world = World(tool=tool or (lambda call: Outcome.ok(call.inputs.get("result"))))
    execution_id = world.start(playbook(steps)).execution_id
    state = world.run(execution_id)
    world.drain()
    invariants.check(world, execution_id)
    assert replay(world.controls[0], execution_id).differences == ()
    return world, state


def scheduled(world: World, state: Any) -> list[tuple[str, int]]:
    commits = world.store.streams[StreamId(state.execution_id)]
    return [
        (e.data["step"], (e.ts - state.started_at) // 1_000_000) for c in commits for e in c.events if e.name == "StepScheduled"
    ]


@pytest.mark.parametrize(
    "when",
    [
        "{{ steps.slow.status == 'ok' }}",
        "{{ steps.slow.result == 7 }}",
        "{{ steps['slow'] is defined }}",
        "{{ 'slow' in steps }}",
        "{{ slow == 7 }}",
    ],
)
@pytest.mark.parametrize("last", [True, False], ids=["nothing else runs", "others go on"])
def test_a_token_whose_rule_reads_a_step_moves_when_the_step_ends(when: str, last: bool) -> None:
    others = [] if last else [waits("slower", 5_000)]
    world, state = run([fork("gated", "slow", *(s["step"] for s in others)), gated(when), waits("slow", 100), *others])
    assert state.status == "completed"
    assert state.steps["gated"].status == "ok"
    at = dict(scheduled(world, state))["gated"]
    assert 100 <= at < 700, "as soon as it may, not when everything else is over"


def test_a_step_that_fails_opens_the_gate_too() -> None:
    def tool(call: Any) -> Outcome:
        return Outcome.failed("server_error", "no") if call.kind == "http" else Outcome.ok("in")

    bad = {
        "step": "bad",
        "tool": {"kind": "http", "url": "http://x"},
        "next": {"arcs": [{"step": "end", "when": "{{ event.name == 'step.failed' }}"}]},
    }
    _, state = run([fork("gated", "bad"), gated("{{ steps.bad.status == 'error' }}"), bad, {"step": "end"}], tool)
    assert state.steps["gated"].status == "ok"


def test_a_token_admitted_at_the_last_moment_reaches_its_join() -> None:
    """No join fires without a parked token whose rule holds."""
    gate = gated("{{ steps.slow.status == 'ok' }}") | {"next": {"arcs": [{"step": "meet", "args": {"gated": 1}}]}}
    slow = waits("slow", 100) | {"next": {"arcs": [{"step": "meet", "args": {"slow": 1}}]}}
    meet = {"step": "meet", "spec": {"join": "all"}, "tool": {"kind": "noop", "result": "{{ args }}"}}
    _, state = run([fork("gated", "slow"), gate, slow, meet])
    assert state.steps["meet"].visits == 1


def test_a_token_is_not_evaluated_again_after_unrelated_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    admit = routing.admit_token

    def counted(p: Any, token: Any) -> bool:
        judged.append(token.step)
        return admit(p, token)

    monkeypatch.setattr(routing, "admit_token", counted)
    chain = [{"step": f"c{n}", "tool": {"kind": "noop"}, "next": {"arcs": [{"step": f"c{n + 1}"}]}} for n in range(20)]
    steps = [
        fork("never", "reads", "c0"),
        gated("{{ ctx.open }}", "never"),
        gated("{{ steps.no.result }}", "reads"),
        *chain,
        {"step": "c20", "tool": {"kind": "noop"}},
        {"step": "no", "tool": {"kind": "noop"}},
    ]
    world = World(tool=lambda call: Outcome.ok(None))
    assert world.run(world.start(playbook(steps)).execution_id).status == "completed"
    assert judged.count("never") <= 2, "when it came, and before it expired"
    assert judged.count("reads") <= 23, "once for each step that ended, when it came, and before it expired"
