"""Converts instants between microseconds since 1970, the engine's form, and text in the form of RFC 3339."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

SECOND: Final = 1_000_000
"""In microseconds."""
DAY_S: Final = 86_400
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def to_rfc3339(at: int) -> str:
    """Return UTC text with microseconds: `2026-11-21T10:00:00.000001Z`."""
    return f"{_whole_second(at // SECOND)}.{at % SECOND:06d}Z"


@lru_cache(maxsize=64)
def _whole_second(second: int) -> str:
    """Return the text of a whole second, cached because many instants of a log share it."""
    return datetime.fromtimestamp(second, UTC).isoformat()[:19]


def from_text(text: str) -> datetime:
    """Return the instant of ISO 8601 text; text without a zone is in UTC. Raises `ValueError`, also if it is out of range in
    UTC."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        return found.replace(tzinfo=UTC)
    try:
        found.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text} lies outside of the years 1 to 9999") from None
    return found


def in_microseconds(at: datetime) -> int:
    """Return the instant in microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND
