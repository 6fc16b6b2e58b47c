"""Executions whose only step is done, and not routed yet."""

from __future__ import annotations

from typing import Any

from noetl_core.control.admit import StartRequest, admit
from noetl_core.engine.records import Event, StreamId
from noetl_core.runtime import control_wiring
from noetl_core.testing.contracts.event_store import commit
from tests.unit.functions.conftest import HELLO


def ended(playbook: str = HELLO, **more: Any) -> str:
    """Start an execution, and end the run of its first step as its worker would. Return its id. `more` is about the last
    commit."""
    control = control_wiring.control()
    execution_id = admit(control, StartRequest(playbook=playbook)).execution_id
    (run,) = control.load(execution_id).runs.values()
    stream = StreamId(execution_id, run.id)
    control.store.append(commit(stream, 0, events=(Event("StepStarted", 1, {"step": run.step, "as_of": 0, "worker": "w"}),)))
    control.store.append(commit(stream, 1, events=(Event("StepDone", 2, {"result": None, "set_ctx": {}}),), wake=True, **more))
    return execution_id


def hostile() -> str:
    """Start an execution whose next decision takes minutes, though each template keeps to its budget: it has thousands of
    arcs."""
    guard = "{% for i in range(600000) %}{% endfor %}{{ ctx.n == 1 }}"
    arcs = "".join(f'    - {{step: bye, when: "{guard}"}}\n' for _ in range(3_000))
    return ended(f"{HELLO}  next:\n    arcs:\n{arcs}- step: bye\n  tool: {{kind: noop}}\n")
