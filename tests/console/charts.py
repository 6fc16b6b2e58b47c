"""Playbooks whose executions fill a timeline, a graph and a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import yaml

from noetl_console.local import LocalApi
from noetl_core.control.admit import StartRequest, register
from noetl_core.observe.report import report
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.operations.base import Operations
from noetl_core.views.executions.executions import summary
from tests.console.sample_store import HEAD

CHILD = (
    HEAD
    + """metadata: { name: parcel, path: demo/parcel }
workflow:
  - step: weigh
    tool: { kind: noop }
    next: { arcs: [{ step: label }] }
  - step: label
    tool: { kind: wait, seconds: 0.1 }
"""
)
BUSY = (
    HEAD
    + """metadata: { name: busy, path: demo/busy }
workload: { items: 200 }
workflow:
  - step: fetch
    tool:
      kind: python
      args: { attempt: "{{ _attempt }}" }
      code: "if attempt < 3: raise ValueError('not yet')"
      spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 3, delay: 0.1 } }] } }
    next: { spec: { mode: inclusive }, arcs: [{ step: prices }, { step: parcel }, { step: quick }] }
  - step: prices
    loop: { in: "{{ range(workload['items']) | list }}", iterator: n, spec: { policy: { failure: { mode: best_effort } } } }
    tool: { kind: noop, result: "{{ 1 / (0 if iter.n in [17, 99] else 1) }}" }
    next: { arcs: [{ step: total }] }
  - step: parcel
    tool: { kind: playbook, path: demo/parcel }
    next: { arcs: [{ step: pause }] }
  - step: pause
    tool: { kind: wait, seconds: 3 }
    next: { arcs: [{ step: total }] }
  - step: quick
    tool: { kind: noop }
  - step: total
    spec: { join: all }
    tool: { kind: python, code: "raise ValueError('two prices are missing')" }
"""
)


@contextmanager
def stored(folder: Path, make: Callable[[LocalWiring], str]) -> Iterator[tuple[str, LocalApi]]:
    """Yield the execution that `make` runs in a store of its own, and the API of that store."""
    store = str(folder / "runs.db")
    with closing(LocalWiring(store)) as wiring:
        found = make(wiring)
        with closing(LocalApi(store)) as api:
            yield found, api


def busy(wiring: LocalWiring, **payload: Any) -> str:
    """Carry out an execution with attempts, a long wait, iterations and a called playbook; return its id."""
    register(wiring.control, CHILD)
    return _over(wiring, BUSY, payload)


def fans(steps: int = 200, failing: str = "check_5_7") -> str:
    """Return a playbook of some `steps` steps: fans of 12 branches of two steps, one after the other; one step fails."""
    found: list[dict[str, Any]] = []
    fan = 0
    while len(found) < steps:
        after = f"fan_{fan + 1}" if len(found) + 26 < steps else None
        found.append({"step": f"fan_{fan}", "tool": {"kind": "noop"}, "next": {"spec": {"mode": "inclusive"}, "arcs": [{"step": f"load_{fan}_{n}"} for n in range(12)]}})  # fmt: skip
        for n in range(12):
            found.append({"step": f"load_{fan}_{n}", "tool": {"kind": "noop"}, "next": {"arcs": [{"step": f"check_{fan}_{n}"}]}})
            name = f"check_{fan}_{n}"
            found.append({"step": name, "tool": {"kind": "noop", "result": f"{{{{ 1 / {int(name != failing)} }}}}"}, "next": {"arcs": [{"step": f"merge_{fan}"}]}})  # fmt: skip
        merge: dict[str, Any] = {"step": f"merge_{fan}", "spec": {"join": "all"}, "tool": {"kind": "noop"}}
        found.append(merge | ({"next": {"arcs": [{"step": after}]}} if after else {}))
        fan += 1
    for step in found:
        for arc in step.get("next", {}).get("arcs", []):
            arc.update({"when": "{{ event.name != 'step.failed' }}"} if arc["step"].startswith("merge") else {})
    return HEAD + yaml.safe_dump({"metadata": {"name": "fans", "path": "demo/fans"}, "workflow": found}, sort_keys=False)


def fanned(wiring: LocalWiring, steps: int = 200) -> str:
    """Carry it out; return its id."""
    return _over(wiring, fans(steps), {})


def running(wiring: LocalWiring) -> str:
    """Start an execution of `fans` and return its id as soon as `check_5_7` runs, which it does for longer than a test takes."""
    playbook = yaml.safe_load(fans())
    (step,) = (each for each in playbook["workflow"] if each["step"] == "check_5_7")
    step["tool"] = {"kind": "python", "code": "import time; time.sleep(600)"}
    execution_id = wiring.start(StartRequest(playbook=yaml.safe_dump(playbook, sort_keys=False))).execution_id
    while summary(wiring.control, execution_id)["steps"].get("check_5_7", {}).get("status") != "running":
        wiring.run(execution_id, timeout_s=0.2)
    return execution_id


def _over(wiring: LocalWiring, source: str, payload: dict[str, Any]) -> str:
    execution_id = wiring.start(StartRequest(playbook=source, payload=payload)).execution_id
    assert wiring.run(execution_id)
    return execution_id


def page_of(operations: Operations, execution_id: str) -> str:
    """Return the report of an execution."""
    summary: Any = operations.execution(execution_id)
    drawing = operations.drawing(execution_id, "svg", fold=True)
    return report(
        summary,
        operations.why(execution_id),
        operations.timeline(execution_id, 1),
        operations.cost(execution_id),
        drawing,
        "p.yaml",
    )
