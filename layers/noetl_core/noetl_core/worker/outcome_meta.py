"""`outcome.meta`: when an attempt began and ended, and how long it took."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from noetl_core.engine.pipeline import SECOND


def meta_of(attempt: int, started: int, finished: int, trace_id: str | None) -> dict[str, Any]:
    """Attempt, duration, timestamps, and the execution's trace id where it has one (formal spec 5). Times are microseconds."""
    out = {
        "attempt": attempt,
        "duration_ms": round((finished - started) / 1000, 3),
        "started_at": _instant(started),
        "finished_at": _instant(finished),
    }
    return out if trace_id is None else {**out, "trace_id": trace_id}


def _instant(us: int) -> str:
    return f"{_second(us // SECOND)}.{us % SECOND:06d}Z"


@lru_cache(maxsize=64)
def _second(s: int) -> str:
    return datetime.fromtimestamp(s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
