"""How many examples of a property are tried."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("NOETL_TIMES", "0"))
"""How many times the few that every test run takes, at random (`make properties`); 0: those few, always the same ones."""


def examples(few: int) -> settings:
    """Settings of a property."""
    return settings(
        max_examples=few * (TIMES or 1),
        derandomize=not TIMES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
