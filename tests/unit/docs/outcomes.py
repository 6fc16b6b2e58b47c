"""Compares an execution with the outcome in an example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def holds(got: Any, expected: Any, where: str = "") -> None:
    """`expected` is what `got` has, where both are mappings key by key below `steps` and `error`, elsewhere exactly."""
    if isinstance(expected, Mapping) and where.split(".")[0] in ("", "steps", "error"):
        for key, value in expected.items():
            assert key in got, f"{where or 'the run'} has no {key}"
            holds(got[key], value, f"{where}.{key}".lstrip("."))
    else:
        assert got == expected, where
