"""Properties over generated playbooks and delivery orders: the oracle's result, the invariants, and the same decisions again.

`make properties` takes many more examples (`NOETL_TIMES`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given

from noetl_core.engine.records import StreamId
from noetl_core.engine.state import State
from noetl_core.log.stored_values import Values
from tests.properties import examples
from tests.sim import generated_playbooks
from tests.sim.generated_playbooks import GenLoop, GenStep, GenTask
from tests.sim.ports import Faults
from tests.sim.runs import events, run, window_is_kept
from tests.sim.world import World


def result(world: World, state: State) -> Any:
    return Values(world.store, world.results, state.execution_id).at(state.result)


@given(tasks=generated_playbooks.pipelines(), faults=generated_playbooks.faults)
@examples(60)
def test_a_pipeline_follows_its_policies(tasks: tuple[GenTask, ...], faults: Faults) -> None:
    source = generated_playbooks.playbook([{"step": "start", "tool": generated_playbooks.tasks_of(tasks)}])
    world, state = run(source, generated_playbooks.tool_for(tasks), faults)
    wanted = generated_playbooks.expected(tasks)
    done = events(world, state.execution_id, "TaskProcessed")
    assert [(d["task"], d["visit"], d["attempt"], d["directive"]["do"]) for d in done] == wanted.trace
    assert state.status == ("completed" if wanted.error is None else "failed")
    assert (None if state.failure is None else state.failure["kind"]) == wanted.error
    assert state.ctx == wanted.ctx
    if wanted.error is None:
        assert result(world, state) == wanted.result
    assert len({d["run"] for d in done}) == len({(d["task"], d["visit"]) for d in done}), "page 2 is not page 1"
    called = {(c.task, c.visit, c.attempt) for c in world.calls}
    assert called == {t[:3] for t in wanted.trace if tasks[int(t[0][1:])].wait is None}, "nothing else was called"


@given(loop=generated_playbooks.loops(), faults=generated_playbooks.faults)
@examples(50)
def test_a_loop_runs_each_iteration_once_in_order_within_its_window(loop: GenLoop, faults: Faults) -> None:
    world, state = run(generated_playbooks.playbook([loop.step()]), loop.tool, faults)
    execution_id = state.execution_id
    if loop.fails:
        assert state.status == "failed"
        assert state.failure is not None
        assert state.failure["kind"] in ("server_error", "unknown")
    else:
        assert state.status == "completed", state.failure
        assert result(world, state) == loop.results()
        counts = state.steps["start"].loop
        each = loop.inner or 1  # elements of the innermost loop; nothing fails in nested loops
        assert counts == {
            "total": loop.items * each,
            "succeeded": (loop.items - len(loop.failed)) * each,
            "failed": len(loop.failed),
        }
        if loop.mode == "parallel" and not loop.inner:
            assert state.ctx.get("sum", 0) == loop.items - len(loop.failed)
        assert {c.inputs["url"].split("/")[-1].split("-")[0] for c in world.calls} == {str(n) for n in range(loop.items)}
    ended = Counter(tuple(d["path"]) for d in events(world, execution_id, "LoopIterationCompleted") if len(d["path"]) == 1)
    assert all(n == 1 for n in ended.values()), "an index ends once (I3)"
    assert [e for e in world.names(execution_id) if e == "LoopDone"] == ["LoopDone"]
    window_is_kept(world, execution_id, 1 if loop.mode == "sequential" else loop.window)


@given(net=generated_playbooks.nets(), faults=generated_playbooks.faults)
@examples(60)
def test_joins_merge_tokens_in_any_order_of_arrival(net: tuple[GenStep, ...], faults: Faults) -> None:
    world, state = run(generated_playbooks.playbook(generated_playbooks.net_steps(net)), None, faults)
    assert state.status == "completed", state.failure
    runs, met = generated_playbooks.net_runs(net)
    done = Counter(
        e.data["step"] for c in world.store.streams[StreamId(state.execution_id)] for e in c.events if e.name == "StepScheduled"
    )
    assert [done[f"s{n}"] for n in range(len(net))] == runs
    args = {c.step: set(c.inputs["args"]["from"]) for c in world.calls if c.task == "work"}
    for n, wanted in met.items():
        assert args[f"s{n}"] == wanted, "a join all runs with the arguments of everything that reaches it"
    assert not state.tokens
