"""Executions that wait - children in loops, long retries, timers, signals, tolerated failures - under faults, and still once."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.lifecycle.operate import signal
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.log.stored_values import Values
from noetl_core.ports import PortError
from noetl_core.tools.base import ToolCall
from tests.properties import some
from tests.sim import invariants
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.world import World

CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: sim/child}
workload: {x: 0}
executor: {spec: {result: "{{ {'doubled': steps.double.result, 'index': steps.double.result // 2} }}"}}
workflow:
  - step: double
    tool:
      - {name: pause, kind: wait, duration: 90}
      - {name: twice, kind: noop, result: "{{ workload.x * 2 }}"}
"""

PARENT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: sim/waits}
workflow:
  - step: start
    tool:
      - name: flaky
        kind: http
        url: http://x
        spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 300}}]}}
    next: {arcs: [{step: children}]}
  - step: children
    loop: {in: "{{ range(4) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: 2}}
    tool:
      - {name: call, kind: playbook, path: sim/child, args: {x: "{{ iter.i }}"}}
      - {name: keep, kind: noop, result: "{{ [call.doubled, iter.i] }}"}
    next: {arcs: [{step: ask}]}
  - step: ask
    loop: {in: [1, 2, 3], iterator: i, spec: {mode: sequential}}
    tool:
      - {name: answer, kind: callback, signal: "approve-{{ iter.i }}"}
      - name: sum
        kind: noop
        result: "{{ answer.n }}"
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: "{{ (ctx.sum | default(0)) + answer.n }}"}}}}]}}
    next: {arcs: [{step: shaky}]}
  - step: shaky
    loop:
      in: "{{ range(12) | list }}"
      iterator: i
      spec:
        mode: parallel
        max_in_flight: 3
        chunk_size: 2
        policy: {exec: distributed, failure: {mode: fail_fast, tolerated_count: 2}}
    tool: {name: body, kind: http, url: "http://x/{{ iter.i }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: {children: "{{ steps.children.result }}", sum: "{{ ctx.sum }}", shaky: "{{ steps.shaky.result }}"}}
"""
EXPECTED = {
    "children": [[0, 0], [2, 1], [4, 2], [6, 3]],
    "sum": 60,
    "shaky": [None if i in (3, 8) else f"/{i}" for i in range(12)],
}


def tool(call: ToolCall) -> Outcome:
    """`flaky` works at its third attempt; two items of `shaky` never do."""
    if call.task == "flaky":
        return Outcome.ok("fine") if call.attempt == 3 else Outcome.failed("server_error", f"attempt {call.attempt}")
    if call.task == "body":
        item = str(call.inputs["url"]).removeprefix("http://x")
        return Outcome.failed("client_error", item) if item in ("/3", "/8") else Outcome.ok(item)
    return Outcome.ok(call.inputs.get("result"))


def answer(world: World, execution_id: str) -> None:
    """A person who answers all three questions, before they are asked, each twice."""
    for n in (2, 3, 1):
        for _ in range(2):
            while True:
                try:
                    signal(world.controls[0], execution_id, f"approve-{n}", {"n": n * 10}, signal_id=f"s{n}")
                    break
                except (Crash, PortError):
                    world.controls[0] = world.new_control()


def run(world: World) -> State:
    world.tool = tool
    world.catalog.register("sim/child", *_digest_and_source(CHILD), world.clock.time)
    started = world.start(PARENT)
    answer(world, started.execution_id)
    state = world.run(started.execution_id, limit=40_000)
    assert state.status == "completed", (state.status, state.failure, state.stuck, dict(world.faults.seen))
    world.faults.quiet = True
    result: Any = Values(world.store, world.results, started.execution_id).at(state.result)
    assert result == EXPECTED
    world.drain()
    invariants.check(world, started.execution_id)
    return state


def _digest_and_source(source: str) -> tuple[str, str]:
    from noetl_core.dsl.parse import parse_playbook

    return parse_playbook(source).digest, source


def executions(world: World) -> set[str]:
    return {s.execution_id for s in world.store.streams}


def test_waits_take_their_time_and_repeat_no_work() -> None:
    world = World()
    begun = world.clock.time
    state = run(world)
    assert state.finished_at is not None
    assert 600 + 2 * 90 <= (state.finished_at - begun) / SECOND < 600 + 2 * 90 + 120
    assert len(executions(world)) == 5  # four children, each once
    assert [c.attempt for c in world.calls if c.task == "flaky"] == [1, 2, 3]
    assert len([c for c in world.calls if c.task == "twice"]) == 4


@pytest.mark.one_in(3)
@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(12), 4))
def test_whatever_happens_on_the_way_the_end_is_the_same(seed: int) -> None:
    faults = Faults(seed=seed, crash=0.02, throttle=0.02, lost_answer=0.05, duplicate=0.2, lose_record=0.1, delay=0.2)
    world = World(faults, routers=2)
    run(world)
    invariants.faults_happened(world)
    assert len(executions(world)) == 5


def test_with_the_stream_off_the_sweeper_alone_gets_there() -> None:
    run(World(stream_on=False))


def test_failures_beyond_the_tolerance_fail_the_loop_even_when_no_chunk_is() -> None:
    world = World()
    world.tool = lambda call: (
        Outcome.failed("client_error", "no") if call.inputs["url"].rpartition("/")[2] in ("1", "4", "7") else Outcome.ok(1)
    )
    source = (
        PARENT[: PARENT.index("workflow:")]
        + "workflow:\n"
        + PARENT[PARENT.index("  - step: shaky") : PARENT.index("    next: {arcs: [{step: end}]}")]
    )
    started = world.start(source)
    state = world.run(started.execution_id)
    assert state.status == "failed"
    assert state.failure is not None
    assert "3 iterations failed, 2 are tolerated" in state.failure["message"]


SLOW = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sizes, path: sim/sizes}
workflow:
  - step: start
    loop: {in: "{{ range(3000) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: 4, policy: {exec: distributed}}}
    tool: {name: body, kind: http, url: "http://x/{{ iter.i }}"}
"""


@pytest.mark.nightly
@pytest.mark.parametrize(("seconds", "chunks"), [(0.001, 8 * 2), (1, 150)])
def test_chunks_are_sized_by_measured_iteration_times(seconds: float, chunks: int) -> None:
    world = World()
    playbook_of = world.controls[0].playbook

    def slow(call: ToolCall) -> Outcome:
        world.clock.sleep(seconds / 2)  # two at a time, one after the other in this world
        return Outcome.ok(None)

    world.tool = slow
    plans = []
    for n in range(2):
        execution_id = world.start(SLOW, idempotency_key=str(n)).execution_id
        assert world.run(execution_id, limit=40_000).status == "completed"
        sliced = [e for c in world.store.streams[StreamId(execution_id)] for e in c.events if e.name == "LoopSliced"]
        plans.append(sliced[0].data["plan"]["chunks"])
        world.controls[0].playbook = playbook_of
    assert plans[0] == 30, "a hundred items a chunk while nobody knows"
    assert plans[1] == pytest.approx(chunks, rel=0.35)
