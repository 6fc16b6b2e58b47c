"""One playbook, one answer: nothing that happens depends on the execution's id, nor what a join merges on who came first."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given

from noetl_core.engine.outcome import Outcome
from noetl_core.log.stored_values import Values
from noetl_core.tools.base import ToolCall
from tests.golden.drives import echo, mended
from tests.golden.scenarios import SCENARIOS, Scenario
from tests.properties import TIMES, examples, some
from tests.sim import generated_playbooks
from tests.sim.generated_playbooks import GenLoop, GenStep
from tests.sim.world import World

IDS = 50 if TIMES else 12
DERIVED = re.compile(r'\b[trcukws][0-9a-f]{24}\b|(?<=")\d{12,19}(?=[".])|\b\d{17,19}\b')
"""Ids: those made by hashing, and execution ids."""
MERGED = """\
  - step: start
    tool: { kind: noop }
    next:
      spec: { mode: inclusive }
      arcs: [{ step: work, args: { n: 1 } }, { step: work, args: { n: 2 } }, { step: work, args: { n: 3 } }]
  - step: work
    tool: { kind: http, url: "http://x/{{ args.n }}" }
    next: { arcs: [{ step: mid, args: { n: "{{ args.n }}" } }] }
  - step: mid
    tool: { kind: noop }
    next: { arcs: [{ step: meet, args: { n: "{{ args.n }}" } }] }
  - { step: meet, spec: { join: JOIN }, tool: { kind: noop, result: "{{ args.n }}" } }
"""


def told(world: World) -> str:
    """Everything that stands in the logs and in the store, with ids by the order of their first appearance; without nonces."""
    rows: list[Any] = [
        [
            str(stream.execution_id),
            stream.run_id,
            [[e.name, e.ts, {k: v for k, v in e.data.items() if k != "key"}] for e in commit.events],
        ]
        for stream, commits in world.store.streams.items()
        for commit in commits
    ]
    rows.append([[key, body.decode()] for key, body in world.results.objects.items()])
    text = json.dumps(rows, ensure_ascii=False)
    known: dict[str, str] = {}
    text = DERIVED.sub(lambda m: known.setdefault(m[0], f"<{len(known)}>"), text)
    return re.sub(r"sha256:[0-9a-f]{64}", "<digest>", text)  # digests of manifests, which name runs


def played(scenario: Scenario, key: str) -> World:
    return scenario.play("ordered", key)[0]


@pytest.mark.one_in(3)
@pytest.mark.sized
@pytest.mark.parametrize("name", some(sorted(SCENARIOS), 5))
def test_every_feature_leaves_equal_histories_whatever_the_ids(name: str) -> None:
    histories = {told(played(SCENARIOS[name], f"key-{n}")) for n in range(IDS)}
    assert len(histories) == 1


@given(net=generated_playbooks.nets())
@examples(15)
def test_any_net_leaves_equal_histories_whatever_the_ids(net: tuple[GenStep, ...]) -> None:
    source = generated_playbooks.playbook(generated_playbooks.net_steps(net))
    assert len({_told_of(source, lambda call: Outcome.ok(call.task), n) for n in range(8)}) == 1


@given(loop=generated_playbooks.loops())
@examples(15)
def test_any_loop_leaves_equal_histories_whatever_the_ids(loop: GenLoop) -> None:
    source = generated_playbooks.playbook([loop.step()])
    assert len({_told_of(source, loop.tool, n) for n in range(8)}) == 1


def _told_of(source: str, tool: Any, n: int) -> str:
    world = World(tool=tool)
    world.run(world.start(source, idempotency_key=f"key-{n}").execution_id)
    world.drain()
    return told(world)


@pytest.mark.sized
@pytest.mark.parametrize("join", ["all", "{ count: 3 }"])
def test_tokens_of_one_arc_are_merged_in_the_order_of_their_branches(join: str) -> None:
    scenario = Scenario("", MERGED.replace("JOIN", join))
    results = set()
    for n in range(IDS):  # ids, and the order in which the branches come to their ends
        world, execution_id, _ = scenario.play("merged", f"key-{n}", seed=n)
        state = world.state(execution_id)
        results.add(Values(world.store, world.results, execution_id).at(state.result))
    assert results == {3}


@pytest.mark.sized
def test_a_redrive_merges_the_same_as_an_uninterrupted_execution() -> None:
    """The second branch fails, and is run again; it is still the second."""

    def bad(call: ToolCall) -> Outcome:
        second = str(call.inputs.get("url")) == "http://x/2"
        return Outcome.failed("client_error", "no", retryable=False) if second else echo(call)

    scenario = Scenario("", MERGED.replace("JOIN", "all"), tool=bad, drive=mended(None))
    results = set()
    for n in some(range(20), 3):
        world, execution_id, _ = scenario.play("merged", f"key-{n}", seed=n)
        state = world.state(execution_id)
        assert state.status == "completed"
        results.add(Values(world.store, world.results, execution_id).at(state.result))
    assert results == {3}
