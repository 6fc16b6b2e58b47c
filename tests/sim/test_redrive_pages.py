"""Redrive of a step that reads page after page by jumps: a page runs again with `iter` and results as they were just before it."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.redrive.plan import BadRedrive
from noetl_core.engine.state import State
from noetl_core.tools.base import ToolCall
from tests.sim import invariants
from tests.sim.ports import Faults
from tests.sim.redrives import HEAD, again, asked, result
from tests.sim.runs import ends
from tests.sim.world import World

LOAD = """
  - step: load
    tool:
      - {name: init, kind: noop, set_iter: {page: 1, items: []}}
      - {name: fetch, kind: http, url: "{{ iter.page }}", set_iter: {items: "{{ iter.items + [outcome.result] }}"}}
      - {name: check, kind: noop, result: "{{ fetch }}", set_ctx: {sum: "{{ (ctx.sum | default(0)) + outcome.result }}"}}
      - name: next_page
        kind: noop
        result: "{{ iter.items }}"
        spec: {policy: {rules: [{when: "{{ iter.page < 9 }}", then: {do: jump, to: fetch, set_iter: {page: "{{ iter.page + 1 }}"}}}]}}
    next: {arcs: [{step: end}]}
  - step: end
    tool: [{name: last, kind: noop, result: {items: "{{ steps.load.result }}", sum: "{{ ctx.sum }}"}}]
"""
PAGES = HEAD + "  - step: start\n    tool: [{name: first, kind: noop}]\n    next: {arcs: [{step: load}]}\n" + LOAD
WHOLE = {"items": list(range(1, 10)), "sum": 45}


def _reads(world: World, bad: int | None = None) -> None:
    """`fetch` answers with the number of its page, 0 for the bad one, which `check` refuses."""

    def tool(call: ToolCall) -> Outcome:
        if call.task == "fetch":
            page = int(call.inputs["url"])
            return Outcome.ok(0 if page == bad else page)
        if call.task == "check" and not call.inputs["result"]:
            return Outcome.failed("client_error", "a bad page")
        return Outcome.ok(call.inputs.get("result"))

    world.tool = tool


def _ran(world: World, bad: int | None = None) -> tuple[World, str]:
    _reads(world, bad)
    execution_id = world.start(PAGES).execution_id
    ends(world, execution_id, "completed" if bad is None else "failed")
    _reads(world)
    return world, execution_id


def _fetched(world: World, before: int) -> list[int]:
    return [int(c.inputs["url"]) for c in world.calls[before:] if c.task == "fetch"]


def _ends_whole(world: World, execution_id: str) -> State:
    state = ends(world, execution_id, "completed")
    assert result(world, state) == WHOLE
    invariants.check(world, execution_id)
    return state


@pytest.mark.parametrize("bad", [1, 2, 7, 9])
def test_without_a_place_the_page_that_failed_is_read_again(bad: int) -> None:
    world, execution_id = _ran(World(), bad)
    before = len(world.calls)
    shown = again(world, execution_id, preview=True).description["again"][0]
    assert shown["tasks"] == ["fetch", "check", "next_page"]
    assert shown.get("kept_visits", {}).get("fetch", 0) == (bad - 1 if bad > 2 else 0)
    again(world, execution_id)
    _ends_whole(world, execution_id)
    assert _fetched(world, before) == list(range(bad, 10)), "earlier pages are kept"


@pytest.mark.parametrize(("bad", "visit"), [(None, 1), (None, 7), (None, 9), (7, 3), (7, 7)])
def test_a_page_is_redriven_by_its_number(bad: int | None, visit: int) -> None:
    world, execution_id = _ran(World(), bad)
    before = len(world.calls)
    again(world, execution_id, f"load/fetch@{visit}")
    _ends_whole(world, execution_id)
    assert _fetched(world, before) == list(range(visit, 10))


def test_only_the_task_that_failed_runs_again_where_its_visit_is_named() -> None:
    world, execution_id = _ran(World(), 7)
    before = len(world.calls)
    world.tool = lambda call: Outcome.ok(
        7 if call.task == "check" and not call.inputs["result"] else call.inputs.get("result", 8)
    )
    again(world, execution_id, "load/check@7")
    ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]][:3] == ["check", "next_page", "fetch"]
    assert _fetched(world, before) == [8, 9]


def test_pages_count_on_through_several_redrives() -> None:
    world, execution_id = _ran(World(), 7)
    _reads(world, 8)
    again(world, execution_id, "load/fetch@4")
    ends(world, execution_id, "failed")
    _reads(world)
    before = len(world.calls)
    again(world, execution_id)
    _ends_whole(world, execution_id)
    assert _fetched(world, before) == [8, 9]
    again(world, execution_id, "load/fetch@2")
    assert _ends_whole(world, execution_id).epoch == 3


def test_a_visit_that_was_not_is_refused_with_the_number_of_visits() -> None:
    world, execution_id = _ran(World(), 7)
    for begin, says in (
        ("load/fetch@8", "task 'fetch' of step 'load' has 7 visits, 1 to 7; there is no load/fetch@8"),
        ("load/fetch@0", "has 7 visits, 1 to 7"),
        ("load/next_page@7", "has 6 visits, 1 to 6"),
        ("load/init@2", "has one visit, 1; there is no load/init@2"),
        ("load/fetch@2.1", "has no loop, so no iteration 2.1"),
        ("load@7", "has no loop, so no iteration 7; load/next_page@1 is the first visit"),
    ):
        with pytest.raises(BadRedrive, match=says):
            redrive(world.controls[0], execution_id, asked(begin))
    with pytest.raises(BadRedrive, match="task 'next_page' of step 'load' has not run in this execution"):
        world, execution_id = _ran(World(), 1)
        redrive(world.controls[0], execution_id, asked("load/next_page@1"))


LOOPED = HEAD + LOAD.replace("  - step: load\n", "  - step: start\n    loop: {in: [0, 10], iterator: base}\n").replace(
    'url: "{{ iter.page }}"', 'url: "{{ iter.page + iter.base }}"'
).replace("steps.load", "steps.start")


def test_an_iteration_that_failed_reads_its_page_again() -> None:
    world = World()
    _reads(world, 13)
    execution_id = world.start(LOOPED).execution_id
    ends(world, execution_id, "failed")
    _reads(world)
    before = len(world.calls)
    again(world, execution_id)
    found: Any = result(world, ends(world, execution_id, "completed"))
    assert found["items"] == [list(range(1, 10)), list(range(11, 20))]
    assert _fetched(world, before) == list(range(13, 20))


@pytest.mark.parametrize("seed", range(4))
def test_a_page_is_read_again_whatever_happens_on_the_way(seed: int) -> None:
    world, execution_id = _ran(World(routers=2), 7)
    faults = Faults(seed, crash=0.04, throttle=0.03, lost_answer=0.1, duplicate=0.3, lose_record=0.2, delay=0.3)
    for part in (world, world.store, world.queue, world.results, world.index, world.gates):
        part.faults = faults
    before = len(world.calls)
    again(world, execution_id)
    _ends_whole(world, execution_id)
    assert min(_fetched(world, before)) == 7
    invariants.faults_happened(world)
