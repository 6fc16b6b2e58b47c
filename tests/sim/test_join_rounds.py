"""Joins in cycles: each round fires by itself, and drops only what comes late of its own round (resolution 13)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.tools.base import ToolCall
from noetl_core.views.explain.replay import replay
from tests.sim import invariants
from tests.sim.generated_playbooks import playbook
from tests.sim.ports import Faults
from tests.sim.world import World


def arcs(*targets: str | dict[str, Any], mode: str = "inclusive") -> dict[str, Any]:
    return {"spec": {"mode": mode}, "arcs": [{"step": t} if isinstance(t, str) else t for t in targets]}


def work(name: str, *targets: str | dict[str, Any], wait: int = 0, join: Any = None, **more: Any) -> dict[str, Any]:
    tool: dict[str, Any] = {"kind": "wait", "duration": wait} if wait else {"kind": "noop", "result": "{{ args }}"}
    step: dict[str, Any] = {"step": name, "tool": tool, **more}
    if targets:
        step["next"] = arcs(*targets)
    if join:
        step["spec"] = {"join": join}
    return step


def round_again(join: Any, *, to: str = "start", rounds: int = 3) -> list[dict[str, Any]]:
    """Fast and slow branches meet; the meeting goes back while there are rounds left."""
    more = {"step": to, "when": f"{{{{ (ctx.n or 0) < {rounds} }}}}"}
    return [
        work("start", "fast", "slow"),
        work("fast", {"step": "meet", "args": {"by": "fast"}}),
        work("slow", {"step": "meet", "args": {"by": "slow"}}, wait=5_000),
        work("meet", more, join=join, set_ctx={"n": "{{ (ctx.n or 0) + 1 }}"}),
    ]


def ended(steps: list[dict[str, Any]], faults: Faults | None = None) -> tuple[World, Any]:
    def echo(call: ToolCall) -> Outcome:
        return Outcome.ok(call.inputs.get("result"))

    world = World(faults or Faults(), tool=echo)
    execution_id = world.start(playbook(steps)).execution_id
    state = world.run(execution_id)
    world.drain()
    invariants.check(world, execution_id)
    assert replay(world.controls[0], execution_id).differences == ()
    assert state.status == "completed", state.failure
    return world, state


def by(world: World, state: Any, step: str = "meet") -> list[Any]:
    events = [e for c in world.store.streams[StreamId(state.execution_id)] for e in c.events]
    return [(e.data.get("args") or {}).get("by") for e in events if e.name == "StepScheduled" and e.data["step"] == step]


@pytest.mark.parametrize("seed", range(5))
def test_each_round_runs_on_its_own_first_token_while_slow_branches_of_earlier_rounds_live(seed: int) -> None:
    world, state = ended(round_again("any"), Faults(seed=seed))
    assert by(world, state) == ["fast", "fast", "fast"]
    assert state.steps["slow"].visits == 3
    assert not state.joins_fired
    assert not state.rounds


def test_a_count_is_of_one_round() -> None:
    """A slow token of round 0 and the fast one of round 1 are not two of one round."""
    steps = round_again({"count": 2}, rounds=2)
    steps[0]["next"] = arcs("fast", "slow", "third")
    steps.append(work("third", {"step": "meet", "args": {"by": "third"}}))
    world, state = ended(steps)
    assert by(world, state) == ["third", "third"]


def test_an_inner_cycle_of_one_branch_is_no_new_round() -> None:
    steps = round_again("any", rounds=1)
    steps[1] = work(
        "fast",
        {"step": "fast", "when": "{{ (args.k or 0) < 3 }}", "args": {"k": "{{ (args.k or 0) + 1 }}"}},
        {"step": "meet", "when": "{{ (args.k or 0) == 3 }}", "args": {"by": "fast"}},
    )
    world, state = ended(steps)
    assert by(world, state) == ["fast"], "the slow one is late, whichever way the fast one came"


def test_going_back_into_a_branch_is_a_new_round() -> None:
    """meet -> again -> fast -> meet, with slow of round 0 still on its way."""
    steps = round_again("any", to="again")
    steps.append(work("again", "fast"))
    world, state = ended(steps)
    assert by(world, state) == ["fast", "fast", "fast"]
    assert state.steps["slow"].visits == 1


def test_a_round_that_begins_before_the_previous_has_merged() -> None:
    """A branch beside the join goes back to the beginning, and begins the next round."""
    steps = round_again("any", rounds=0)
    steps[0]["next"] = arcs(
        "fast", "slow", {"step": "tick", "when": "{{ (args.k or 0) < 2 }}", "args": {"k": "{{ (args.k or 0) + 1 }}"}}
    )
    steps.append(work("tick", {"step": "start", "args": {"k": "{{ args.k }}"}}, wait=100))
    world, state = ended(steps)
    assert by(world, state) == ["fast", "fast", "fast"]


def test_without_a_cycle_tokens_of_one_join_are_of_one_round() -> None:
    """Two runs of the step before the fork."""
    steps = [work("start", {"step": "fork"}, {"step": "fork"}), work("fork", "fast", "slow"), *round_again("any", rounds=0)[1:]]
    world, state = ended(steps)
    assert by(world, state) == ["fast"]
