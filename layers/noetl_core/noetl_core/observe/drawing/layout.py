"""Computes the positions of a graph's steps and arcs: steps in layers below the entry step, arcs as curves between them (the
layered layout of Sugiyama, simplified). `observe.drawing.svg` draws it; the API returns it to clients that draw themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from noetl_core.observe.drawing.graph import Edge, Graph, Node
from noetl_core.values.frozen import frozen

GAP_X, GAP_Y, MARGIN = 28.0, 26.0, 24.0
CHAR, LINE_HEIGHT, PADDING = 7.4, 17.0, 12.0
NARROWEST = 110.0
SELF = 22.0
"""Width of the arc from a step to itself."""
SWEEPS, LARGE_SWEEPS, LARGE = 8, 3, 4_000
"""Number of times that rows are put in order; lower for a graph with more boxes than `LARGE`."""
MAX_PASSED = 20_000
"""Maximum number of points that arcs pass through.

The shortest arcs get theirs first; the others go straight to their target, across boxes in between.
"""
WIDEST_STATUS, WIDEST_COUNTS, WIDEST_FIRED = "waiting, 10 runs", "10000/10000 iterations", 100
"""The widest texts of a step and of an arc that has run."""
Point = tuple[float, float]


@dataclass(slots=True, eq=False)
class Box:
    """A place in a layer: a step, or (`node` None) a point through which an arc passes; the first such point is wide enough for
    its label. `beside` is the space that is kept free to its right, `middle` the x of its centre."""

    layer: int
    width: float
    height: float
    node: Node | None = None
    beside: float = 0.0
    middle: float = 0.0
    y: float = 0.0
    target: float = 0.0
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)

    @property
    def x(self) -> float:
        return self.middle - self.width / 2


class Layout:
    """Layers by the longest path from the entry step, order by the mean of the neighbours.

    Steps are in even layers, so that every arc passes through a place for its label. Back arcs are laid out in the reverse
    direction.
    """

    def __init__(self, graph: Graph, most: int | None = None) -> None:
        """`most` is the maximum number of characters of a text in a box."""
        self._graph = graph
        self._backward = _backward(graph)
        layers = self._layers()
        self.boxes = {n.step: _box(n, 2 * layers[n.step], most) for n in graph.nodes}
        self._rows: list[list[Box]] = [[] for _ in range(1 + max((b.layer for b in self.boxes.values()), default=0))]
        for box in self.boxes.values():
            self._rows[box.layer].append(box)
        ends: list[tuple[Box, Box] | None] = []
        """The upper and the lower box of each arc; None if it leads to its own step."""
        for number, edge in enumerate(graph.edges):
            one, other = self.boxes[edge.source], self.boxes[edge.target]
            if one is other:
                one.beside = max(one.beside, SELF + len(edge.label) * CHAR)
                ends.append(None)
            else:
                ends.append((other, one) if number in self._backward else (one, other))
        long = _long(ends)
        self._ways = [
            None if both is None else self._way(*both, len(edge.label) * CHAR, number in long)
            for number, (edge, both) in enumerate(zip(graph.edges, ends, strict=True))
        ]

    def _way(self, one: Box, other: Box, label: float, long: bool) -> list[Box]:
        """Return the boxes through which an arc leads, with those of its ends."""
        way = [one]
        for layer in range(one.layer + 1, one.layer + 2 if long else other.layer):
            box = Box(layer, 8.0, 1.0) if len(way) > 1 else Box(layer, max(8.0, label), LINE_HEIGHT)
            self._rows[layer].append(box)
            way.append(box)
        way.append(other)
        for upper, lower in pairwise(way):
            upper.below.append(lower)
            lower.above.append(upper)
        return way

    def _layers(self) -> dict[str, int]:
        ahead: dict[str, list[str]] = {n.step: [] for n in self._graph.nodes}
        into = dict.fromkeys(ahead, 0)
        for number, edge in enumerate(self._graph.edges):
            if number not in self._backward:
                ahead[edge.source].append(edge.target)
                into[edge.target] += 1
        layers = dict.fromkeys(ahead, 0)
        ready = [step for step, count in into.items() if count == 0]
        for step in ready:
            for target in ahead[step]:
                layers[target] = max(layers[target], layers[step] + 1)
                into[target] -= 1
                if into[target] == 0:
                    ready.append(target)
        return layers

    def place(self) -> tuple[float, float]:
        """Place every box; return the size of the drawing."""
        for row in self._rows:
            _pack(row)
        sweeps = SWEEPS if self.count <= LARGE else LARGE_SWEEPS
        for sweep in range(sweeps):
            down = sweep % 2 == 0
            for row in self._rows[1:] if down else self._rows[-2::-1]:
                for box in row:
                    near = box.above if down else box.below
                    if len(near) == 1:
                        box.target = near[0].middle
                    else:
                        box.target = sum([other.middle for other in near]) / len(near) if near else box.middle
                row.sort(key=_target)
                _pack(row)
        y = MARGIN
        for row in self._rows:
            tall = max((b.height for b in row), default=0.0)
            for box in row:
                box.y = y + (tall - box.height) / 2
            y += tall + GAP_Y
        left = min((b.x for row in self._rows for b in row), default=0.0)
        right = 0.0
        for row in self._rows:
            for box in row:
                box.middle += MARGIN - left
                right = max(right, box.middle + box.width / 2 + box.beside)
        return right + MARGIN, y - GAP_Y + MARGIN

    @property
    def count(self) -> int:
        """Return the number of boxes, including those through which arcs pass."""
        return sum(map(len, self._rows))

    @property
    def layers(self) -> int:
        """Return the number of layers of steps."""
        return (len(self._rows) + 1) // 2

    def clear(self) -> None:
        """Forget the neighbours of boxes: they refer to each other, so memory would be freed late."""
        for row in self._rows:
            for box in row:
                box.above, box.below = [], []

    def arcs(self) -> list[tuple[Edge, list[Point], Point]]:
        """Return every arc with the points through which it goes, and the centre of its label."""
        out: list[tuple[Edge, list[Point], Point]] = []
        for edge, way in zip(self._graph.edges, self._ways, strict=True):
            box = self.boxes[edge.source]
            if way is None:
                x, low, high = box.x + box.width, box.y + box.height * 0.75, box.y + box.height * 0.25
                label = (x + SELF + len(edge.label) * CHAR / 2, box.y + box.height / 2)
                out.append((edge, [(x, low), (x + SELF, low), (x + SELF, high), (x, high)], label))
                continue
            one, other = way[0], way[-1]
            points = [(b.middle, b.y + b.height / 2) for b in way]
            points[0], points[-1] = (one.middle, one.y + one.height), (other.middle, other.y)
            out.append((edge, points if one is box else points[::-1], points[1]))
        return out


def _target(box: Box) -> float:
    return box.target


def _pack(row: list[Box]) -> None:
    """Place the boxes of a row side by side, each with its centre as close to the wanted position as its neighbours allow."""
    x, shift = float("-inf"), 0.0
    for box in row:
        half = box.width / 2
        box.middle = middle = box.target if box.target - half > x else x + half
        shift += middle - box.target
        x = middle + half + box.beside + GAP_X
    if shift:
        shift /= len(row)
        for box in row:
            box.middle -= shift


def _long(ends: Sequence[tuple[Box, Box] | None]) -> set[int]:
    """Return the arcs, by number, that exceed the budget of points: the longest ones."""
    left, long = MAX_PASSED, set()
    spans = [(both[1].layer - both[0].layer, number) for number, both in enumerate(ends) if both is not None]
    for span, number in sorted(spans):
        left -= span - 1
        if left < 0:
            long.add(number)
    return long


def _backward(graph: Graph) -> set[int]:
    """Return the back arcs by number: those that lead to a step on the current path of a depth-first search from the entry (no
    recursion)."""
    ahead: dict[str, list[tuple[int, str]]] = {n.step: [] for n in graph.nodes}
    for number, edge in enumerate(graph.edges):
        ahead[edge.source].append((number, edge.target))
    found: set[int] = set()
    seen: set[str] = set()
    for first in sorted(graph.nodes, key=lambda n: not n.entry):
        if first.step in seen:
            continue
        on_way = {first.step}
        seen.add(first.step)
        stack = [(first.step, iter(ahead[first.step]))]
        while stack:
            step, rest = stack[-1]
            for number, target in rest:
                if target in on_way:
                    found.add(number)
                elif target not in seen:
                    seen.add(target)
                    on_way.add(target)
                    stack.append((target, iter(ahead[target])))
                    break
            else:
                on_way.discard(step)
                stack.pop()
    return found


def _box(node: Node, layer: int, most: int | None) -> Box:
    wide = max(len(text[:most]) for text in (node.label, *node.lines))
    return Box(layer, max(NARROWEST, wide * CHAR + 2 * PADDING), (1 + len(node.lines)) * LINE_HEIGHT + PADDING, node)


@frozen
class Places:
    """Positions of the steps and arcs of a graph, in its order, in whole pixels."""

    steps: tuple[Mapping[str, int], ...]
    arcs: tuple[Mapping[str, Any], ...]
    whole: Mapping[str, int]


def places_of(graph: Graph, most: int) -> Places:
    """Return the positions of steps and arcs; texts in boxes have at most `most` characters."""
    layout = Layout(graph, most)
    width, height = layout.place()
    boxes = [layout.boxes[node.step] for node in graph.nodes]
    steps = tuple({"x": round(b.x), "y": round(b.y), "width": round(b.width), "height": round(b.height)} for b in boxes)
    arcs = tuple([_arc(points, label) for _, points, label in layout.arcs()])
    layout.clear()
    return Places(steps, arcs, {"width": round(width), "height": round(height), "layers": layout.layers})


def _arc(points: list[Point], label: Point) -> dict[str, Any]:
    found = {"points": [[round(x), round(y)] for x, y in points], "label": [round(label[0]), round(label[1])]}
    return found | {"back": True} if points[0][1] > points[-1][1] else found


def placed(graph: Graph, places: Places) -> dict[str, Any]:
    """Return the graph as data, with the positions of its steps and arcs."""
    found = graph.as_dict()
    for node, place in zip(found["nodes"], places.steps, strict=True):
        node |= place
    for edge, place in zip(found["edges"], places.arcs, strict=True):
        edge |= place
    found["layout"] = dict(places.whole)
    return found


def with_room(graph: Graph) -> Graph:
    """Return the graph of a playbook with the widest texts of its boxes and arcs, so that no step moves when it runs."""
    nodes = [
        Node(n.step, n.entry, (*n.lines, WIDEST_STATUS, *([WIDEST_COUNTS] if "loop" in n.facts else [])), facts=n.facts)
        for n in graph.nodes
    ]
    edges = [Edge(e.source, e.target, e.arc, e.when, WIDEST_FIRED, e.otherwise) for e in graph.edges]
    return Graph(graph.title, tuple(nodes), tuple(edges))


def with_lines_of(graph: Graph, whole: Graph) -> Graph:
    """Return a folded graph whose steps have the texts of the playbook alone, for a layout that does not depend on progress."""
    lines = {node.step: node.lines for node in whole.nodes}
    return replace(graph, nodes=tuple([replace(node, lines=lines.get(node.step, node.lines[:1])) for node in graph.nodes]))
