"""Outlines of small values: with the sizes of production, a value has one from 1 MB."""

from __future__ import annotations

import pytest

from noetl_core.values.outlines import building


def outline_small_values(patch: pytest.MonkeyPatch, over: int, block: int) -> None:
    """Give each stored value of more than `over` bytes an outline, of blocks of `block` bytes."""
    patch.setattr(building, "OUTLINED", over)
    patch.setattr(building, "BLOCK", block)
