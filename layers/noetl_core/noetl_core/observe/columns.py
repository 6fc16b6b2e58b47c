"""A tall layout folded into columns that are read one after the other, as those of a newspaper: a page instead of a strip."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from noetl_core.observe.graph import Edge
from noetl_core.observe.layout import GAP_Y, MARGIN, Layout, Point

TALLEST: Final = 1_200.0
"""A drawing that is no taller stays in one column."""
RATIO: Final = 1.4
"""Of a page's width to its height."""
GUTTER: Final = 36.0
LANE, LANES = 5.0, 12
"""Between two columns each arc has a lane of its own; where there are more arcs, they share lanes."""
Arc = tuple[Edge, list[Point], Point]


@dataclass(slots=True)
class _Column:
    """Where a column is in the layout, `left` to `right` and `top` to `bottom`; and by how much it is moved."""

    top: float
    bottom: float = 0.0
    left: float = math.inf
    right: float = -math.inf
    right_by: float = 0.0
    down_by: float = 0.0
    crossed: int = 0
    """Arcs between it and the columns behind it."""

    @property
    def lanes(self) -> float:
        return min(self.crossed, LANES) * LANE

    def moved(self, point: Point) -> Point:
        return point[0] + self.right_by, point[1] + self.down_by


class Columns:
    """A layout, placed and folded: its boxes have their places in the drawing, whose size is `width` and `height`."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.width, self.height = layout.place()
        self.arcs: list[Arc] = layout.arcs()
        self._columns = self._cut()
        self._tops = [column.top for column in self._columns]
        if len(self._columns) > 1:
            self._head = MARGIN
            self._fold()

    def _cut(self) -> list[_Column]:
        """Return columns of about one height; each begins with a layer of steps."""
        tops: dict[int, float] = {}
        for box in self._layout.boxes.values():
            tops[box.layer] = min(box.y, tops.get(box.layer, box.y))
        count = 1 if self.height <= TALLEST else max(round(math.sqrt(RATIO * self.height / (self.width + GUTTER))), 1)
        columns: list[_Column] = []
        for layer in sorted(tops):
            if not columns or (layer % 2 == 0 and tops[layer] - columns[-1].top >= self.height / count):
                columns.append(_Column(tops[layer]))
        return columns

    def _of(self, y: float) -> int:
        return max(bisect_right(self._tops, y) - 1, 0)

    def _fold(self) -> None:
        boxes = self._layout.boxes.values()
        for box in boxes:
            column = self._columns[self._of(box.y)]
            column.left, column.right = min(column.left, box.x), max(column.right, box.x + box.width + box.beside)
            column.bottom = max(column.bottom, box.y + box.height)
        for early, _ in self._crossings():
            self._columns[early].crossed += 1
        self._head += max(column.lanes for column in self._columns)
        x = MARGIN
        for column in self._columns:
            column.right_by, column.down_by = x - column.left, self._head - column.top
            x += column.right - column.left + GUTTER + column.lanes
        self.width = x - GUTTER - self._columns[-1].lanes + MARGIN
        self.height = max(c.bottom - c.top + c.lanes for c in self._columns) + self._head + GAP_Y + MARGIN
        for column in self._columns:
            column.crossed = 0
        moved = [self._moved(arc) for arc in self.arcs]
        for box in boxes:
            box.middle, box.y = self._columns[self._of(box.y)].moved((box.middle, box.y))
        self.arcs = moved

    def _crossings(self) -> Iterator[tuple[int, int]]:
        for _, points, _ in self.arcs:
            for one, other in pairwise(self._of(y) for _, y in points):
                if one != other:
                    yield min(one, other), max(one, other)

    def _moved(self, arc: Arc) -> Arc:
        edge, points, middle = arc
        out = [self._columns[self._of(points[0][1])].moved(points[0])]
        for one, other in pairwise(points):
            before, behind = self._of(one[1]), self._of(other[1])
            end = self._columns[behind].moved(other)
            if before < behind:
                out += self._way(before, out[-1], end)
            elif behind < before:
                out += reversed(self._way(behind, end, out[-1]))
            out.append(end)
        return edge, out, self._columns[self._of(middle[1])].moved(middle)

    def _way(self, number: int, one: Point, other: Point) -> list[Point]:
        """Return the corners of the path from the end of a column to the beginning of a later one: below, up, above."""
        column = self._columns[number]
        lane = (column.crossed % LANES + 1) * LANE
        column.crossed += 1
        low = column.bottom + column.down_by + lane + GAP_Y / 2
        beside = column.right + column.right_by + GUTTER / 2 + lane
        high = self._head - lane - MARGIN / 3
        return [(one[0], low), (beside, low), (beside, high), (other[0], high)]
