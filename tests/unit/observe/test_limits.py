"""Limits in `why` and in the timeline: the reason why a step has not started, and the time that it waited."""

from __future__ import annotations

from typing import Any

from noetl_cli.display.chart import draw
from noetl_core.control.lifecycle.operate import cancel
from noetl_core.observe.timeline import RUNS
from noetl_core.views.explain.timelines import timeline
from noetl_core.views.explain.why import why
from tests.sim.concurrency import SHARED, STEPS, Server, all_end, start
from tests.sim.world import World

ONE = SHARED.replace("max: 5", "max: 1")
CHARGE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: charge, path: sim/charge}
workload: {n: 0}
workflow:
  - step: start
    next: {arcs: [{step: charge}]}
  - step: charge
    spec: {policy: {concurrency: {key: account, max: 1}}}
    tool: {name: pay, kind: http, url: "http://x"}
    next: {arcs: [{step: done}]}
  - step: done
    tool: {kind: noop}
"""


def until_it_waits(world: World, execution_id: str) -> None:
    while not world.state(execution_id).awaits_limit:
        assert world.step()


def facts(world: World, execution_id: str, step: str | None = None) -> list[str]:
    return [fact["text"] for fact in why(world.controls[0], execution_id, step)["facts"] if fact["fact"] == "limit"]


def spans(world: World, execution_id: str, rows: int | None = None) -> list[dict[str, Any]]:
    control = world.controls[0]
    line: Any = timeline(control, execution_id, rows=rows)
    return list(line["spans"])


def test_why_names_the_limit_that_an_execution_waits_for() -> None:
    world = World(concurrency=5)
    Server(world, seconds=1_000)
    ids = start(world, ONE, 3)
    for step in (None, "start"):
        (fact,) = facts(world, ids[2], step)
        assert fact.startswith("the execution waits for limit orders-all 1/1 since 20"), fact
        assert fact.endswith(f", 2nd in line; held by {ids[0]}"), fact
    assert facts(world, ids[0]) == []


def test_why_names_the_limit_that_a_step_and_its_successors_wait_for() -> None:
    world = World(concurrency=5)
    Server(world, seconds=1_000)
    ids = start(world, CHARGE, 2)
    until_it_waits(world, ids[1])
    for step in (None, "charge", "done"):
        (fact,) = facts(world, ids[1], step)
        assert fact.startswith("charge waits for limit account 1/1 since 20"), fact
        assert fact.endswith(f", 1st in line; held by {ids[0]}"), fact
    assert facts(world, ids[0], "charge") == []


def test_why_says_how_long_a_step_waited_for_its_place() -> None:
    world = World(concurrency=5)
    Server(world, seconds=30)
    ids = start(world, CHARGE, 2)
    all_end(world, ids)
    (fact,) = facts(world, ids[1], "charge")
    assert fact.startswith("charge waited 30."), fact
    assert fact.endswith(" s for a place in limit account"), fact
    assert facts(world, ids[0], "charge") == [], "it has not waited"


def test_why_says_why_a_step_was_skipped() -> None:
    world = World(concurrency=5)
    Server(world, seconds=30)
    ids = start(world, CHARGE.replace("max: 1", "max: 1, on_limit: skip"), 2)
    all_end(world, ids)
    texts = [fact["text"] for fact in why(world.controls[0], ids[1], "charge")["facts"]]
    assert texts[0] == "charge was skipped: limit account is full: 1 of 1 are taken, and on_limit is skip"


def test_the_timeline_shows_time_waited_for_a_limit_apart() -> None:
    world = World(concurrency=5)
    Server(world, seconds=30)
    ids = start(world, CHARGE, 2)
    until_it_waits(world, ids[1])
    (open_one,) = [s for s in spans(world, ids[1]) if s["kind"] == "limit"]
    assert (open_one["step"], open_one["name"], open_one["duration_ms"], open_one["parent"]) == (
        "charge",
        "limit account",
        None,
        None,
    )
    assert any("╌" in line and line.startswith("charge") for line in draw(views_of(world, ids[1]), width=100))
    all_end(world, ids)
    for rows in (None, 10):
        found = spans(world, ids[1], rows)
        (waited,) = [s for s in found if s["kind"] == "limit"]
        run = found[waited["parent"]]
        assert (run["kind"], run["step"]) == ("run", "charge")
        assert 30_000 <= waited["duration_ms"] < 32_000
        assert abs(waited["offset_ms"] + waited["duration_ms"] - run["offset_ms"]) < 1_000, "the run begins with its place"
        assert run["lane"] == waited["lane"]
    lines = [line for line in draw(views_of(world, ids[1]), width=100) if line.startswith("charge")]
    assert len(lines) == 1
    assert lines[0].index("╌") < lines[0].index("█")


def test_an_execution_that_waited_and_was_cancelled_shows_that_alone() -> None:
    world = World(concurrency=5)
    Server(world, seconds=1_000)
    ids = start(world, ONE, 2)
    cancel(world.controls[0], ids[1], "no")
    for rows in (None, 10):
        found = spans(world, ids[1], rows)
        assert [(s["kind"], s["step"], s["status"], s["parent"]) for s in found] == [("limit", "", "cancelled", None)]
        assert found[0]["duration_ms"] is not None
    assert any(line.startswith("limit orders-all") for line in draw(views_of(world, ids[1]), width=100))


def test_branches_that_wait_have_lanes_of_their_own() -> None:
    world = World(concurrency=20)
    Server(world, seconds=30)
    ids = start(world, STEPS.replace("max: 2", "max: 1"), 3)
    all_end(world, ids)
    for execution_id in ids:
        runs = [s for s in spans(world, execution_id) if s["kind"] in RUNS]
        assert {s["step"] for s in runs if s["kind"] == "run"} == {"start", "a", "b", "end"}


def views_of(world: World, execution_id: str) -> Any:
    return timeline(world.controls[0], execution_id)
