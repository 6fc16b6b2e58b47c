"""A graph as SVG, drawn where `observe.layout` places it."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from noetl_core.observe.graph import FILL, LINE, PLAIN_FILL, PLAIN_LINE, Edge, Graph
from noetl_core.observe.layout import CHAR, LINE_HEIGHT, PADDING, Box, Layout, Point

FONT = "font-family='Helvetica,Arial,sans-serif' font-size='13'"


def svg(graph: Graph) -> str:
    """Return the drawing, with a title of its own; texts are escaped."""
    layout = Layout(graph)
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
