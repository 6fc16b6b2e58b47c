"""The work of the cases as playbooks. Every one has a result that says whether the work was done."""

from __future__ import annotations

import json

from bench.playbooks import HEAD, chain, map_over

__all__ = ["chain", "map_calls", "map_items", "python_chain"]


def python_chain(steps: int) -> str:
    """`steps` steps, one after the other, of one line of Python each; the last one's result is `2 * (steps - 1)`."""
    workflow = []
    for n in range(steps):
        step: dict[str, object] = {"step": f"s{n:04}", "tool": {"kind": "python", "args": {"n": n}, "code": "result = n * 2"}}
        if n + 1 < steps:
            step["next"] = {"arcs": [{"step": f"s{n + 1:04}"}]}
        workflow.append(step)
    result = {"last": f"{{{{ steps.s{steps - 1:04}.result }}}}"}
    return _document(f"python_{steps}", {"executor": {"spec": {"result": result}}, "workflow": workflow})


def map_items(items: int, in_flight: int) -> str:
    """A parallel loop whose iterations do nothing but give a number; the numbers' sum is in the result."""
    return map_over(items, "noop", in_flight)


def map_calls(url: str, items: int, in_flight: int) -> str:
    """A parallel loop of one GET an iteration; the sum of what the service answered is in the result."""
    step = {
        "step": "map",
        "loop": {
            "in": f"{{{{ range({items}) | list }}}}",
            "iterator": "n",
            "spec": {"mode": "parallel", "max_in_flight": in_flight, "policy": {"exec": "local"}},
        },
        "tool": {"kind": "http", "method": "GET", "url": f"{url}/{{{{ iter.n }}}}"},
    }
    result = {"sum": "{{ steps.map.result | map(attribute='data.n') | sum }}"}
    return _document(f"calls_{items}", {"executor": {"spec": {"result": result}}, "workflow": [step]})


def _document(name: str, parts: dict[str, object]) -> str:
    return HEAD.format(name=name) + "".join(f"{key}: {json.dumps(value)}\n" for key, value in parts.items())
