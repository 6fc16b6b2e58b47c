"""Algorithms on directed graphs with numbered nodes: reachability, strongly connected components, dominators. Nearly linear,
without recursion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

Graph = Sequence[Sequence[int]]
"""Node -> its successors."""

STEPS_PER_EDGE: Final = 200
"""The most steps up the dominator tree that an analysis may take, per edge of the net. Real nets need a few. A net constructed to
need more is not analysed."""


class OverBudget(Exception):
    """The analysis of the net would take too long. Nobody acts: rules that need it report nothing."""


def reachable(graph: Graph, roots: Iterable[int]) -> set[int]:
    """Return every node on a path from `roots`, with these."""
    seen = set(roots)
    stack = list(seen)
    while stack:
        for target in graph[stack.pop()]:
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return seen


def reversed_graph(graph: Graph) -> list[list[int]]:
    out: list[list[int]] = [[] for _ in graph]
    for node, targets in enumerate(graph):
        for target in targets:
            out[target].append(node)
    return out


def components(graph: Graph) -> list[list[int]]:
    """Return the strongly connected components (Tarjan), each after all those to which it leads."""
    order = [-1] * len(graph)
    low = [0] * len(graph)
    on_stack = [False] * len(graph)
    stack: list[int] = []
    out: list[list[int]] = []
    count = 0
    for root in range(len(graph)):
        if order[root] >= 0:
            continue
        order[root] = low[root] = count
        count += 1
        stack.append(root)
        on_stack[root] = True
        work = [(root, iter(graph[root]))]
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    for member in component:
                        on_stack[member] = False
                    out.append(component)
            elif order[target] < 0:
                order[target] = low[target] = count
                count += 1
                stack.append(target)
                on_stack[target] = True
                work.append((target, iter(graph[target])))
            elif on_stack[target]:
                low[node] = min(low[node], order[target])
    return out


def is_cycle(graph: Graph, component: Sequence[int]) -> bool:
    """Return whether a component contains a cycle: more than one node, or a node that leads to itself."""
    return len(component) > 1 or component[0] in graph[component[0]]


def _postorder(graph: Graph, root: int) -> list[int]:
    seen = {root}
    out: list[int] = []
    work = [(root, iter(graph[root]))]
    while work:
        node, targets = work[-1]
        target = next(targets, None)
        if target is None:
            work.pop()
            out.append(node)
        elif target not in seen:
            seen.add(target)
            work.append((target, iter(graph[target])))
    return out


class Dominators:
    """The nodes that every path from `root` to a node contains (Cooper, Harvey and Kennedy). Unreachable nodes are unknown.

    Methods that climb the tree raise `OverBudget` when they have climbed too much in total.
    """

    def __init__(self, graph: Graph, root: int) -> None:
        self._left = 10_000 + STEPS_PER_EDGE * sum(len(targets) for targets in graph)
        post = _postorder(graph, root)
        self.order = {node: i for i, node in enumerate(post)}
        """Place in the postorder of a depth-first walk: an ancestor's is higher."""
        self.above: dict[int, int] = {root: root}
        """Node -> the nearest node that dominates it; the root for itself."""
        self._span: dict[int, tuple[int, int]] = {}
        before = reversed_graph(graph)
        changed = True
        while changed:
            changed = False
            for node in reversed(post[:-1]):
                known = [p for p in before[node] if p in self.above]
                nearest = known[0]
                for p in known[1:]:
                    nearest = self.common(nearest, p)
                if self.above.get(node) != nearest:
                    self.above[node] = nearest
                    changed = True

    def common(self, a: int, b: int) -> int:
        """Return the nearest node that dominates both (a node dominates itself)."""
        order = self.order
        while a != b:
            while order[a] < order[b]:
                a = self.up(a)
            while order[b] < order[a]:
                b = self.up(b)
        return a

    def up(self, node: int) -> int:
        """Return the nearest node that dominates `node`."""
        self.spend(1)
        return self.above[node]

    def spend(self, steps: int) -> None:
        """Count steps of the analysis. Raises `OverBudget`."""
        self._left -= steps
        if self._left < 0:
            raise OverBudget

    def child_towards(self, top: int, node: int) -> int:
        """Return the node just below `top` on the path up from `node`; `node` itself when it is `top`."""
        while node != top and self.above[node] != top:
            node = self.up(node)
        return node

    def dominates(self, top: int, node: int) -> bool:
        """Return whether every path to `node` contains `top`."""
        if not self._span:
            self._number()
        if top not in self._span or node not in self._span:
            return False
        first, last = self._span[top]
        return first <= self._span[node][0] <= last

    def _number(self) -> None:
        """Number the tree of dominators: the nodes below a node have numbers between its first and last number."""
        below: dict[int, list[int]] = {node: [] for node in self.above}
        for node, above in self.above.items():
            if node != above:
                below[above].append(node)
        count = 0
        root = next(node for node, above in self.above.items() if node == above)
        work = [(root, iter(below[root]))]
        first = {root: count}
        while work:
            node, children = work[-1]
            child = next(children, None)
            if child is None:
                self._span[node] = (first[node], count)
                work.pop()
            else:
                count += 1
                first[child] = count
                work.append((child, iter(below[child])))
