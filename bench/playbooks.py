"""The measured playbooks, generated to size."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name}, path: bench/{name} }}\n"


def chain(steps: int, tool: Callable[[int], Mapping[str, object]] = lambda i: {"kind": "noop"}, *, last: bool = False) -> str:
    """`steps` plain one-task steps, one after the other. `tool(i)` is the task of each. With `last`, the last one's result is in
    that of the execution."""
    workflow = []
    for i in range(steps):
        step: dict[str, object] = {"step": f"s{i:04}", "tool": tool(i)}
        if i + 1 < steps:
            step["next"] = {"arcs": [{"step": f"s{i + 1:04}"}]}
        workflow.append(step)
    result = {"executor": {"spec": {"result": {"last": f"{{{{ steps.s{steps - 1:04}.result }}}}"}}}} if last else {}
    return written(f"chain_{steps}", {**result, "workflow": workflow})


def python(i: int) -> Mapping[str, object]:
    """A small task, with the same code in every step."""
    return {"kind": "python", "args": {"n": i}, "code": "result = n * 2"}


def python_of_its_own(i: int) -> Mapping[str, object]:
    """A small task, with other code in every step."""
    return {"kind": "python", "args": {"n": i}, "code": f"result = n * {i}"}


def cycle(steps: int) -> str:
    """Two plain steps that follow each other until `steps` have run: the playbook stays small."""
    again = {"when": f"{{{{ event.result < {steps - 1} }}}}", "args": {"n": "{{ event.result }}"}}
    workflow = [
        {
            "step": name,
            "tool": {"kind": "noop", "result": "{{ (args.n | default(0)) + 1 }}"},
            "next": {"arcs": [{"step": other, **(again if name == "b" else {"args": again["args"]})}]},
        }
        for name, other in (("a", "b"), ("b", "a"))
    ]
    return written(f"cycle_{steps}", {"workflow": workflow})


def fan_out(branches: int) -> str:
    """A step, `branches` that follow it side by side, and one that joins them."""
    arcs = [{"step": f"b{i:04}"} for i in range(branches)]
    first = {"step": "start", "tool": {"kind": "noop"}, "next": {"spec": {"mode": "inclusive"}, "arcs": arcs}}
    join = {"next": {"arcs": [{"step": "end"}]}}
    between = [{"step": arc["step"], "tool": {"kind": "noop"}, **join} for arc in arcs]
    last = {"step": "end", "spec": {"join": "all"}, "tool": {"kind": "noop"}}
    return written(f"fan_out_{branches}", {"workflow": [first, *between, last]})


def waits(seconds: int) -> str:
    """A step, and one that waits."""
    first = {"step": "start", "tool": {"kind": "noop"}, "next": {"arcs": [{"step": "wait"}]}}
    return written(f"waits_{seconds}", {"workflow": [first, {"step": "wait", "tool": {"kind": "wait", "duration": seconds}}]})


def map_over(items: int, kind: str, max_in_flight: int = 8, **spec: object) -> str:
    """A parallel local loop of `items` iterations of one `noop` or `python` task."""
    task: dict[str, object] = {"kind": kind}
    if kind == "python":
        task |= {"args": {"n": "{{ iter.n }}"}, "code": "result = n * 2"}
    else:
        task["result"] = "{{ iter.n * 2 }}"
    step = {
        "step": "map",
        "loop": {
            "in": f"{{{{ range({items}) | list }}}}",
            "iterator": "n",
            "spec": {"mode": "parallel", "max_in_flight": max_in_flight, "policy": {"exec": "local"}, **spec},
        },
        "tool": task,
    }
    result = {"n": "{{ steps.map.result | length }}", "sum": "{{ steps.map.result | sum }}"}
    document = {"executor": {"spec": {"result": result}}, "workflow": [step]}
    return written(f"map_{items}_{kind}", document)


def chunks_of(items: int) -> str:
    """A distributed loop with a chunk for each item, between two steps."""
    spec = {"mode": "parallel", "max_in_flight": 8, "chunk_size": 1, "policy": {"exec": "distributed"}}
    loop = {"in": f"{{{{ range({items}) | list }}}}", "iterator": "n", "spec": spec}
    task: dict[str, object] = {"kind": "noop", "result": "{{ iter.n * 2 }}"}
    first = {"step": "start", "tool": {"kind": "noop", "result": 1}, "next": {"arcs": [{"step": "map"}]}}
    after = {"step": "end", "when": "{{ event.loop.failed == 0 }}"}
    workflow = [
        first,
        {"step": "map", "loop": loop, "tool": task, "next": {"arcs": [after]}},
        {"step": "end", "tool": {"kind": "noop"}},
    ]
    return written(f"chunks_{items}", {"workflow": workflow})


def map_of_calls(items: int, url: str, max_in_flight: int, **spec: object) -> str:
    """A parallel local loop of `items` iterations of one `http` task. Iteration `n` asks for `<url>/<n>`, which answers
    `{"n": n}`; the sum of the answers is in the result."""
    step = {
        "step": "map",
        "loop": {
            "in": f"{{{{ range({items}) | list }}}}",
            "iterator": "n",
            "spec": {"mode": "parallel", "max_in_flight": max_in_flight, "policy": {"exec": "local"}, **spec},
        },
        "tool": {"kind": "http", "method": "GET", "url": url + "/{{ iter.n }}"},
    }
    result = {"sum": "{{ steps.map.result | map(attribute='data.n') | sum }}"}
    return written(f"calls_{items}", {"executor": {"spec": {"result": result}}, "workflow": [step]})


def written(name: str, parts: Mapping[str, object]) -> str:
    """Return the document of a playbook with these parts behind its head."""
    return HEAD.format(name=name) + "".join(f"{key}: {json.dumps(value)}\n" for key, value in parts.items())
