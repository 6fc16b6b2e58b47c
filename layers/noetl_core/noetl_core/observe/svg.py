"""A graph as SVG: steps in layers below the entry step, arcs as curves between them (the layered layout of Sugiyama,
simplified)."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise

from noetl_core.observe.graph import FILL, LINE, PLAIN_FILL, PLAIN_LINE, Edge, Graph, Node

GAP_X, GAP_Y, MARGIN = 28.0, 26.0, 24.0
CHAR, LINE_HEIGHT, PADDING = 7.4, 17.0, 12.0
SELF = 22.0
"""How far the arc of a step to itself reaches out."""
SWEEPS = 8
Point = tuple[float, float]
FONT = "font-family='Helvetica,Arial,sans-serif' font-size='13'"


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


def svg(graph: Graph) -> str:
    """Return the drawing, with a title of its own; texts are escaped."""
    layout = _Layout(graph)
    width, height = layout.place()
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0f} {height:.0f}' width='{width:.0f}'>",
        f"<title>{escape(graph.title)}</title>",
        "<defs><marker id='tip' viewBox='0 0 10 10' refX='9' refY='5' orient='auto'",
        " markerUnits='userSpaceOnUse' markerWidth='9' markerHeight='9'>",
        f"<path d='M0 0L10 5L0 10z' fill='{PLAIN_LINE}'/></marker></defs>",
        f"<rect width='{width:.0f}' height='{height:.0f}' fill='#ffffff'/>",
    ]
    out += [_arc(edge, points) for edge, points, _ in layout.arcs()]
    out += [_label(edge, middle) for edge, _, middle in layout.arcs() if edge.label]
    out += [_step(box) for box in layout.boxes.values() if box.node is not None]
    return "\n".join([*out, "</svg>"]) + "\n"


class _Layout:
    """Layers by the longest path from the entry step, order by the mean of the neighbours. Steps are in even layers, so that
    every arc passes through a place for its label. Back arcs are laid out as if they led down."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._backward = _backward(graph)
        layers = self._layers()
        self.boxes = {n.step: _box(n, 2 * layers[n.step]) for n in graph.nodes}
        self._ways: list[tuple[Edge, list[Box]]] = []
        for number, edge in enumerate(graph.edges):
            one, other = self.boxes[edge.source], self.boxes[edge.target]
            if one is other:
                one.beside = max(one.beside, SELF + len(edge.label) * CHAR)
                continue
            if number in self._backward:
                one, other = other, one
            between = [Box(f"\0{number}.{layer}", layer, 8.0, 1.0) for layer in range(one.layer + 1, other.layer)]
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
        for sweep in range(SWEEPS):
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


def _box(node: Node, layer: int) -> Box:
    wide = max(len(text) for text in (node.step, *node.lines))
    return Box(node.step, layer, wide * CHAR + 2 * PADDING, (1 + len(node.lines)) * LINE_HEIGHT + PADDING, node)


def _mean(near: list[Box], box: Box) -> float:
    return sum(b.x + b.width / 2 for b in near) / len(near) if near else box.x + box.width / 2


def _step(box: Box) -> str:
    node = box.node
    assert node is not None
    fill, line = FILL.get(node.status or "", PLAIN_FILL), LINE.get(node.status or "", PLAIN_LINE)
    middle = box.x + box.width / 2
    place = f"x='{box.x:.1f}' y='{box.y:.1f}' width='{box.width:.1f}' height='{box.height:.1f}'"
    out = [f"<rect {place} rx='8' fill='{fill}' stroke='{line}' stroke-width='{2.5 if node.entry else 1.2}'/>"]
    for number, text in enumerate((node.step, *node.lines)):
        y = box.y + PADDING / 2 + LINE_HEIGHT * (number + 0.75)
        weight = " font-weight='bold'" if number == 0 else " fill='#55555f'"
        out.append(f"<text x='{middle:.1f}' y='{y:.1f}' text-anchor='middle' {FONT}{weight}>{escape(text)}</text>")
    return "\n".join(out)


def _arc(edge: Edge, points: list[Point]) -> str:
    dashes = " stroke-dasharray='5 4'" if edge.fired == 0 else ""
    width = 2.2 if edge.fired else 1.2
    style = f"fill='none' stroke='{PLAIN_LINE}' stroke-width='{width}'{dashes} marker-end='url(#tip)'"
    return f"<path d='{_curve(points)}' {style}/>"


def _label(edge: Edge, middle: Point) -> str:
    (x, y), width = middle, len(edge.label) * CHAR
    ground = f"<rect x='{x - width / 2:.1f}' y='{y - 9:.1f}' width='{width:.1f}' height='18' fill='#ffffff' opacity='0.85'/>"
    return f"{ground}<text x='{x:.1f}' y='{y + 4.5:.1f}' text-anchor='middle' {FONT} fill='#33333a'>{escape(edge.label)}</text>"


def _curve(points: list[Point]) -> str:
    """Return a smooth path through the points: each piece leaves and arrives vertically, or goes straight across."""
    out = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x1, y1), (x2, y2) in pairwise(points):
        if abs(y2 - y1) > 1 and x1 != x2:
            half = (y1 + y2) / 2
            out += f"C{x1:.1f} {half:.1f} {x2:.1f} {half:.1f} {x2:.1f} {y2:.1f}"
        else:
            out += f"L{x2:.1f} {y2:.1f}"
    return out
