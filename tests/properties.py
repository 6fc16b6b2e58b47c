"""How many examples of a property are tried, and how many of many cases that are alike."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")

SEED = int(os.environ.get("NOETL_SEED") or 20)
"""Decides what soak and load tests choose (`make soak SEED=...`)."""

TIMES = int(os.environ.get("NOETL_TIMES", "0"))
"""How many times as many as a property names, at random (`make properties`); 0: an eighth of them, always the same ones."""
CRASHES_IN = 1 if TIMES else 8
"""A process dies at one port call in so many of an execution. Every other one is tried in `make properties`."""


def examples(few: int) -> settings:
    """Settings of a property."""
    return settings(
        max_examples=few * TIMES or -(-few // 8),
        derandomize=not TIMES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def some(cases: Iterable[T], one_in: int, first: int = 0) -> list[T]:
    """One in so many of `cases`, from the first on or a later one; all in `make properties`, which carries out what is marked
    `sized`."""
    return list(cases) if TIMES else list(cases)[first % one_in :: one_in]


def crash_points(calls: int, after: bool = False) -> list[int]:
    """Return the port calls of an execution that makes `calls`, before (or `after`) each of which a process is to die. The test is marked
    `sized`."""
    return some(range(1, calls + 1), CRASHES_IN, CRASHES_IN // 2 if after else 0)
