"""`next.spec.policy`: priority and dedupe (canonical step spec 5.5, resolution 30)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.dsl.parse import check
from noetl_core.engine.records import StreamId
from tests.raw_events import data_of
from tests.sim.invariants import check as invariants
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\nworkflow:\n"
FAN = (
    HEAD
    + """
  - step: start
    next:
      spec: { mode: inclusive, policy: %s }
      arcs:
        - { step: low, args: { n: 1 } }
        - { step: high, args: { n: 1 } }
        - { step: high, args: { n: 1 } }
        - { step: high, args: { n: 2 } }
  - { step: low, next: { arcs: [{ step: work, args: { who: low } }] } }
  - { step: high, next: { spec: { policy: { priority: "{{ args.n }}" } }, arcs: [{ step: work, args: { who: "{{ args.n }}" } }] } }
  - { step: work, tool: { kind: noop, result: "{{ args.who }}" } }
"""
)


def events(policy: str, name: str) -> list[dict[str, Any]]:
    world = World()
    execution_id = world.start(FAN % policy).execution_id
    assert world.run(execution_id).status == "completed"
    invariants(world, execution_id)
    return data_of(world.store.streams[StreamId(execution_id)], name)


@pytest.mark.parametrize(
    ("policy", "steps"),
    [
        ("{}", ["low", "high", "high", "high"]),
        ("{ dedupe: false }", ["low", "high", "high", "high"]),
        ("{ dedupe: true }", ["low", "high", "high"]),
        ('{ dedupe: "{{ event.name }}" }', ["low", "high"]),
        ('{ dedupe: "{{ ctx.missing }}" }', ["low", "high", "high", "high"]),
    ],
)
def test_a_deduplicating_router_makes_the_same_token_once(policy: str, steps: list[str]) -> None:
    assert [d["step"] for d in events(policy, "StepScheduled") if d["step"] in ("low", "high")] == steps
    assert [a["arc"] for a in events(policy, "NextEvaluated")[0]["selected"]] == [0, 1, 2, 3], "every arc has fired"


def test_the_token_of_the_higher_priority_is_scheduled_first() -> None:
    who = [d["args"]["who"] for d in events("{ dedupe: true }", "StepScheduled") if d["step"] == "work"]
    assert who == [2, 1, "low"]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("{ priority: soon }", 'E112 priority of next of step "start" must be a number'),
        ("{ dedupe: id }", 'E112 dedupe of next of step "start" must be true or an expression'),
    ],
)
def test_a_priority_or_dedupe_that_is_plain_text_is_refused(policy: str, message: str) -> None:
    assert [str(d) for d in check(FAN % policy)[1] if message in str(d)]


def test_a_priority_that_is_no_number_fails_the_execution_clearly() -> None:
    world = World()
    state = world.run(world.start(FAN % '{ priority: "{{ workload }}" }').execution_id)
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "schema")
