"""Redrive: from the failure, a step, a task, an iteration; what is kept is never run again, whatever happens on the way."""

from __future__ import annotations

import pytest

from noetl_core.control.lifecycle import operate
from noetl_core.control.lifecycle.operate import NotNow
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.redrive.plan import BadRedrive
from noetl_core.tools.base import ToolCall
from tests.sim.ports import SECOND
from tests.sim.redrives import HEAD, again, asked, failing, result
from tests.sim.runs import ends
from tests.sim.world import World

PIPELINE = (
    HEAD
    + """
  - step: start
    tool: [{name: first, kind: noop, result: 1}]
    next: {arcs: [{step: work, args: {x: "{{ event.result }}"}}]}
  - step: work
    tool:
      - name: a
        kind: noop
        result: 10
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: "{{ (ctx.n | default(0)) + outcome.result }}"}}}}]}}
      - {name: b, kind: noop, result: "{{ a + args.x }}"}
      - {name: c, kind: noop, result: "{{ b + (ctx.bonus | default(0)) }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: [{name: last, kind: noop, result: {c: "{{ steps.work.result }}", n: "{{ ctx.n }}"}}]
"""
)


def test_from_the_failure_committed_tasks_are_kept_and_their_ctx_counts_once() -> None:
    world = World()
    failing(world, lambda call: call.task == "c")
    execution_id = world.start(PIPELINE).execution_id
    assert ends(world, execution_id, "failed").ctx == {"n": 10}
    failing(world, lambda call: False)
    shown = again(world, execution_id, preview=True).description
    assert shown["again"] == [{"step": "work", "run": shown["again"][0]["run"], "tasks": ["c"], "kept_tasks": ["a", "b"]}]
    assert shown["kept"] == ["start"]
    assert world.state(execution_id).status == "failed", "a preview writes nothing"
    before = len(world.calls)
    assert again(world, execution_id).state.status == "running"
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["c", "last"]
    assert result(world, state) == {"c": 11, "n": 10}
    assert state.epoch == 1
    keys = [c.task_run_id for c in world.calls if c.task == "c"]
    assert len(set(keys)) == 2, "a redriven task is another task run"


def test_from_a_task_or_a_step_of_a_completed_execution_with_edits() -> None:
    world = World()
    execution_id = world.start(PIPELINE).execution_id
    ends(world, execution_id, "completed")
    with pytest.raises(BadRedrive, match="say where to begin"):
        redrive(world.controls[0], execution_id, asked())
    before = len(world.calls)
    again(world, execution_id, "work/b", ctx={"bonus": 5}, args={"x": 100})
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["b", "c", "last"]
    assert result(world, state) == {"c": 115, "n": 10}
    again(world, execution_id, "start")
    state = ends(world, execution_id, "completed")
    assert result(world, state) == {"c": 16, "n": 10}, "what ran again had its writes taken back; edits stay"
    assert state.epoch == 2


def test_ctx_set_by_a_redrive_overrides_writes_of_kept_tasks() -> None:
    world = World()
    failing(world, lambda call: call.task == "c")
    execution_id = world.start(PIPELINE).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    again(world, execution_id, ctx={"n": 77})
    assert result(world, ends(world, execution_id, "completed")) == {"c": 11, "n": 77}


def test_redriving_a_running_execution_or_wrong_names_is_refused_with_a_remedy() -> None:
    world = World()
    execution_id = world.start(PIPELINE).execution_id
    with pytest.raises(NotNow, match="is running; only ended executions can be redriven"):
        redrive(world.controls[0], execution_id, asked())
    ends(world, execution_id, "completed")
    for begin, says in (
        ("wrok", "did you mean 'work'"),
        ("work/d", "its tasks: a, b, c"),
        ("work@3", "has no loop"),
        ("a b@x", "does not say where"),
    ):
        with pytest.raises(BadRedrive, match=says):
            redrive(world.controls[0], execution_id, asked(begin))


def test_another_version_of_the_playbook_continues_from_the_failure() -> None:
    world = World()
    failing(world, lambda call: call.task == "c")
    execution_id = world.start(PIPELINE).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    fixed = PIPELINE.replace('"{{ b + (ctx.bonus | default(0)) }}"', '"{{ b * 2 }}"')
    before = len(world.calls)
    again(world, execution_id, source=fixed)
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["c", "last"]
    assert (result(world, state)["c"], state.version) == (22, 2)


def test_a_version_in_which_finished_tasks_have_moved_is_refused() -> None:
    world = World()
    failing(world, lambda call: call.task == "c")
    execution_id = world.start(PIPELINE).execution_id
    ends(world, execution_id, "failed")
    moved = PIPELINE.replace("    tool:\n      - name: a", "    tool:\n      - {name: new, kind: noop}\n      - name: a")
    with pytest.raises(BadRedrive, match="task 'a' of step 'work' ran and has another place in this version"):
        redrive(world.controls[0], execution_id, asked(), source=moved)
    failing(world, lambda call: False)
    again(world, execution_id, "work", source=moved)
    before = len(world.calls)
    ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["new", "a", "b", "c", "last"]


DIAMOND = (
    HEAD
    + """
  - step: start
    tool: [{name: a, kind: noop, result: 1}]
    next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
  - step: left
    tool: [{name: l, kind: noop, result: 2}]
    next: {arcs: [{step: join, args: {l: "{{ event.result }}"}}]}
  - step: right
    tool: [{name: r, kind: noop, result: 3}]
    next: {arcs: [{step: join, args: {r: "{{ event.result }}"}}]}
  - step: join
    spec: {join: all}
    tool: [{name: j, kind: noop, result: "{{ [args.l, args.r] }}"}]
"""
)


def test_a_join_gets_the_tokens_of_the_branches_that_are_kept() -> None:
    world = World()
    failing(world, lambda call: call.task == "r")
    execution_id = world.start(DIAMOND).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    before = len(world.calls)
    again(world, execution_id)
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["r", "j"]
    assert result(world, state) == [2, 3]
    before = len(world.calls)
    again(world, execution_id, "left")
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["l", "j"]
    assert result(world, state) == [2, 3]
    before = len(world.calls)
    again(world, execution_id, "join", args={"l": 9})
    assert result(world, ends(world, execution_id, "completed")) == [9, 3]
    assert [c.task for c in world.calls[before:]] == ["j"]


def test_a_cancelled_execution_continues_where_it_was_stopped() -> None:
    world = World()
    execution_id = world.start(PIPELINE).execution_id

    def cancel_inside(call: ToolCall) -> Outcome:
        if call.task == "b" and not world.state(execution_id).epoch:
            operate.cancel(world.controls[0], execution_id)
        return Outcome.ok(call.inputs["result"])

    world.tool = cancel_inside
    ends(world, execution_id, "cancelled")
    again(world, execution_id)
    before = len(world.calls)
    state = ends(world, execution_id, "completed")
    # `a` had ended and was not committed when the run was stopped: at least once
    assert [c.task for c in world.calls[before:]][-3:] == ["b", "c", "last"]
    assert result(world, state)["c"] == 11


ARCS = PIPELINE.replace("next: {arcs: [{step: end}]}", 'next: {arcs: [{step: end, when: "{{ event.result + ctx.gone.x > 0 }}"}]}')


def test_arcs_that_could_not_be_evaluated_are_evaluated_again() -> None:
    world = World()
    execution_id = world.start(ARCS).execution_id
    state = ends(world, execution_id, "failed")
    assert state.failure is not None
    assert state.failure["kind"] == "template"
    before = len(world.calls)
    again(world, execution_id, ctx={"gone": {"x": 1}})
    ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["last"]


CHILD = (
    HEAD.replace("sim/redrive", "sim/child")
    + """
  - step: start
    tool: [{name: inside, kind: noop, result: 5}]
"""
)


PARENT = (
    HEAD
    + """
  - step: start
    tool:
      - {name: before, kind: noop, result: 1}
      - {name: call, kind: playbook, path: sim/child}
"""
)


def test_a_failed_child_is_started_anew_under_another_id() -> None:
    from noetl_core.dsl.parse import digest_of

    world = World()
    failing(world, lambda call: call.task == "inside")
    world.catalog.register("sim/child", digest_of(CHILD), CHILD, 1)
    execution_id = world.start(PARENT).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    before = len(world.calls)
    again(world, execution_id)
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["inside"]
    assert len({c.execution_id for c in world.calls if c.task == "inside"}) == 2
    assert result(world, state) == 5


def test_a_redrive_that_comes_again_is_refused() -> None:
    world = World()
    failing(world, lambda call: call.task == "c")
    execution_id = world.start(PIPELINE).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    again(world, execution_id)
    with pytest.raises(NotNow):
        redrive(world.controls[0], execution_id, asked())
    ends(world, execution_id, "completed")


LATE = """
executor: {spec: {policy: {lifecycle: {timeout_s: 600}}}}
workflow:
  - step: start
    tool: [{name: a, kind: noop, result: 1}]
    next: {arcs: [{step: ask}]}
  - step: ask
    tool: [{name: before, kind: noop}, {name: question, kind: callback, signal: answer}, {name: after, kind: noop, result: "{{ question }}"}]
"""


def test_a_redriven_execution_gets_a_new_timeout() -> None:
    world = World()
    execution_id = world.start(HEAD.replace("workflow:\n", "") + LATE).execution_id
    state = ends(world, execution_id, "failed")
    assert state.failure is not None
    assert state.failure["kind"] == "timeout"
    before = len(world.calls)
    again(world, execution_id)
    world.clock.time += 300 * SECOND
    operate.signal(world.controls[0], execution_id, "answer", 42)
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["after"]
    assert result(world, state) == 42


CYCLE = (
    HEAD
    + """
  - step: start
    tool: [{name: page, kind: noop, result: "{{ (args.n | default(0)) + 1 }}"}]
    next: {arcs: [{step: start, when: "{{ event.result < 4 }}", args: {n: "{{ event.result }}"}}, {step: end}]}
  - step: end
    tool: [{name: last, kind: noop, result: "{{ steps.start.result }}"}]
"""
)


def test_a_redrive_refers_to_the_last_round_of_a_cycle() -> None:
    world = World()
    failing(world, lambda call: False)
    execution_id = world.start(CYCLE).execution_id
    ends(world, execution_id, "completed")
    before = len(world.calls)
    again(world, execution_id, "start")
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["page", "last"]
    assert (result(world, state), state.steps["start"].visits) == (4, 5)
