"""Executions that hold a place and wait for another in a circle: the newest that waits fails, and says why; the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.admit import register
from noetl_core.control.core import Control
from noetl_core.control.limits import deadlocks as deadlocks_module
from noetl_core.control.limits.places import SharedLimits
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.state import State
from noetl_core.ports import LimitPlaces
from tests.properties import crash_points, some
from tests.sim.concurrency import at_rest, start
from tests.sim.ports import Faults
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: sim/{name}}}\nworkload: {{n: 0}}\n"
CROSSED = (
    HEAD
    + """executor: {{spec: {{policy: {{concurrency: {{key: {own}, max: {most}}}}}}}}}
workflow:
  - step: start
    tool: {{name: first, kind: http, url: "http://x"}}
    next: {{arcs: [{{step: second}}]}}
  - step: second
    spec: {{policy: {{concurrency: {{key: {other}, max: {most}}}}}}}
    tool: {{name: second, kind: http, url: "http://x"}}
"""
)
CALLS = (
    HEAD
    + """workflow:
  - step: start
    spec: {{policy: {{concurrency: {{key: {own}, max: 1}}}}}}
    tool:
      - {{name: first, kind: http, url: "http://x"}}
      - {{name: below, kind: playbook, path: sim/needs-{other}}}
"""
)
NEEDS = (
    HEAD
    + """executor: {{spec: {{policy: {{concurrency: {{key: {own}, max: 1}}}}}}}}
workflow:
  - step: start
    tool: {{name: work, kind: noop}}
"""
)


def crossed(most: int = 1) -> tuple[str, str]:
    return (
        CROSSED.format(name="ab", own="a", other="b", most=most),
        CROSSED.format(name="ba", own="b", other="a", most=most),
    )


def takes(world: World, seconds: float = 20) -> None:
    def tool(call: Any) -> Outcome:
        world.take(seconds)
        return Outcome.ok(1)

    world.tool = tool


def deadlocks(states: list[State]) -> list[State]:
    return [s for s in states if s.failure is not None and s.failure.get("code") == "deadlock"]


def test_the_newest_of_two_that_wait_for_each_other_fails_and_the_other_goes_on() -> None:
    world = World(concurrency=10)
    takes(world)
    ab, ba = crossed()
    ids = [*start(world, ab, 1), *start(world, ba, 1)]
    states = at_rest(world, ids)
    (failed,) = deadlocks(states)
    assert sorted(s.status for s in states) == ["completed", "failed"]
    (other,) = [x for x in ids if x != failed.execution_id]
    assert failed.failure is not None
    own, asked = ("a", "b") if failed.execution_id == ids[0] else ("b", "a")
    assert failed.failure["kind"] == "limit"
    assert failed.failure["step"] == "second"
    assert failed.failure["message"] == (
        f"deadlock: execution {failed.execution_id} waits for limit {asked}, held by execution {other}, which waits for"
        f" limit {own}, held by execution {failed.execution_id}; request limits in the same order everywhere"
    )


def test_arcs_handle_a_deadlock_as_any_failure() -> None:
    world = World(concurrency=10)
    takes(world)
    handled = (
        "    next: {arcs: [{step: other, when: \"{{ event.name == 'step.failed' and event.error.code == 'deadlock' }}\"}]}\n"
    )
    other = "  - step: other\n    tool: {name: instead, kind: noop}\n"
    ids = [x for source in crossed() for x in start(world, source + handled + other, 1)]
    states = at_rest(world, ids)
    assert [s.status for s in states] == ["completed", "completed"]
    assert sum(s.step("other").runs for s in states) == 1


def test_children_that_wait_for_places_of_the_other_parent_deadlock() -> None:
    world = World(concurrency=10)
    takes(world)
    for name in "ab":
        register(world.controls[0], NEEDS.format(name=f"needs-{name}", own=name))
    ids = [
        *start(world, CALLS.format(name="ab", own="a", other="b"), 1),
        *start(world, CALLS.format(name="ba", own="b", other="a"), 1),
    ]
    states = at_rest(world, ids)
    assert sorted(s.status for s in states) == ["completed", "failed"]
    (failed,) = [s for s in states if s.status == "failed"]
    assert failed.failure is not None
    assert "deadlock: execution" in failed.failure["message"]
    assert ", which waits for its child " in failed.failure["message"]


def test_waiting_for_a_place_that_will_be_freed_is_no_deadlock() -> None:
    world = World(concurrency=20)
    takes(world)
    ab, ba = crossed(most=2)
    states = at_rest(world, [*start(world, ab, 1), *start(world, ba, 1)])
    assert [s.status for s in states] == ["completed", "completed"]
    chained = CROSSED.format(name="ac", own="a", other="c", most=1)
    again = [*start(world, chained, 4), *start(world, CROSSED.format(name="dc", own="d", other="c", most=1), 4)]
    assert {s.status for s in at_rest(world, again)} == {"completed"}, "all take them in the same order"


def test_a_waiter_that_cannot_overtake_is_part_of_a_deadlock() -> None:
    """It could have a place by its own `max`, and waits behind one that could not."""
    world = World(concurrency=20)
    takes(world)
    holds_a = CROSSED.format(name="ak", own="a", other="k", most=1).replace("key: k, max: 1", "key: k, max: 5")
    holds_k = CROSSED.format(name="ka", own="k", other="a", most=1)
    ids = [*start(world, holds_k, 1), *start(world, holds_a, 1)]
    behind = start(world, NEEDS.format(name="behind", own="k"), 1)
    states = at_rest(world, [*ids, *behind])
    assert len(deadlocks(states)) == 1
    assert sorted(s.status for s in states) == ["completed", "completed", "failed"]


def test_many_deadlocks_and_waits_all_end() -> None:
    world = World(concurrency=40)
    takes(world)
    ab, ba = crossed(most=2)
    ids = [x for _ in range(5) for source in (ab, ba) for x in start(world, source, 2)]
    states = at_rest(world, ids)
    assert {s.status for s in states} <= {"completed", "failed"}
    assert len(deadlocks(states)) == sum(s.status == "failed" for s in states)


def test_the_sweeper_finds_a_deadlock_that_nobody_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedLimits, "_closes_circle", lambda *_: None)
    world = World(concurrency=10)
    takes(world)
    ids = [x for source in crossed() for x in start(world, source, 1)]
    assert sorted(s.status for s in at_rest(world, ids)) == ["completed", "failed"]


@pytest.mark.sized
def test_a_crash_at_any_port_call_leaves_no_deadlock() -> None:
    def play(world: World) -> None:
        takes(world)
        states = at_rest(world, [x for source in crossed() for x in start(world, source, 1)])
        assert {s.status for s in states} <= {"completed", "failed"}
        assert len(deadlocks(states)) == sum(s.status == "failed" for s in states) <= 1

    calm = World()
    play(calm)
    for after in (False, True):
        for point in crash_points(calm.faults.calls, after):
            play(World(Faults(crash_at=point, crash_after=after)))


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(6), 3))
def test_any_mix_of_faults_leaves_no_deadlock(seed: int) -> None:
    faults = Faults(seed, crash=0.02, throttle=0.02, lost_answer=0.05, duplicate=0.2, lose_record=0.1, delay=0.2)
    world = World(faults, routers=2)
    takes(world)
    states = at_rest(world, [x for source in crossed() for x in start(world, source, 2)])
    assert {s.status for s in states} <= {"completed", "failed"}


SIBLINGS = (
    HEAD.format(name="siblings")
    + """workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: own}, {step: calls}]}
  - step: own
    spec: {policy: {concurrency: {key: k, max: 1}}}
    tool: {name: work, kind: http, url: "http://x"}
  - step: calls
    tool: {name: below, kind: playbook, path: sim/below}
"""
)


def test_a_child_does_not_share_the_place_of_another_branch() -> None:
    world = World(concurrency=10)
    together: list[int] = []
    now: set[str] = set()

    def tool(call: Any) -> Outcome:
        now.add(call.execution_id)
        together.append(len(now))
        world.take(30)
        now.discard(call.execution_id)
        return Outcome.ok(1)

    world.tool = tool
    register(world.controls[0], NEEDS.format(name="below", own="k").replace("kind: noop", 'kind: http, url: "http://x"'))
    (state,) = at_rest(world, start(world, SIBLINGS, 1))
    assert state.status == "completed"
    assert max(together) == 1


def test_a_cycle_that_is_seen_only_once_is_no_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """An execution that waited when its log was read may have continued before the limit was read."""
    world = World(concurrency=10)
    ids = [x for source in crossed() for x in start(world, source, 1)]
    control = world.controls[0]
    looks: list[str] = []
    found = deadlocks_module.Deadlock(ids[0], "deadlock: it was so", {})

    def find(control: Control, places: LimitPlaces, key: str) -> deadlocks_module.Deadlock | None:
        looks.append(key)
        return found if len(looks) == 1 else None

    monkeypatch.setattr(deadlocks_module, "find_deadlock", find)
    deadlocks_module.end_deadlock(control, world.places, "a")
    assert looks == ["a", "a"]
    assert world.state(ids[0]).failure is None
