"""Where the steps and arcs of a graph are drawn: steps in layers below the entry step, arcs as curves between them (the layered
layout of Sugiyama, simplified). `observe.svg` draws it, the API gives it to those who draw themselves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from noetl_core.observe.graph import Edge, Graph, Node

GAP_X, GAP_Y, MARGIN = 28.0, 26.0, 24.0
CHAR, LINE_HEIGHT, PADDING = 7.4, 17.0, 12.0
NARROWEST = 110.0
SELF = 22.0
"""How far the arc of a step to itself reaches out."""
SWEEPS, LARGE_SWEEPS, LARGE = 8, 3, 4_000
"""How often rows are put in order; of a graph with more boxes than `LARGE` less often."""
MAX_PASSED = 20_000
"""Places that arcs pass through, at most: the shortest arcs get theirs first. The others go straight to their target, across
what lies between."""
Point = tuple[float, float]


@dataclass(slots=True)
class Box:
    """A place in a layer: a step, or (`node` None) a point through which an arc passes; the first such point is wide enough
    for its label. `beside` is the space that is kept free to its right."""

    key: str
    layer: int
    width: float
    height: float
    node: Node | None = None
    beside: float = 0.0
    x: float = 0.0
    y: float = 0.0


class Layout:
    """Layers by the longest path from the entry step, order by the mean of the neighbours. Steps are in even layers, so that
    every arc passes through a place for its label. Back arcs are laid out as if they led down."""

    def __init__(self, graph: Graph, most: int | None = None) -> None:
        """`most`: characters of a text in a box that are shown."""
        self._graph = graph
        self._backward = _backward(graph)
        layers = self._layers()
        self.boxes = {n.step: _box(n, 2 * layers[n.step], most) for n in graph.nodes}
        self._ways: list[tuple[Edge, list[Box]]] = []
        ends: list[tuple[int, Edge, Box, Box]] = []
        for number, edge in enumerate(graph.edges):
            one, other = self.boxes[edge.source], self.boxes[edge.target]
            if one is other:
                one.beside = max(one.beside, SELF + len(edge.label) * CHAR)
            else:
                ends.append((number, edge, other, one) if number in self._backward else (number, edge, one, other))
        left = MAX_PASSED
        long = set()
        for number, _, one, other in sorted(ends, key=lambda end: end[3].layer - end[2].layer):
            left -= other.layer - one.layer - 1
            if left < 0:
                long.add(number)
        for number, edge, one, other in ends:
            last = one.layer + 2 if number in long else other.layer
            between = [Box(f"\0{number}.{layer}", layer, 8.0, 1.0) for layer in range(one.layer + 1, last)]
            between[0].width, between[0].height = max(8.0, len(edge.label) * CHAR), LINE_HEIGHT
            self.boxes.update({b.key: b for b in between})
            self._ways.append((edge, [one, *between, other]))
        self._rows: list[list[Box]] = [[] for _ in range(1 + max((b.layer for b in self.boxes.values()), default=0))]
        for box in self.boxes.values():
            self._rows[box.layer].append(box)

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
        """Give every box its place; return the size of the drawing."""
        above: dict[str, list[Box]] = {key: [] for key in self.boxes}
        below: dict[str, list[Box]] = {key: [] for key in self.boxes}
        for _, way in self._ways:
            for one, other in pairwise(way):
                below[one.key].append(other)
                above[other.key].append(one)
        for row in self._rows:
            self._pack(row, [0.0] * len(row))
        for sweep in range(SWEEPS if len(self.boxes) <= LARGE else LARGE_SWEEPS):
            rows = self._rows[1:] if sweep % 2 == 0 else self._rows[-2::-1]
            near = above if sweep % 2 == 0 else below
            for row in rows:
                wanted = {b.key: _mean(near[b.key], b) for b in row}
                row.sort(key=lambda b: wanted[b.key])
                self._pack(row, [wanted[b.key] for b in row])
        y = MARGIN
        for row in self._rows:
            tall = max(b.height for b in row) if row else 0.0
            for box in row:
                box.y = y + (tall - box.height) / 2
            y += tall + GAP_Y
        left = min((b.x for b in self.boxes.values()), default=0.0)
        for box in self.boxes.values():
            box.x += MARGIN - left
        right = max((b.x + b.width + b.beside for b in self.boxes.values()), default=0.0)
        return right + MARGIN, y - GAP_Y + MARGIN

    @staticmethod
    def _pack(row: list[Box], wanted: list[float]) -> None:
        """Place the boxes of a row side by side, each as near to its wanted centre as its neighbours allow."""
        x = float("-inf")
        for box, middle in zip(row, wanted, strict=True):
            box.x = max(middle - box.width / 2, x)
            x = box.x + box.width + box.beside + GAP_X
        if row:
            shift = sum(b.x + b.width / 2 - w for b, w in zip(row, wanted, strict=True)) / len(row)
            for box in row:
                box.x -= shift

    @property
    def layers(self) -> int:
        """How many layers of steps there are."""
        return (len(self._rows) + 1) // 2

    def arcs(self) -> list[tuple[Edge, list[Point], Point]]:
        """Yield every arc with the points through which it goes, and the centre of its label."""
        out: list[tuple[Edge, list[Point], Point]] = []
        for edge in self._graph.edges:
            box = self.boxes[edge.source]
            if edge.source == edge.target:
                x, low, high = box.x + box.width, box.y + box.height * 0.75, box.y + box.height * 0.25
                label = (x + SELF + len(edge.label) * CHAR / 2, box.y + box.height / 2)
                out.append((edge, [(x, low), (x + SELF, low), (x + SELF, high), (x, high)], label))
        for edge, (one, *between, other) in self._ways:
            points = [(one.x + one.width / 2, one.y + one.height)]
            points += [(b.x + b.width / 2, b.y + b.height / 2) for b in between]
            points.append((other.x + other.width / 2, other.y))
            out.append((edge, points if one.key == edge.source else points[::-1], points[1]))
        return out


def _backward(graph: Graph) -> set[int]:
    """Return the back arcs by number: those that lead to a step on the current path of a depth-first search from the entry
    (no recursion)."""
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
    wide = max(len(text[:most]) for text in (node.step, *node.lines))
    return Box(node.step, layer, max(NARROWEST, wide * CHAR + 2 * PADDING), (1 + len(node.lines)) * LINE_HEIGHT + PADDING, node)


def _mean(near: list[Box], box: Box) -> float:
    return sum(b.x + b.width / 2 for b in near) / len(near) if near else box.x + box.width / 2


def placed(graph: Graph, most: int) -> dict[str, Any]:
    """Return the graph as data, with the places of its steps and arcs; texts in boxes have at most `most` characters."""
    layout = Layout(graph, most)
    width, height = layout.place()
    found = graph.as_dict()
    for node in found["nodes"]:
        box = layout.boxes[node["step"]]
        node |= {"x": round(box.x, 1), "y": round(box.y, 1), "width": round(box.width, 1), "height": round(box.height, 1)}
    ways = {(edge.source, edge.arc): (points, label) for edge, points, label in layout.arcs()}
    for edge in found["edges"]:
        points, (x, y) = ways[edge["source"], edge["arc"]]
        edge["points"] = [[round(x, 1), round(y, 1)] for x, y in points]
        edge["label"] = [round(x, 1), round(y, 1)]
        if points[0][1] > points[-1][1]:
            edge["back"] = True
    found["layout"] = {"width": round(width, 1), "height": round(height, 1), "layers": layout.layers}
    return found
