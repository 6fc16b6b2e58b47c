"""Sets the number of examples of properties, and the sample size of large parametrised suites."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")

SEED = int(os.environ.get("NOETL_SEED") or 20)
"""Decides what soak and load tests choose (`make soak SEED=...`)."""

TIMES = int(os.environ.get("NOETL_TIMES", "0"))
"""The factor by which a property tries more examples than it names, at random (`make properties`); 0: an eighth of them, always
the same ones."""
CRASHES_IN = 1 if TIMES else 32
"""The interval of port calls of an execution at which a process dies. `make properties` tries every call."""


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
    """Return every `one_in`-th of `cases`, from `first` on; all of them in `make properties`, which runs tests marked `sized`."""
    return list(cases) if TIMES else list(cases)[first % one_in :: one_in]


def crash_points(calls: int, after: bool = False) -> list[int]:
    """Return the port calls of an execution that makes `calls`, before (or `after`) each of which a process is to die. The test is marked
    `sized`."""
    return some(range(1, calls + 1), CRASHES_IN, CRASHES_IN // 2 if after else 0)
