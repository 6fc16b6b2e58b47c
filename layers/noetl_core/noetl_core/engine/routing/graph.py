"""The playbook as a Petri net: which steps can reach which, without back edges (resolution 13)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from graphlib import TopologicalSorter
from operator import and_

from noetl_core.dsl.derived import derived
from noetl_core.dsl.model import Playbook, Step

Edges = Mapping[str, tuple[str, ...]]


def edges_of(playbook: Playbook) -> Edges:
    """Return the names of the steps to which the arcs of each step lead, in arc order."""
    return {s.name: tuple(a.step for a in s.router.arcs) if s.router else () for s in playbook.steps}


def forward_edges(edges: Edges, roots: tuple[str, ...]) -> Edges:
    """Return `edges` without back edges. A back edge leads to a step on the current path of a depth-first search from
    `roots`, and then from each remaining step."""
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


def back_edges(edges: Edges, forward: Edges) -> set[tuple[str, str]]:
    """Return the edges that `forward_edges` leaves out."""
    return {(name, target) for name, targets in edges.items() for target in targets if target not in forward[name]}


def dominators(edges: Edges, forward: Edges, root: str, bits: Mapping[str, int]) -> Mapping[str, int]:
    """Return for each step those of `bits` that every path from `root` to it contains, the step itself included."""
    before: dict[str, list[str]] = {name: [] for name in edges}
    for name, targets in edges.items():
        for target in targets:
            before[target].append(name)
    order = list(TopologicalSorter(forward).static_order())[::-1]  # sources first: almost always one round is enough
    found, changed = {root: bits.get(root, 0)}, True
    while changed:
        changed = False
        for name in order:
            known = [found[b] for b in before[name] if b in found]
            if name == root or not known:
                continue
            passed = reduce(and_, known) | bits.get(name, 0)
            if found.get(name) != passed:
                found[name], changed = passed, True
    return found


@derived
def next_rounds(playbook: Playbook) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return for each back arc, as (from, to), the joins of mode any or count whose next round begins with it: every path to
    the join goes through its target, or only the join leads to its source. Computed once per playbook."""
    joins = [step.name for step in joins_of(playbook) if step.join is not None and step.join.mode != "all"]
    edges = edges_of(playbook)
    forward = forward_edges(edges, (playbook.entry_step,)) if joins else edges
    back = back_edges(edges, forward)
    bit = {name: 1 << n for n, name in enumerate(dict.fromkeys([*joins, *(target for _, target in sorted(back))]))}
    over = dominators(edges, forward, playbook.entry_step, bit) if back else {}
    return {
        (name, target): begun
        for name, target in back
        if (begun := tuple(j for j in joins if over.get(j, 0) & bit[target] or over.get(name, 0) & bit[j]))
    }


@derived
def joins_of(playbook: Playbook) -> tuple[Step, ...]:
    """Return the steps with `spec.join`, in the order of the playbook."""
    return tuple(step for step in playbook.steps if step.join is not None)


@derived
def joins_below(playbook: Playbook) -> Mapping[str, int]:
    """Return for each step the joins that its tokens can still reach over forward edges, itself excluded, as bits in the
    order of `joins_of`. Computed once per playbook."""
    bit = {step.name: 1 << n for n, step in enumerate(joins_of(playbook))}
    edges = forward_edges(edges_of(playbook), (playbook.entry_step,))
    below: dict[str, int] = {}
    for name in TopologicalSorter(edges).static_order():  # targets first
        below[name] = 0
        for target in edges[name]:
            below[name] |= below[target] | bit.get(target, 0)
    return below
