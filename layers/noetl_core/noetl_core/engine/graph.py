"""The playbook as a Petri net's skeleton: which steps can still reach which, with back-edges taken out (resolution 13)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from noetl_core.dsl.model import Playbook

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


@lru_cache(maxsize=64)
def _reachable(edges: tuple[tuple[str, tuple[str, ...]], ...]) -> Mapping[str, frozenset[str]]:
    table = dict(edges)
    done: dict[str, frozenset[str]] = {}
    for root in table:
        stack = [root]
        while stack:
            name = stack[-1]
            if name in done:
                stack.pop()
                continue
            missing = [t for t in table[name] if t not in done]
            if missing:
                stack.extend(missing)
                continue
            done[name] = frozenset(table[name]).union(*(done[t] for t in table[name]))
            stack.pop()
    return done


def reachable(playbook: Playbook) -> Mapping[str, frozenset[str]]:
    """Step name -> every step its token could still reach over forward edges (itself excluded)."""
    kept = forward_edges(edges_of(playbook), (playbook.entry_step,))
    return _reachable(tuple((name, tuple(dict.fromkeys(targets))) for name, targets in kept.items()))
