"""Bounds of numbers in requests to the API. They are below all other modules, because the API's client needs them as well as the
modules that keep to them."""

from __future__ import annotations

from typing import Final

MAX_PAGE: Final = 1_000
"""Items of a page."""
MAX_SPANS: Final = 10_000
"""Spans of tasks and iterations in a timeline."""
MAX_RUNS: Final = 2_000
"""Step runs in a timeline."""
MAX_CELLS: Final = 256
"""Cells into which the iterations of a loop are grouped."""
MAX_PAST_RUNS: Final = 100
"""Past executions from which a forecast learns."""
MAX_PRIORITY: Final = 1e6
MAX_OFFSET: Final = 999_999_999
"""The highest index, position or byte offset."""
