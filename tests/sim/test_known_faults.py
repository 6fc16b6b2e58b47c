"""Reproduces faults that occurred in other engines, and the interleavings that have no file of their own (see README.md beside
this)."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from noetl_core.control.cached_states import SNAPSHOT_EVERY
from noetl_core.control.sweeping.reconcile import DEEP_QUEUE
from noetl_core.control.sweeping.sweep import sweep
from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.log.stored_values import Values
from noetl_core.tools.base import ToolCall
from noetl_core.views.executions import executions
from noetl_core.views.explain.replay import replay
from tests.sim import invariants
from tests.sim.interleavings import only_command
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/wrong}\n"
SEEDS = range(5)


def messy(seed: int) -> Faults:
    """None with seed 0; else all kinds, in an order of its own."""
    return Faults(seed, crash=0.02, lost_answer=0.1, duplicate=0.4, lose_record=0.1, delay=0.4) if seed else Faults()


def ended(world: World, execution_id: str, status: str = "completed", limit: int = 20_000) -> State:
    state = world.run(execution_id, limit=limit)
    assert state.status == status, (state.status, state.failure, state.stuck)
    invariants.faults_happened(world)
    world.faults.quiet = True
    world.drain()
    invariants.check(world, execution_id)
    assert replay(world.controls[0], execution_id).differences == ()
    return world.state(execution_id)


def result(world: World, state: State) -> Any:
    return Values(world.store, world.results, state.execution_id).at(state.result)


# --- ids that must not come twice -------------------------------------------------------------------------------------------

CYCLE = (
    HEAD
    + """
workflow:
  - step: start
    tool: {name: count, kind: noop, args: {n: "{{ (ctx.n | default(0)) + 1 }}"}, set_ctx: {n: "{{ outcome.result.n }}"}}
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: left}
        - {step: right}
  - step: left
    tool: {name: l, kind: noop}
    next: {arcs: [{step: meet}]}
  - step: right
    tool: {name: r, kind: noop}
    next: {arcs: [{step: meet}]}
  - step: meet
    spec: {join: all}
    tool: {name: m, kind: noop, args: {n: "{{ ctx.n }}"}}
    next: {arcs: [{step: again, when: "{{ ctx.n < 6 }}"}]}
  - step: again
    next:
      arcs:
        - {step: again, when: "{{ false }}"}
        - {step: start}
"""
)
SELF = (
    HEAD
    + """
workflow:
  - step: start
    tool: {name: page, kind: noop, args: {n: "{{ (ctx.n | default(0)) + 1 }}"}, set_ctx: {n: "{{ outcome.result.n }}"}}
    next: {arcs: [{step: start, when: "{{ ctx.n < 12 }}"}]}
"""
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("source", "step", "times"), [(CYCLE, "meet", 6), (SELF, "start", 12)], ids=["join in a cycle", "self-loop"]
)
def test_each_round_of_a_cycle_has_new_tokens_runs_and_keys(source: str, step: str, times: int, seed: int) -> None:
    world = World(messy(seed and seed + 10 * times), routers=2)
    execution_id = world.start(source).execution_id
    state = ended(world, execution_id)
    assert state.steps[step].runs == times
    keys = {(c.step, c.task_run_id) for c in world.calls}
    assert len({key for at, key in keys if at == step}) == times


def test_a_commit_of_a_thousand_tokens_is_one_and_all_of_them_arrive() -> None:
    arcs = "".join(f"        - {{step: meet, args: {{a{n}: {n}}}}}\n" for n in range(1_000))
    source = (
        HEAD
        + "executor: {spec: {policy: {limits: {max_tokens: 2000}}}}\nworkflow:\n  - step: start\n    next:\n"
        + "      spec: {mode: inclusive}\n      arcs:\n"
        + arcs
        + '  - step: meet\n    spec: {join: all}\n    tool: {name: sum, kind: noop, args: {n: "{{ args | length }}"}}\n'
    )
    world = World(Faults(3, duplicate=0.5, lost_answer=0.5))
    execution_id = world.start(source).execution_id
    state = ended(world, execution_id)
    assert result(world, state) == {"n": 1_000}
    made = [sum(e.name == "TokenEnqueued" for e in c.events) for c in world.store.streams[StreamId(execution_id)]]
    assert max(made) >= 1_000


# --- a hundred thousand commands behind a limit ------------------------------------------------------------------------------


def test_commands_in_a_deep_queue_are_not_considered_lost() -> None:
    source = HEAD + "workflow:\n" + "  - step: start\n    tool: {name: a, kind: noop}\n"
    world = World()
    ids = [world.start(source, idempotency_key=str(n)).execution_id for n in range(20)]
    before = len(world.queue.sent)
    world.queue.depth = lambda pool: 100_000  # type: ignore[method-assign]
    for _ in range(30):
        world.clock.time += 90 * SECOND
        sweep(world.controls[0])
    assert len(world.queue.sent) == before, "they wait their turn"
    world.queue.messages.clear()  # now they are lost indeed
    world.queue.depth = lambda pool: DEEP_QUEUE - 1  # type: ignore[method-assign]
    world.clock.time += 3_600 * SECOND
    sweep(world.controls[0])
    assert len(world.queue.sent) == before + 20
    for execution_id in ids:
        ended(world, execution_id)


# --- failures of others ------------------------------------------------------------------------------------------------------

ONCE = (
    HEAD
    + """
workflow:
  - step: start
    loop: {in: "{{ range(203) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: 4, policy: {exec: EXEC}}}
    tool: {name: body, kind: http, url: "http://x/{{ iter.i }}"}
"""
)


@pytest.mark.parametrize("where", ["local", "distributed"])
def test_a_collection_is_rendered_once_and_never_by_a_replay(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from noetl_core.worker.loops.collections import LoopCollections

    world = World()
    rendered = []
    original = LoopCollections.render_items

    def counted(self: Any, *args: Any) -> Any:
        rendered.append(1)
        return original(self, *args) if len(rendered) == 1 else ["what a second rendering would give"]

    def dies_now_and_then(call: ToolCall) -> Outcome:
        world.clock.sleep(0.3)
        if len(world.calls) in (50, 120, 180):
            raise Crash
        return Outcome.ok(int(str(call.inputs["url"]).rpartition("/")[2]))

    monkeypatch.setattr(LoopCollections, "render_items", counted)
    world.tool = dies_now_and_then
    execution_id = world.start(ONCE.replace("EXEC", where)).execution_id
    state = ended(world, execution_id)
    assert result(world, state) == list(range(203))
    assert len(rendered) == 1
    assert world.names(execution_id).count("LoopDone") == 1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ends", ["completed", "failed"])
def test_the_status_matches_the_log_at_every_moment(ends: str, seed: int) -> None:
    world = World(messy(seed and seed + 10 * len(ends)), routers=2)

    def tool(call: ToolCall) -> Outcome:
        return Outcome.failed("server_error", "no") if ends == "failed" and call.task == "b" else Outcome.ok(1)

    world.tool = tool
    source = (
        HEAD
        + "workflow:\n  - step: start\n    tool: {name: a, kind: http, url: x}\n    next: {arcs: [{step: second}]}\n"
        + "  - step: second\n    tool: {name: b, kind: http, url: x}\n"
    )
    execution_id = world.start(source).execution_id

    def look() -> bool:
        state = world.state(execution_id)
        over = "WorkflowFinished" in world.names(execution_id)
        assert state.finished is over
        assert executions.status_of(state) == (ends if over else "running")
        head = world.index.all_heads.get(execution_id)
        assert head is None or over or head.status == "running", "no summary is ahead of the log"
        return over

    world.run(execution_id, until=look)
    ended(world, execution_id, ends)
    assert world.index.all_heads[execution_id].status == ends


RAISES = {
    "an arc's guard": '    next: {arcs: [{step: end, when: "{{ event.result.n / 0 > 1 }}"}]}\n  - step: end\n    tool: {name: z, kind: noop}\n',
    "an admission": '    next: {arcs: [{step: end}]}\n  - step: end\n    spec: {policy: {admit: {rules: [{when: "{{ ctx.x.y.z / 0 }}", then: {allow: true}}]}}}\n    tool: {name: z, kind: noop}\n',
    "an argument": '    next: {arcs: [{step: end, args: {n: "{{ 1 / 0 }}"}}]}\n  - step: end\n    tool: {name: z, kind: noop}\n',
}


@pytest.mark.parametrize("what", RAISES)
def test_an_exception_fails_the_execution_and_nothing_hangs(what: str) -> None:
    world = World()
    source = HEAD + "workflow:\n  - step: start\n    tool: {name: a, kind: noop, args: {n: 1}}\n" + RAISES[what]
    state = ended(world, world.start(source).execution_id, "failed", limit=500)
    assert state.failure is not None
    assert state.failure["kind"] == "template"


def test_an_execution_ends_when_all_guards_are_false() -> None:
    world = World()
    source = (
        HEAD
        + "workflow:\n  - step: start\n    tool: {name: a, kind: noop, args: {n: 1}}\n"
        + '    next: {arcs: [{step: end, when: "{{ false }}"}, {step: end, when: "{{ event.result.n > 1 }}"}]}\n'
        + "  - step: end\n    tool: {name: z, kind: noop}\n"
    )
    execution_id = world.start(source).execution_id
    state = ended(world, execution_id, limit=500)
    assert result(world, state) == {"n": 1}
    assert [
        e.data["selected"] for c in world.store.streams[StreamId(execution_id)] for e in c.events if e.name == "NextEvaluated"
    ] == [[]]


GROWS = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      - {name: n, kind: noop, args: "{{ (ctx.n | default(0)) + 1 }}", set_ctx: {n: "{{ outcome.result }}"}}
      - {name: grow, kind: noop, args: {all: "{{ (args.all | default([])) + ['x' * 200] }}"}}
    next: {arcs: [{step: start, when: "{{ ctx.n < 150 }}", args: {all: "{{ event.result.all }}"}}]}
"""
)


@pytest.mark.nightly
def test_a_payload_that_grows_at_every_hop_goes_by_reference_and_no_hop_reads_the_whole_log() -> None:
    world = World()
    world.tool = lambda call: Outcome.ok(call.inputs["args"])
    read_at: list[int] = []
    original = world.store.read

    def counted(stream: StreamId, after: int = -1, limit: int | None = None) -> Any:
        found = original(stream, after, limit)
        read_at.append(len(found))
        return found

    world.store.read = counted  # type: ignore[method-assign]
    execution_id = world.start(GROWS).execution_id
    assert world.run(execution_id).status == "completed"
    assert max(read_at) <= 2 * SNAPSHOT_EVERY, "never more than the tail behind a snapshot"
    half = len(read_at) // 2
    assert sum(read_at[half:]) < 1.3 * sum(read_at[:half]), "and the last hops no more than the first"
    sizes = [len(json.dumps([asdict(e) for e in c.events])) for commits in world.store.streams.values() for c in commits]
    commands = [len(json.dumps(asdict(c), default=str)) for c in world.queue.sent]
    assert max(sizes) < 24_000
    assert max(commands) < 24_000
    last = Values(world.store, world.results, execution_id).reference(result(world, world.state(execution_id)))
    assert len(last["all"]) == 150


def test_a_child_that_takes_hours_is_started_once() -> None:
    child = (
        HEAD.replace("sim/wrong", "sim/child") + "workflow:\n  - step: start\n    tool: {name: nap, kind: wait, duration: 5h}\n"
    )
    playbook = parse_playbook(child)
    world = World(Faults(2, duplicate=1.0, delay=0.5))
    world.catalog.register("sim/child", playbook.digest, child, 1)
    execution_id = world.start(
        HEAD + "workflow:\n  - step: start\n    tool: {name: call, kind: playbook, path: sim/child}\n"
    ).execution_id
    command = only_command_of(world)
    for _ in range(40):
        world.handle(command)
        target = world.clock.time + 600 * SECOND
        world.run(execution_id, until=lambda: world.clock.time >= target or world.state(execution_id).finished)  # noqa: B023
    ended(world, execution_id)
    assert len({s.execution_id for s in world.store.streams}) == 2


def only_command_of(world: World) -> Any:
    """The one command, however often it was sent."""
    first = world.queue.messages[0].command
    world.queue.messages[1:] = []
    return first or only_command(world)
