"""An attempt of a hostile template, within the limits."""

from __future__ import annotations

import time
from typing import Any

from noetl_core.expr import Scope, render
from noetl_core.expr.evaluation_limits import Limits
from noetl_core.expr.reading import DEFAULT_LIMITS

SECONDS = 5.0
"""Processor time, compilation included; the budget of the evaluation itself is half a second."""


def scope() -> Scope:
    return Scope({"workload": {"text": "secret", "rows": [{"a": 1}, {"a": 2}], "f": print, "cls": Scope, "n": 5}, "ctx": {}})


def attempt(template: str, limits: Limits = DEFAULT_LIMITS, **names: Any) -> Any:
    started = time.thread_time()
    try:
        return render(template, scope().over(names), limits=limits)
    finally:
        assert time.thread_time() - started < SECONDS, template
