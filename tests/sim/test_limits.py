"""Endless work ends, and its error names the limit and the remedy."""

from __future__ import annotations

import pytest

from tests.call_counts import calls_of
from tests.sim.operating import HEAD
from tests.sim.runs import ends
from tests.sim.world import World

AROUND = """
  - step: start
    tool:
      - {name: one, kind: noop}
      - name: two
        kind: noop
        spec: {policy: {rules: [{else: {then: {do: jump, to: one}}}]}}
"""
CYCLE = "  - step: start\n    tool: [{name: one, kind: noop}]\n    next: {arcs: [{step: start}]}\n"
FAN = """
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: a}, {step: a}]}
  - step: a
    spec: {policy: {admit: {rules: [{when: "{{ ctx.never is defined }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: [{name: one, kind: noop}]
"""


@pytest.mark.parametrize(
    ("body", "limit", "value"),
    [(AROUND, "max_task_visits", 40), (CYCLE, "max_step_visits", 5), (CYCLE, "max_commits", 7), (FAN, "max_tokens", 2)],
)
def test_an_exceeded_limit_fails_with_its_name_and_a_remedy(body: str, limit: str, value: int) -> None:
    world = World()
    executor = f"executor: {{spec: {{policy: {{limits: {{{limit}: {value}}}}}}}}}\nworkflow:\n"
    execution_id = world.start(HEAD.replace("workflow:\n", executor) + body).execution_id
    state = ends(world, execution_id, "failed")
    assert state.failure is not None
    assert state.failure["kind"] == "limit"
    assert f"raise executor.spec.policy.limits.{limit}" in state.failure["message"]
    assert str(value) in state.failure["message"]


REFUSED = """
  - step: start
    spec: {policy: {admit: {rules: [{else: {then: {allow: false}}}], on_deny: fail}}}
    next: {arcs: [{step: start, when: "{{ event.name == 'step.failed' }}"}]}
"""
ROUTES = "  - {step: start, next: {arcs: [{step: back}]}}\n  - {step: back, next: {arcs: [{step: start}]}}\n"
QUIET = """
  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: meet}, {step: never}]}}
  - {step: never, spec: {join: {count: 2}}, next: {arcs: [{step: meet}]}}
  - {step: meet, spec: {join: all}, next: {arcs: [{step: meet}]}}
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("body", [REFUSED, ROUTES, QUIET])
def test_cycles_without_tasks_fail_at_the_limit_of_visits(body: str) -> None:
    world = World()
    executor = "executor: {spec: {policy: {limits: {max_step_visits: 500}}}}\nworkflow:\n"
    execution_id = world.start(HEAD.replace("workflow:\n", executor) + body).execution_id
    state = ends(world, execution_id, "failed")
    assert state.failure is not None
    assert "was scheduled 500 times" in state.failure["message"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("limit", "value"), [("MAX_EVENTS", 2000), ("MAX_ARCS", 400)])
def test_a_cycle_in_which_nothing_runs_ends_within_its_decision(limit: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"noetl_core.engine.routing.rules.{limit}", value)
    world = World()
    execution_id = world.start(HEAD + ROUTES).execution_id
    state = ends(world, execution_id, "failed")
    assert state.failure is not None
    assert state.failure["kind"] == "limit"
    assert state.failure["message"].startswith("one decision made 2")
    assert " and judged 400 arcs, the last at step start" in state.failure["message"]


@pytest.mark.nightly
def test_joins_that_wait_for_each_other_do_not_take_quadratic_work() -> None:
    """The last join of the chain comes first in the playbook, and each can be judged only once the one before it has fired."""

    def work(many: int) -> int:
        world = World()
        started: list[str] = []
        number = calls_of(lambda: started.append(world.start(HEAD + chain(many)).execution_id))
        assert world.state(started[0]).step(f"j{many}").visits == 1
        return number

    work(2)
    assert work(400) < 10 * work(100), "it is 60 times when all pairs are looked at each time"


def chain(many: int) -> str:
    """Joins, each of which waits for the one that stands after it in the playbook."""
    joins = [f"  - {{step: j{n}, spec: {{join: all}}, next: {{arcs: [{{step: j{n + 1}}}]}}}}\n" for n in reversed(range(many))]
    arcs = ", ".join(f"{{step: j{n}}}" for n in range(many))
    body = (
        f"  - {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}}}\n  - {{step: j{many}, tool: {{kind: noop}}}}\n"
    )
    return body + "".join(joins)


def test_arcs_after_a_task_are_no_empty_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_core.engine.routing.rules.MAX_ARCS", 3)
    arcs = ", ".join(["{step: end, when: '{{ false }}'}"] * 9 + ["{step: end}"])
    body = f"  - {{step: start, tool: {{kind: noop}}, next: {{arcs: [{arcs}]}}}}\n  - {{step: end, next: {{arcs: [{{step: last}}]}}}}\n"
    world = World()
    ends(world, world.start(HEAD + body + "  - {step: last, tool: {kind: noop}}\n").execution_id, "completed")
