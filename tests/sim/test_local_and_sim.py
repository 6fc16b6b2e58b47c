"""One playbook, two wirings: the local runner and the simulated stack under faults come to the same end (I11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from noetl_core.control.admit import StartRequest
from noetl_core.engine.records import StreamId
from noetl_core.ports import EventStore
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import Tool
from noetl_core.tools.registry import ToolRegistry
from noetl_core.views.executions import executions
from tests.properties import examples
from tests.sim import generated_playbooks, invariants
from tests.sim.generated_playbooks import GenLoop, GenStep, GenTask, is_abandoned
from tests.sim.ports import Faults
from tests.sim.workers import SCRIPTED, ScriptedTool
from tests.sim.world import World


class _Scripted:
    """The simulator's tools, as `World.tool` answers them, for the local runner."""

    asks = False

    def __init__(self, tool: Any) -> None:
        self.tool, self.calls = tool, []  # type: ignore[var-annotated]

    def registry(self) -> ToolRegistry:
        tools: dict[str, Tool] = {kind: ScriptedTool(self, kind) for kind in SCRIPTED}  # type: ignore[arg-type]
        return ToolRegistry(tools)


@pytest.fixture(scope="module")
def local() -> Iterator[LocalWiring]:
    wiring = LocalWiring(tools=ToolRegistry({}))
    yield wiring
    wiring.close()


def quick(source: str) -> str:
    """The same playbook with waits that a real clock can wait for."""
    for seconds in (30, 60, 100, 300, 700, 2_000):
        source = source.replace(f"duration: {seconds}\n", "duration: 0.001\n").replace(f"delay: {seconds}\n", "delay: 0\n")
    return source.replace("delay: 1\n", "delay: 0\n")


def locally(local: LocalWiring, source: str, tool: Any) -> dict[str, Any]:
    local.worker.tools = _Scripted(tool).registry()
    execution_id = local.start(StartRequest(playbook=source)).execution_id
    assert local.run(execution_id, timeout_s=60)
    return _told(executions.summary(local.control, execution_id), local.store, execution_id)


def simulated(source: str, tool: Any, faults: Faults) -> dict[str, Any]:
    world = World(faults.fresh(), routers=2)
    world.tool = tool
    execution_id = world.start(source).execution_id
    world.run(execution_id, limit=40_000)
    world.faults.quiet = True
    world.drain()
    invariants.check(world, execution_id)
    summary = executions.summary(world.controls[0], execution_id)
    assume(not is_abandoned(faults, summary["error"]))
    return _told(summary, world.store, execution_id)


def _told(summary: dict[str, Any], store: EventStore, execution_id: str) -> dict[str, Any]:
    """Return the parts that must be equal: all of the summary but ids and times, and the count of each control event. Events
    whose number depends on redeliveries, boundaries of chunks and suspensions are left out.

    Without the events that redeliveries, chunks' boundaries and suspensions make more or fewer of.
    """
    names: Counter[str] = Counter(e.name for c in store.read(StreamId(execution_id)) for e in c.events)
    kept = ("TokenEnqueued", "TokenClaimed", "TokenExpired", "StepScheduled", "StepSkipped", "NextEvaluated", "LoopDone")
    wanted = ("status", "result", "ctx", "error", "steps")
    return {**{k: summary[k] for k in wanted}, "events": {n: names[n] for n in kept}}


@given(tasks=generated_playbooks.pipelines(), faults=generated_playbooks.faults)
@examples(40)
def test_pipelines(local: LocalWiring, tasks: tuple[GenTask, ...], faults: Faults) -> None:
    source = quick(generated_playbooks.playbook([{"step": "start", "tool": generated_playbooks.tasks_of(tasks)}]))
    tool = generated_playbooks.tool_for(tasks)
    assert locally(local, source, tool) == simulated(source, tool, faults)


@given(loop=generated_playbooks.loops(), faults=generated_playbooks.faults)
@examples(40)
def test_loops(local: LocalWiring, loop: GenLoop, faults: Faults) -> None:
    source = quick(generated_playbooks.playbook([loop.step()]))
    here, there = locally(local, source, loop.tool), simulated(source, loop.tool, faults)
    if loop.fails:  # the first failing iteration, and the number that ran before it, are undefined
        assert (here["status"], there["status"]) == ("failed", "failed")
        return
    assert here == there


@given(net=generated_playbooks.nets(), faults=generated_playbooks.faults)
@examples(40)
def test_nets(local: LocalWiring, net: tuple[GenStep, ...], faults: Faults) -> None:
    source = quick(generated_playbooks.playbook(generated_playbooks.net_steps(net)))
    here, there = locally(local, source, None), simulated(source, None, faults)
    for told in (here, there):
        del told["result"]  # that of the step that ended last
        for step in told["steps"].values():
            del step["result"]  # the result of a join `any` is that of the first branch
    assert here == there


@given(
    tasks=generated_playbooks.pipelines(),
    loop=generated_playbooks.loops(),
    faults=generated_playbooks.faults,
    order=st.permutations(["pipe", "start", "last"]),
)
@examples(30)
def test_chains(local: LocalWiring, tasks: tuple[GenTask, ...], loop: GenLoop, faults: Faults, order: list[str]) -> None:
    """A pipeline, a loop and a step that reads both, in any order; failures are handled and routed on."""
    steps = {
        "pipe": {"step": "pipe", "tool": generated_playbooks.tasks_of(tasks)},
        "start": loop.step(),
        "last": {
            "step": "last",
            "tool": {
                "kind": "noop",
                "args": {"all": "{{ [steps.pipe.status | default('-'), steps.start.status | default('-')] }}"},
            },
        },
    }
    chain = [steps[name] for name in order]
    for one, following in pairwise(chain):
        one["next"] = {
            "arcs": [{"step": following["step"], "when": "{{ event.name in ['step.failed', 'step.done', 'loop.done'] }}"}]
        }
    source = quick(generated_playbooks.playbook(chain)).replace(
        "kind: Playbook\n", f"kind: Playbook\nexecutor: {{spec: {{entry_step: {order[0]}}}}}\n"
    )
    pipe = generated_playbooks.tool_for(tasks)

    def tool(call: Any) -> Any:
        return pipe(call) if call.step == "pipe" else loop.tool(call) if call.step == "start" else _args(call)

    here, there = locally(local, source, tool), simulated(source, tool, faults)
    if loop.fails:
        for told in (here, there):
            told["steps"]["start"] = told["error"] = told["ctx"] = None
    assert here == there


def _args(call: Any) -> Any:
    from noetl_core.engine.outcome import Outcome

    return Outcome.ok(call.inputs["args"])
