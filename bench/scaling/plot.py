"""Line charts as SVG: a few series over seconds, in one file that any browser shows."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from math import ceil, log10

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 44, 32
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df")
Series = Mapping[int, float]


def chart(title: str, unit: str, series: Mapping[str, Series]) -> str:
    """Return a chart of `series` by name, each a value by second."""
    last = max((max(points, default=1) for points in series.values()), default=1) or 1
    top = _rounded(max((max(points.values(), default=0) for points in series.values()), default=1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="16" font-size="13" fill="#1f2328">{escape(title)}</text>',
    ]
    for part in range(5):
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part / 4
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#57606a">{top * part / 4:,g}</text>')
        x = LEFT + (WIDTH - LEFT - RIGHT) * part / 4
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle" fill="#57606a">{last * part / 4:.0f} s</text>')
    parts.append(f'<text x="6" y="{TOP - 8}" fill="#57606a">{escape(unit)}</text>')
    x = LEFT
    for (name, points), colour in zip(series.items(), COLOURS, strict=False):
        line = " ".join(f"{_x(second, last):.1f},{_y(value, top):.1f}" for second, value in sorted(points.items()))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{x}" y="32" fill="{colour}">{escape(name)}</text>')
        x += 24 + 6 * len(name)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(second: float, last: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * second / last


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top


def _rounded(value: float) -> float:
    """The next round value divisible by four."""
    if value <= 0:
        return 1.0
    step = 10.0 ** (ceil(log10(value)) - 1)
    return next(step * n for n in (1, 2, 4, 6, 8, 10) if step * n >= value)
