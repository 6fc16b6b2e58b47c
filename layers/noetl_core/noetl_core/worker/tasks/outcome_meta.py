"""`outcome.meta`: when an attempt began and ended, and how long it took."""

from __future__ import annotations

from typing import Any

from noetl_core.values.instants import to_rfc3339


def meta_of(attempt: int, started: int, finished: int, trace_id: str | None) -> dict[str, Any]:
    """Attempt, duration, timestamps, and the execution's trace id where it has one (formal spec 5). Times are microseconds."""
    out = {
        "attempt": attempt,
        "duration_ms": round((finished - started) / 1000, 3),
        "started_at": to_rfc3339(started),
        "finished_at": to_rfc3339(finished),
    }
    return out if trace_id is None else {**out, "trace_id": trace_id}
