"""Draws a graph as SVG, where `observe.drawing.layout` places it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise
from typing import Final

from noetl_core.observe.drawing.graph import FILL, LINE, MARKS, PLAIN_FILL, PLAIN_LINE, Edge, Graph
from noetl_core.observe.drawing.layout import CHAR, LINE_HEIGHT, PADDING, Box, Layout, Point
from noetl_core.values.frozen import frozen

FONT = "text-anchor='middle' font-family='Helvetica,Arial,sans-serif' font-size='13'"
DARK_FILL: Final = {"ok": "#0c3b2e", "error": "#4a2008", "running": "#0d3350", "waiting": "#3d3208", "skipped": "#303036"}
DARK_LINE: Final = {"ok": "#4fd1a5", "error": "#ff9a5c", "running": "#7cc0f5", "waiting": "#f2cf5b", "skipped": "#9a9aa5"}


TARGET: Final = ".step:target rect{stroke-width:4}"
"""Highlights a step to which a link has led."""


def _style(page: str, ink: str, soft: str, line: str, fills: Mapping[str, str], lines: Mapping[str, str]) -> str:
    """Return the rules of one mode."""
    kinds = "".join(f".{kind} rect{{fill:{fills[kind]};stroke:{lines[kind]}}}" for kind in fills)
    return (
        f".page{{fill:{page}}}.step rect{{fill:{page};stroke:{line}}}{kinds}.arc{{fill:none;stroke:{line}}}.tip{{fill:{line}}}"
        f"text{{fill:{soft}}}.name{{fill:{ink};font-weight:bold}}.label{{fill:{ink}}}"
    )


STYLE: Final = (
    _style(PLAIN_FILL, "#1c1c21", "#55555f", PLAIN_LINE, FILL, LINE)
    + "@media (prefers-color-scheme:dark){"
    + _style("#17171b", "#ececf1", "#b4b4c0", "#a3a3b0", DARK_FILL, DARK_LINE)
    + "}"
    + TARGET
)
"""Rules for light mode, and for dark mode where the reader's system is dark."""


def svg(graph: Graph) -> str:
    """Return the drawing, with a title of its own; texts are escaped."""
    layout = Layout(graph)
    width, height = layout.place()
    arcs = layout.arcs()
    numbers = {node.step: number for number, node in enumerate(graph.nodes)}
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0f} {height:.0f}' width='{width:.0f}' role='group'>",
        f"<title>{escape(graph.title)}</title>",
        f"<style>{STYLE}</style>",
        "<defs><marker id='tip' viewBox='0 0 10 10' refX='9' refY='5' orient='auto'",
        " markerUnits='userSpaceOnUse' markerWidth='9' markerHeight='9'>",
        "<path class='tip' d='M0 0L10 5L0 10z'/></marker></defs>",
        f"<rect class='page' width='{width:.0f}' height='{height:.0f}'/>",
    ]
    out += [f"<path class='arc' {_path(edge, points)}/>" for edge, points, _ in arcs]
    out += [_arc(edge, numbers, middle) for edge, _, middle in arcs]
    out += [_step(number, layout.boxes[node.step]) for number, node in enumerate(graph.nodes)]
    return "\n".join([*out, "</svg>"]) + "\n"


def _step(number: int, box: Box) -> str:
    node = box.node
    assert node is not None
    middle = box.x + box.width / 2
    place = f"x='{box.x:.1f}' y='{box.y:.1f}' width='{box.width:.1f}' height='{box.height:.1f}'"
    kind = f"step {node.status}" if node.status in FILL else "step"
    title = escape("\n".join((node.label, *node.lines)))
    out = [
        f"<g id='step-{number}' class='{kind}' data-step='{escape(node.step, quote=True)}'><title>{title}</title>",
        f"<a href='#step-{number}'><rect {place} rx='8' stroke-width='{2.5 if node.entry else 1.2}'/>",
    ]
    for row, text in enumerate((node.label, *node.lines)):
        y = box.y + PADDING / 2 + LINE_HEIGHT * (row + 0.75)
        name = " class='name'" if row == 0 else ""
        mark = f"{MARKS[node.status]} " if row and node.status in MARKS and text.partition(",")[0] == node.status else ""
        out.append(f"<text x='{middle:.1f}' y='{y:.1f}' {FONT}{name}>{mark}{escape(text)}</text>")
    return "\n".join([*out, "</a></g>"])


def _path(edge: Edge, points: list[Point]) -> str:
    dashes = " stroke-dasharray='5 4'" if edge.fired == 0 else ""
    width = 2.2 if edge.fired else 1.2
    return f"d='{_curve(points)}' stroke-width='{width}'{dashes} marker-end='url(#tip)'"


def _arc(edge: Edge, numbers: Mapping[str, int], middle: Point) -> str:
    """Return the parts of an arc besides its curve: a title, and its label, which links to its target."""
    names = f"data-source='{escape(edge.source, quote=True)}' data-target='{escape(edge.target, quote=True)}'"
    when = f": {escape(edge.condition)}" if edge.condition else ""
    title = f"<title>{escape(edge.source)} to {escape(edge.target)}{when}</title>"
    label = f"<a href='#step-{numbers[edge.target]}'>{_label(edge, middle)}</a>" if edge.label else ""
    return f"<g id='arc-{numbers[edge.source]}-{edge.arc}' {names}>{title}{label}</g>"


def _label(edge: Edge, middle: Point) -> str:
    (x, y), width = middle, len(edge.label) * CHAR
    ground = f"<rect class='page' x='{x - width / 2:.1f}' y='{y - 9:.1f}' width='{width:.1f}' height='18' opacity='0.85'/>"
    return f"{ground}<text class='label' x='{x:.1f}' y='{y + 4.5:.1f}' {FONT}>{escape(edge.label)}</text>"


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


@frozen
class Drawn:
    """A step of a drawing: its id, its status (empty: not reached), its name as escaped text, and its place."""

    id: str
    status: str
    name: str
    x: float
    y: float
    width: float
    height: float


_STEP = re.compile(
    r"<g id='(step-\d+)' class='step ?(\w*)' data-step='([^']*)'>.*?"
    r"<rect x='([\d.]+)' y='([\d.]+)' width='([\d.]+)' height='([\d.]+)'",
    re.DOTALL,
)


def steps_of(drawing: str) -> Iterator[Drawn]:
    """Yield the steps of a drawing that `svg` made."""
    for found in _STEP.finditer(drawing):
        name, status, step, *place = found.groups()
        yield Drawn(name, status, step, *map(float, place))
