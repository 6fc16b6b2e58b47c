"""The playbook as a Petri net's skeleton: which steps can still reach which, with back-edges taken out (resolution 13)."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import TopologicalSorter

from noetl_core.dsl.model import Playbook, Step

Edges = Mapping[str, tuple[str, ...]]


def edges_of(playbook: Playbook) -> Edges:
    """Step name -> names its arcs lead to, in arc order."""
    return {s.name: tuple(a.step for a in s.router.arcs) if s.router else () for s in playbook.steps}


def forward_edges(edges: Edges, roots: tuple[str, ...]) -> Edges:
    """`edges` without back-edges: those that lead to a step on the depth-first path from `roots` (then from any step left)."""
    kept: dict[str, list[str]] = {name: [] for name in edges}
    state: dict[str, int] = {}  # 1 on the path, 2 finished
    for root in (*roots, *edges):
        if root in state or root not in edges:
            continue
        path = [(root, iter(edges[root]))]
        state[root] = 1
        while path:
            name, targets = path[-1]
            target = next(targets, None)
            if target is None:
                state[name] = 2
                path.pop()
            elif target in edges and state.get(target) != 1:
                kept[name].append(target)
                if target not in state:
                    state[target] = 1
                    path.append((target, iter(edges[target])))
    return {name: tuple(targets) for name, targets in kept.items()}


def joins_of(playbook: Playbook) -> tuple[Step, ...]:
    """The steps with `spec.join`, in the playbook's order."""
    if "joins" not in playbook.memo:
        playbook.memo["joins"] = tuple(step for step in playbook.steps if step.join is not None)
    joins: tuple[Step, ...] = playbook.memo["joins"]
    return joins


def joins_below(playbook: Playbook) -> Mapping[str, int]:
    """Step name -> the joins that its tokens can still reach over forward edges (itself excluded), as bits in the order of
    `joins_of`. Found once per playbook."""
    if "joins_below" not in playbook.memo:
        bit = {step.name: 1 << n for n, step in enumerate(joins_of(playbook))}
        edges = forward_edges(edges_of(playbook), (playbook.entry_step,))
        below: dict[str, int] = {}
        for name in TopologicalSorter(edges).static_order():  # targets first
            below[name] = 0
            for target in edges[name]:
                below[name] |= below[target] | bit.get(target, 0)
        playbook.memo["joins_below"] = below
    found: Mapping[str, int] = playbook.memo["joins_below"]
    return found
