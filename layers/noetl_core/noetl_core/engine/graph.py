"""The playbook as a Petri net's skeleton: which steps can still reach which, with back-edges taken out (resolution 13)."""

from __future__ import annotations

from collections.abc import Mapping

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


def leads_to(playbook: Playbook, target: str) -> frozenset[str]:
    """The steps whose token could still reach `target` over forward edges (itself excluded). Found once per playbook and step."""
    known: dict[str, frozenset[str]] = playbook.memo.setdefault("leads_to", {})
    if target not in known:
        sources = playbook.memo.get("sources")
        if sources is None:
            sources = playbook.memo["sources"] = _reversed(forward_edges(edges_of(playbook), (playbook.entry_step,)))
        found: set[str] = set()
        stack = [target]
        while stack:
            new = [name for name in sources.get(stack.pop(), ()) if name not in found]
            found.update(new)
            stack.extend(new)
        known[target] = frozenset(found - {target})
    return known[target]


def _reversed(edges: Edges) -> Mapping[str, list[str]]:
    sources: dict[str, list[str]] = {}
    for name, targets in edges.items():
        for target in dict.fromkeys(targets):
            sources.setdefault(target, []).append(name)
    return sources
