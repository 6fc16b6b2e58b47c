"""Operating a run: cancel, pause and resume wherever it stands, and limits that say which they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl_core.control.lifecycle import operate
from noetl_core.control.lifecycle.operate import NotNow
from noetl_core.dsl.parse import digest_of
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.ports import Gate, PortError
from noetl_core.tools.base import ToolCall
from tests.properties import crash_points
from tests.sim import invariants
from tests.sim.operating import HEAD
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.runs import ends
from tests.sim.world import World

NEXT = """
    next: {arcs: [{step: after}]}
  - step: after
    tool: [{name: after, kind: noop}]
"""


def waits(world: World, execution_id: str, kind: str) -> bool:
    return any(w["kind"] == kind for r in world.state(execution_id).runs.values() for w in r.waits)


def started(world: World, body: str, until: Callable[[str], bool]) -> str:
    execution_id = world.start(HEAD + body + NEXT).execution_id
    world.run(execution_id, until=lambda: until(execution_id))
    assert world.state(execution_id).status == "running"
    return execution_id


# --- cancel ---------------------------------------------------------------------------------------------------------------

WAIT = "  - step: start\n    tool: [{name: nap, kind: wait, duration: 86400}]"
RETRY = """
  - step: start
    tool:
      - name: call
        kind: http
        url: x
        spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 9, delay: 600}}]}}"""


def test_a_cancel_during_a_wait_is_prompt() -> None:
    world = World()
    execution_id = started(world, WAIT, lambda x: waits(world, x, "timer"))
    before = world.clock.time
    assert operate.cancel(world.controls[0], execution_id).status == "cancelled"
    assert world.clock.time - before < SECOND
    assert operate.cancel(world.controls[0], execution_id).status == "cancelled", "asked twice"
    ends(world, execution_id, "cancelled")
    with pytest.raises(NotNow, match="already ended"):
        operate.pause(world.controls[0], execution_id)


def test_a_cancel_between_two_attempts_stops_the_retries() -> None:
    world = World()
    world.tool = lambda call: Outcome.failed("server_error", "busy")
    execution_id = started(world, RETRY, lambda x: waits(world, x, "timer"))
    assert operate.cancel(world.controls[0], execution_id).status == "cancelled"
    ends(world, execution_id, "cancelled")
    assert len(world.calls) == 1


@pytest.mark.parametrize("exec_", ["local", "distributed"])
def test_a_cancel_during_a_loop_stops_it_within_seconds(exec_: str) -> None:
    world = World()
    body = f"""
  - step: start
    loop: {{in: "{{{{ range(200) | list }}}}", iterator: i, spec: {{mode: parallel, max_in_flight: 2, policy: {{exec: {exec_}}}}}}}
    tool: [{{name: body, kind: noop}}]"""
    execution_id = world.start(HEAD + body + NEXT).execution_id

    def tool(call: ToolCall) -> Outcome:
        world.clock.time += SECOND // 2
        if len(world.calls) == 20:
            operate.cancel(world.controls[0], execution_id)
        return Outcome.ok(1)

    world.tool = tool
    ends(world, execution_id, "cancelled")
    assert 20 <= len(world.calls) <= 24


CHILD = HEAD.replace("sim/operate", "sim/child") + "  - step: start\n    tool: [{name: ask, kind: callback, signal: go}]\n"
PARENT = "  - step: start\n    tool: [{name: call, kind: playbook, path: sim/child}]"


def parent_of(world: World) -> tuple[str, str]:
    world.catalog.register("sim/child", digest_of(CHILD), CHILD, 1)
    execution_id = started(world, PARENT, lambda x: bool(world.state(x).children))
    child = next(iter(world.state(execution_id).children))
    world.run(child, until=lambda: waits(world, child, "signal"))
    return execution_id, child


def test_a_cancel_reaches_the_children() -> None:
    world = World()
    execution_id, child = parent_of(world)
    assert operate.cancel(world.controls[0], execution_id).status == "cancelled"
    assert world.state(child).status == "cancelled"
    ends(world, execution_id, "cancelled")
    invariants.check(world, child)


def _operated(world: World, execution_id: str, what: Callable[[], Any], done: Callable[[State], bool]) -> None:
    """An operator who repeats the request until it is answered."""
    while True:
        try:
            what()
        except (Crash, PortError):
            world.controls[0] = world.new_control()
        else:
            assert done(world.state(execution_id))
            return


def with_faults(world: World, faults: Faults) -> None:
    for part in (world, world.store, world.queue, world.results, world.index, world.gates):
        part.faults = faults


@pytest.mark.sized
def test_a_cancel_that_is_interrupted_anywhere_is_finished_by_the_sweeper() -> None:
    """Nobody asks again: once the cancel is recorded, it is carried through."""

    def run(faults: Faults) -> None:
        world = World()
        execution_id, child = parent_of(world)
        with_faults(world, faults)
        try:
            operate.cancel(world.controls[0], execution_id)
        except Crash:
            world.controls[0] = world.new_control()
        if world.state(execution_id).status == "running":
            invariants.faults_happened(world)
            return  # the crash came before it was recorded, so the caller has no answer
        ends(world, execution_id, "cancelled")
        assert world.state(child).status == "cancelled"
        invariants.faults_happened(world)

    calm = Faults()
    run(calm)
    for after in (False, True):
        for point in crash_points(calm.calls, after):
            run(Faults(crash_at=point, crash_after=after))


# --- pause and resume -----------------------------------------------------------------------------------------------------

TIMERS = """
  - step: start
    tool: [{name: begin, kind: noop}]
    next: {spec: {mode: inclusive}, arcs: [{step: nap}, {step: ask}, {step: again}, {step: late}, {step: answered}]}
  - step: nap
    tool: [{name: sleep, kind: wait, duration: 600}, {name: slept, kind: noop}]
  - step: ask
    tool: [{name: nobody, kind: callback, signal: never, timeout: 1200}]
    next: {arcs: [{step: expired, when: "{{ event.error.kind == 'timeout' }}"}]}
  - step: expired
    tool: [{name: gave_up, kind: noop}]
  - step: again
    tool:
      - name: flaky
        kind: http
        url: x
        spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2, delay: 900}}]}}
  - step: late
    spec: {policy: {lifecycle: {timeout_s: 1800}}}
    tool: [{name: forever, kind: callback, signal: never}]
    next: {arcs: [{step: took_long, when: "{{ event.error.kind == 'timeout' }}"}]}
  - step: took_long
    tool: [{name: timed_out, kind: noop}]
  - step: answered
    tool: [{name: question, kind: callback, signal: hello, timeout: 1200}, {name: thanks, kind: noop}]
"""


def timers(world: World) -> str:
    world.tool = lambda call: (
        Outcome.failed("server_error", "busy") if call.task == "flaky" and call.attempt == 1 else Outcome.ok(call.task)
    )
    execution_id = world.start(HEAD + TIMERS).execution_id
    world.run(execution_id, until=lambda: sum(bool(r.waits) for r in world.state(execution_id).runs.values()) == 5)
    return execution_id


def an_hour(world: World) -> None:
    until = world.clock.time + 3600 * SECOND
    while world.clock.time < until:
        world.step()


def test_nothing_fires_during_a_pause_and_due_timers_fire_after_it() -> None:
    world = World()
    execution_id = timers(world)
    assert operate.pause(world.controls[0], execution_id).status == "paused"
    assert operate.pause(world.controls[0], execution_id).status == "paused", "asked twice"
    commits, calls = len(world.store.streams[StreamId(execution_id)]), len(world.calls)
    an_hour(world)
    assert len(world.store.streams[StreamId(execution_id)]) == commits
    operate.signal(world.controls[0], execution_id, "hello", {"who": "ada"}, "s1")
    an_hour(world)
    assert len(world.calls) == calls, "no task runs during a pause"
    resumed = world.clock.time
    assert operate.resume(world.controls[0], execution_id).status == "running"
    assert operate.resume(world.controls[0], execution_id).status == "running", "asked twice"
    state = ends(world, execution_id, "completed")
    assert {c.task for c in world.calls[calls:]} == {"slept", "gave_up", "flaky", "timed_out", "thanks"}
    assert state.finished_at is not None
    assert state.finished_at - resumed < 5 * SECOND


def test_timers_that_end_after_the_pause_keep_their_time() -> None:
    world = World()
    execution_id = started(
        world, "  - step: start\n    tool: [{name: nap, kind: wait, duration: 3900}]", lambda x: waits(world, x, "timer")
    )
    at = world.state(execution_id).runs.copy().popitem()[1].waits[0]["at"]
    operate.pause(world.controls[0], execution_id)
    an_hour(world)
    operate.resume(world.controls[0], execution_id)
    state = ends(world, execution_id, "completed")
    assert state.finished_at is not None
    assert 0 <= state.finished_at - at < 5 * SECOND, "woken by the queue, not only by the sweeper"


def test_a_pause_reaches_the_children_and_so_does_the_resume() -> None:
    world = World()
    execution_id, child = parent_of(world)
    operate.pause(world.controls[0], execution_id)
    assert world.state(child).status == "paused"
    operate.signal(world.controls[0], child, "go", 1, "s1")
    an_hour(world)
    assert world.state(child).status == "paused"
    operate.resume(world.controls[0], execution_id)
    ends(world, execution_id, "completed")


def test_a_branch_that_fails_while_the_other_is_paused_lets_it_finish_after_the_resume() -> None:
    world = World()
    body = """
  - step: start
    tool: [{name: begin, kind: noop}]
    next: {spec: {mode: inclusive}, arcs: [{step: two}, {step: fails}]}
  - step: two
    tool: [{name: first, kind: noop}, {name: second, kind: noop}]
  - step: fails
    tool: [{name: boom, kind: http, url: x}]
"""
    execution_id = world.start(HEAD + body).execution_id

    def tool(call: ToolCall) -> Outcome:
        if call.task in ("first", "boom"):
            operate.pause(world.controls[0], execution_id)
            world.clock.time += 2 * SECOND
        return Outcome.failed("server_error", "no") if call.task == "boom" else Outcome.ok(1)

    world.tool = tool
    world.run(execution_id, until=lambda: world.state(execution_id).status == "paused")
    an_hour(world)
    world.tool = lambda call: Outcome.failed("server_error", "no") if call.task == "boom" else Outcome.ok(1)
    operate.resume(world.controls[0], execution_id)
    ends(world, execution_id, "failed")


@pytest.mark.sized
def test_pausing_and_resuming_survive_a_crash_at_any_port_call() -> None:
    def run(faults: Faults) -> None:
        world = World()
        execution_id = timers(world)
        with_faults(world, faults)
        control = world.controls
        _operated(world, execution_id, lambda: operate.pause(control[0], execution_id), lambda s: s.status == "paused")
        an_hour(world)
        _operated(
            world,
            execution_id,
            lambda: operate.signal(control[0], execution_id, "hello", 1, "s1"),
            lambda s: bool(s.seen_signals),
        )
        _operated(world, execution_id, lambda: operate.resume(control[0], execution_id), lambda s: s.status != "paused")
        ends(world, execution_id, "completed")
        assert [c.task for c in world.calls].count("slept") == 1
        invariants.faults_happened(world)

    calm = Faults()
    run(calm)
    for after in (False, True):
        for point in crash_points(calm.calls, after):
            run(Faults(crash_at=point, crash_after=after))


def test_a_gate_left_behind_by_an_interruption_is_repaired() -> None:
    world = World()
    execution_id = started(world, WAIT, lambda x: waits(world, x, "timer"))
    world.gates.set_gate(execution_id, Gate("stop"))  # whatever left it
    ends(world, execution_id, "completed")
    assert world.gates.gate(execution_id).mode == "run"


def test_gates_expire_with_the_log() -> None:
    world = World()
    execution_id = started(world, WAIT, lambda x: waits(world, x, "timer"))
    operate.cancel(world.controls[0], execution_id)
    assert world.gates.gate(execution_id).expires_at == world.state(execution_id).expires_at > 0


# --- timeouts -------------------------------------------------------------------------------------------------------------

LOOPED = """
  - step: start
    spec: {policy: {lifecycle: {timeout_s: 300}}}
    loop: {in: [1, 2, 3], iterator: i, spec: {mode: parallel, policy: {exec: EXEC}}}
    tool: [{name: ask, kind: callback, signal: never}]
    next: {arcs: [{step: late, when: "{{ event.error.kind == 'timeout' }}"}]}
  - step: late
    tool: [{name: done, kind: noop}]
"""


@pytest.mark.parametrize("exec_", ["local", "distributed"])
def test_a_loop_that_takes_too_long_times_out_as_a_whole(exec_: str) -> None:
    world = World()
    began = world.clock.time
    execution_id = world.start(HEAD + LOOPED.replace("EXEC", exec_)).execution_id
    state = ends(world, execution_id, "completed")
    assert [c.task for c in world.calls] == ["done"]
    assert state.finished_at is not None
    assert 300 <= (state.finished_at - began) / SECOND < 400
