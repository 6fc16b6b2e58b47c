"""Folds parallel branches of a large graph: those of one step that lead to the same steps become one node."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from noetl_core.observe.drawing.graph import Edge, Graph, Node

LARGE: Final = 40
"""Graphs with fewer steps are not folded."""
BRANCHES: Final = 4
"""Minimum number of branches that are folded."""
LONGEST: Final = 40
"""Maximum number of steps of a branch that is folded."""
KEPT: Final = 3
"""Maximum number of failed branches of a step that stay unfolded, and of open ones."""
PREFIX: Final = "+"
"""Names of nodes that stand for branches begin with this; the step that they leave follows."""
ORDER: Final = ("error", "running", "waiting", "ok", "skipped")
"""Statuses: branches have the first that one of their steps has."""
ALL: Final = "*"
Branch = tuple[str, ...]


def folded(graph: Graph, unfold: Collection[str] = ()) -> Graph:
    """Return the graph with its parallel branches folded; failed and open ones are kept.

    `unfold` names steps whose branches are all kept, or steps in branches that are kept; `ALL` keeps all.
    """
    if len(graph.nodes) < LARGE or ALL in unfold:
        return graph
    into, ahead = _neighbours(graph)
    nodes = {node.step: node for node in graph.nodes}
    folds: dict[str, tuple[Branch, ...]] = {}
    forks: dict[str, str] = {}
    gone: dict[str, str] = {}
    for fork in graph.nodes:
        if fork.step in gone or fork.step in unfold:
            continue
        groups: dict[frozenset[str], list[Branch]] = {}
        if len(ahead[fork.step]) >= BRANCHES:
            for first in ahead[fork.step]:
                branch = _branch(first, fork.step, into, ahead)
                if branch and not any(step in gone or step in unfold for step in branch):
                    groups.setdefault(_exits(branch, ahead), []).append(branch)
        for number, branches in enumerate(groups.values()):
            hidden = [*_hidden(branches, nodes)]
            if len(hidden) >= BRANCHES:
                name = PREFIX + fork.step + ("" if number == 0 else f" {number + 1}")
                while name in nodes:
                    name = PREFIX + name
                folds[name], forks[name] = tuple(hidden), fork.step
                gone |= {step: name for branch in hidden for step in branch}
    return _drawn(graph, nodes, folds, forks, gone) if folds else graph


def _neighbours(graph: Graph) -> tuple[dict[str, set[str]], dict[str, list[str]]]:
    """Return the steps before and behind each step, without arcs of steps to themselves."""
    into: dict[str, set[str]] = {node.step: set() for node in graph.nodes}
    ahead: dict[str, list[str]] = {node.step: [] for node in graph.nodes}
    for edge in graph.edges:
        if edge.source != edge.target and edge.source not in into[edge.target]:
            into[edge.target].add(edge.source)
            ahead[edge.source].append(edge.target)
    return into, ahead


def _branch(first: str, fork: str, into: dict[str, set[str]], ahead: dict[str, list[str]]) -> Branch:
    """Return the steps that are reached only through `first`, in the order of tokens; none if others lead to it or there are too
    many."""
    if into[first] != {fork}:
        return ()
    found = {first: None}
    for step in (order := [first]):
        for target in ahead[step]:
            if target not in found and target != fork and into[target] <= found.keys():
                found[target] = None
                order.append(target)
        if len(order) > LONGEST:
            return ()
    return tuple(order)


def _exits(branch: Branch, ahead: dict[str, list[str]]) -> frozenset[str]:
    within = set(branch)
    return frozenset(target for step in branch for target in ahead[step] if target not in within)


def _status(steps: Collection[str], nodes: dict[str, Node]) -> str | None:
    found = {nodes[step].status for step in steps}
    return next((status for status in ORDER if status in found), None)


def _hidden(branches: list[Branch], nodes: dict[str, Node]) -> Iterator[Branch]:
    """Yield the branches to fold: all but a few that failed, and a few that are open."""
    kept = {"error": KEPT, "running": KEPT, "waiting": KEPT}
    for branch in branches:
        status = _status(branch, nodes) or ""
        if kept.get(status, 0) > 0:
            kept[status] -= 1
        else:
            yield branch


def _drawn(
    graph: Graph, nodes: dict[str, Node], folds: dict[str, tuple[Branch, ...]], forks: dict[str, str], gone: dict[str, str]
) -> Graph:
    drawn, done = [], set()
    for node in graph.nodes:
        name = gone.get(node.step)
        if name is None:
            drawn.append(node)
        elif name not in done:
            done.add(name)
            drawn.append(_node(name, forks[name], folds[name], nodes))
    edges: dict[tuple[str, str], Edge] = {}
    out = []
    for edge in graph.edges:
        source, target = gone.get(edge.source, edge.source), gone.get(edge.target, edge.target)
        if (source, target) == (edge.source, edge.target):
            out.append(edge)
        elif source != target:
            known = edges.get((source, target))
            before = known.of if known is not None else ()
            fired = None if edge.fired is None else edge.fired + ((known.fired or 0) if known is not None else 0)
            edges[source, target] = Edge(source, target, edge.arc, fired=fired, of=(*before, (edge.source, edge.arc)))
    return Graph(graph.title, tuple(drawn), (*out, *edges.values()))


def _node(name: str, fork: str, branches: tuple[Branch, ...], nodes: dict[str, Node]) -> Node:
    """Return the node that stands for branches."""
    steps = [nodes[step] for branch in branches for step in branch]
    status = _status([node.step for node in steps], nodes)
    failed = sum(node.status == "error" for node in steps)
    lines = [f"{len(steps)} steps", *([status] if status else []), *([f"{failed} failed"] if failed else [])]
    facts: dict[str, Any] = {
        "kinds": [],
        "tasks": 0,
        "branches": len(branches),
        "fork": fork,
        "steps": [_data(node) for node in steps],
    }
    return Node(name, lines=tuple(lines), status=status, runs=sum(node.runs for node in steps), facts=facts)


def _data(node: Node) -> dict[str, Any]:
    return {"step": node.step, "entry": node.entry, "status": node.status, "runs": node.runs, **node.facts}
