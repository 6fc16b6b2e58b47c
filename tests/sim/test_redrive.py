"""Redrive: from the failure, a step, a task, an iteration; what is kept is never run again, whatever happens on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from noetl_core.control import operate
from noetl_core.control.operate import NotNow
from noetl_core.control.redrive import redrive
from noetl_core.control.replay import replay
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.redrive import BadRedrive, From, Redrive
from noetl_core.engine.state import State
from noetl_core.ports import PortError
from noetl_core.tools.base import ToolCall
from noetl_core.values import Values
from tests.sim import invariants
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/redrive}\nworkflow:\n"


def asked(begin: str | None = None, **edits: Any) -> Redrive:
    return Redrive(None if begin is None else From.parse(begin), **edits)


def again(world: World, execution_id: str, begin: str | None = None, **more: Any) -> Any:
    """An operator who asks until there is an answer."""
    edits = {k: more.pop(k) for k in ("ctx", "args") if k in more}
    while True:
        try:
            return redrive(world.controls[0], execution_id, asked(begin, **edits), **more)
        except (Crash, PortError):
            world.controls[0] = world.new_control()
        except NotNow:
            return None  # the crash came after the commit


def ends(world: World, execution_id: str, status: str) -> State:
    state = world.run(execution_id)
    assert state.status == status, (state.status, state.failure, state.stuck)
    world.faults.quiet = True
    world.drain()
    invariants.check(world, execution_id)
    assert replay(world.controls[0], execution_id).differences == ()
    return world.state(execution_id)


def result(world: World, state: State) -> Any:
    return Values(world.store, world.results, state.execution_id).at(state.result)


def failing(world: World, fails: Callable[[ToolCall], bool]) -> None:
    def tool(call: ToolCall) -> Outcome:
        if fails(call):
            return Outcome.failed("client_error", f"{call.task} does not work")
        return Outcome.ok(call.inputs.get("result", call.inputs.get("args", call.inputs.get("url"))))

    world.tool = tool


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
    shown = again(world, execution_id, preview=True).shown
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


def test_what_an_operator_sets_wins_over_what_kept_tasks_wrote() -> None:
    world = World()
    failing(world, lambda call: call.task == "c")
    execution_id = world.start(PIPELINE).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    again(world, execution_id, ctx={"n": 77})
    assert result(world, ends(world, execution_id, "completed")) == {"c": 11, "n": 77}


def test_a_running_execution_and_wrong_names_are_refused_with_what_to_do() -> None:
    world = World()
    execution_id = world.start(PIPELINE).execution_id
    with pytest.raises(NotNow, match="is running; only what has ended"):
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


def test_another_version_of_the_playbook_goes_on_from_the_failure() -> None:
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


def test_a_version_in_which_what_ran_stands_elsewhere_is_refused() -> None:
    world = World()
    failing(world, lambda call: call.task == "c")
    execution_id = world.start(PIPELINE).execution_id
    ends(world, execution_id, "failed")
    moved = PIPELINE.replace("    tool:\n      - name: a", "    tool:\n      - {name: new, kind: noop}\n      - name: a")
    with pytest.raises(BadRedrive, match="task 'a' of step 'work' ran and does not stand in its place"):
        redrive(world.controls[0], execution_id, asked(), source=moved)
    failing(world, lambda call: False)
    again(world, execution_id, "work", source=moved)
    before = len(world.calls)
    ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["new", "a", "b", "c", "last"]


LOOP = (
    HEAD
    + """
  - step: start
    loop:
      in: "{{ range(1000) | list }}"
      iterator: i
      spec: {mode: parallel, max_in_flight: 8, policy: {exec: EXEC, failure: {mode: MODE}, reducers: {sum: sum}}}
    tool:
      - {name: get, kind: http, url: "{{ iter.i }}"}
      - name: put
        kind: noop
        result: "{{ get }}"
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: "{{ iter.i }}"}}}}]}}
    next: {arcs: [{step: check}]}
  - step: check
    tool:
      - name: count
        kind: noop
        result: {sum: "{{ ctx.sum }}", n: "{{ steps.start.result | select | list | length }}"}
        spec:
          policy:
            rules: [{when: "{{ steps.start.loop.failed > 0 }}", then: {do: fail}}]
"""
)


@pytest.mark.parametrize("exec_", ["local", "distributed"])
def test_one_failed_iteration_of_a_thousand_and_only_that_one_and_its_successors_run_again(exec_: str) -> None:
    world = World()
    failing(world, lambda call: call.task == "get" and int(call.inputs["url"]) == 617)
    execution_id = world.start(LOOP.replace("EXEC", exec_).replace("MODE", "best_effort")).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    shown = again(world, execution_id, "start@617", preview=True).shown
    assert shown["again"][0]["iterations"] == ["617"]
    assert (shown["again"][0]["kept_iterations"], shown["then"]) == (999, ["check"])
    before = len(world.calls)
    again(world, execution_id, "start@617")
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["get", "put", "count"]
    assert result(world, state) == {"sum": sum(range(1000)), "n": 999}  # 0 is not selected
    assert state.steps["start"].loop == {"total": 1000, "succeeded": 1000, "failed": 0}


@pytest.mark.parametrize("exec_", ["local", "distributed"])
def test_a_loop_that_failed_goes_on_with_what_failed_and_what_never_ran(exec_: str) -> None:
    world = World()
    failing(world, lambda call: call.task == "get" and int(call.inputs["url"]) == 617)
    execution_id = world.start(LOOP.replace("EXEC", exec_).replace("MODE", "fail_fast")).execution_id
    ends(world, execution_id, "failed")
    kept = {c.inputs["url"] for c in world.calls if c.task == "get"} - {617, "617"}
    assert 500 < len(kept) < 1000
    failing(world, lambda call: False)
    before = len(world.calls)
    again(world, execution_id)
    state = ends(world, execution_id, "completed")
    ran = Counter(str(c.inputs["url"]) for c in world.calls[before:] if c.task == "get")
    assert set(ran).isdisjoint({str(k) for k in kept})
    assert set(ran.values()) == {1}
    assert len(ran) + len(kept) == 1000
    assert result(world, state) == {"sum": sum(range(1000)), "n": 999}


def test_from_a_task_in_every_iteration_and_twice_over() -> None:
    world = World()
    failing(world, lambda call: False)
    source = LOOP.replace("EXEC", "local").replace("MODE", "best_effort").replace("range(1000)", "range(5)")
    execution_id = world.start(source).execution_id
    ends(world, execution_id, "completed")
    for epoch in (1, 2):
        before = len(world.calls)
        again(world, execution_id, "start/put")
        state = ends(world, execution_id, "completed")
        assert Counter(c.task for c in world.calls[before:]) == {"put": 5, "count": 1}
        assert (result(world, state), state.epoch) == ({"sum": 10, "n": 4}, epoch)
    before = len(world.calls)
    again(world, execution_id, "start/put@3")
    state = ends(world, execution_id, "completed")
    assert Counter(c.task for c in world.calls[before:]) == {"put": 1, "count": 1}
    assert result(world, state) == {"sum": 10, "n": 4}


NESTED = (
    HEAD
    + """
  - step: start
    loop:
      in: [0, 1, 2]
      iterator: x
      spec: {mode: parallel, policy: {failure: {mode: best_effort}}}
      loop: {in: [0, 1, 2, 3], iterator: y, spec: {mode: sequential}}
    tool: [{name: body, kind: http, url: "{{ iter.parent.x * 10 + iter.y }}"}]
"""
)


def test_one_inner_iteration_of_a_nested_loop() -> None:
    world = World()
    failing(world, lambda call: False)
    execution_id = world.start(NESTED).execution_id
    ends(world, execution_id, "completed")
    before = len(world.calls)
    again(world, execution_id, "start@1.2")
    state = ends(world, execution_id, "completed")
    assert [c.inputs["url"] for c in world.calls[before:]] == [12]
    assert result(world, state) == [[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]]
    before = len(world.calls)
    again(world, execution_id, "start@2")
    ends(world, execution_id, "completed")
    assert [c.inputs["url"] for c in world.calls[before:]] == [20, 21, 22, 23]


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


def test_a_cancelled_execution_goes_on_where_it_was_stopped() -> None:
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


def test_two_operators_at_once_redrive_once() -> None:
    world = World()
    failing(world, lambda call: call.task == "c")
    execution_id = world.start(PIPELINE).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    again(world, execution_id)
    with pytest.raises(NotNow):
        redrive(world.controls[0], execution_id, asked())
    ends(world, execution_id, "completed")


@pytest.mark.parametrize("exec_", ["local", "distributed"])
def test_a_loop_cancelled_half_way_goes_on_and_keeps_what_was_recorded(exec_: str) -> None:
    world = World()
    source = LOOP.replace("EXEC", exec_).replace("MODE", "fail_fast").replace("range(1000)", "range(60)")
    execution_id = world.start(source).execution_id

    def tool(call: ToolCall) -> Outcome:
        world.clock.time += SECOND // 2
        if call.task == "get" and str(call.inputs["url"]) == "30" and not world.state(execution_id).epoch:
            operate.cancel(world.controls[0], execution_id)
        return Outcome.ok(call.inputs.get("result", call.inputs.get("url")))

    world.tool = tool
    ends(world, execution_id, "cancelled")
    recorded = {
        e.data["path"][0]
        for stream, commits in world.store.streams.items()
        if stream.run_id is not None
        for c in commits
        for e in c.events
        if e.name == "LoopIterationCompleted"
    }
    assert len(recorded) > 10
    before = len(world.calls)
    shown = again(world, execution_id, preview=True).shown
    assert shown["again"][0]["kept_iterations"] == len(recorded)
    again(world, execution_id)
    state = ends(world, execution_id, "completed")
    assert result(world, state) == {"sum": sum(range(60)), "n": 59}
    ran = Counter(int(c.inputs["url"]) for c in world.calls[before:] if c.task == "get")
    assert set(ran).isdisjoint(recorded)
    assert len(ran) <= 60 - len(recorded)


LATE = """
executor: {spec: {policy: {lifecycle: {timeout_s: 600}}}}
workflow:
  - step: start
    tool: [{name: a, kind: noop, result: 1}]
    next: {arcs: [{step: ask}]}
  - step: ask
    tool: [{name: before, kind: noop}, {name: question, kind: callback, signal: answer}, {name: after, kind: noop, result: "{{ question }}"}]
"""


def test_an_execution_that_took_too_long_has_its_time_anew() -> None:
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


def test_the_last_time_round_of_a_cycle_is_meant() -> None:
    world = World()
    failing(world, lambda call: False)
    execution_id = world.start(CYCLE).execution_id
    ends(world, execution_id, "completed")
    before = len(world.calls)
    again(world, execution_id, "start")
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls[before:]] == ["page", "last"]
    assert (result(world, state), state.steps["start"].visits) == (4, 5)


SMALL = LOOP.replace("EXEC", "distributed").replace("MODE", "best_effort").replace("range(1000)", "range(6)")


def _redriven_under(faults: Faults, stream_on: bool = True) -> World:
    """A loop with a failed iteration, redriven; faults begin with the redrive."""
    world = World(stream_on=stream_on, routers=2)
    failing(world, lambda call: call.task == "get" and int(call.inputs["url"]) == 4)
    execution_id = world.start(SMALL).execution_id
    ends(world, execution_id, "failed")
    failing(world, lambda call: False)
    for part in (world, world.store, world.queue, world.results, world.index, world.gates):
        part.faults = faults
    before = len(world.calls)
    again(world, execution_id, "start@4")
    state = ends(world, execution_id, "completed")
    assert result(world, state) == {"sum": 15, "n": 5}
    assert {str(c.inputs.get("url")) for c in world.calls[before:] if c.task == "get"} == {"4"}, "the kept ones never run again"
    invariants.faults_happened(world)
    return world


def test_a_crash_before_or_after_any_port_call_of_a_redrive_is_survived() -> None:
    calm = Faults()
    _redriven_under(calm)
    assert calm.calls > 20
    for after in (False, True):
        for point in range(1, calm.calls + 1):
            _redriven_under(Faults(crash_at=point, crash_after=after))


@pytest.mark.parametrize("seed", range(12))
def test_any_mix_of_faults_after_a_redrive_changes_nothing_but_time(seed: int) -> None:
    _redriven_under(Faults(seed, crash=0.04, throttle=0.03, lost_answer=0.1, duplicate=0.3, lose_record=0.2, delay=0.3))


def test_with_the_stream_off_a_redrive_completes_by_the_sweeper_alone() -> None:
    _redriven_under(Faults(), stream_on=False)
