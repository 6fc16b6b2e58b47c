"""Instants: microseconds since 1970, which is how the engine keeps them, and text in the form of RFC 3339."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

SECOND: Final = 1_000_000
"""In microseconds."""
DAY_S: Final = 86_400


def to_rfc3339(at: int) -> str:
    """UTC with microseconds: `2026-11-21T10:00:00.000001Z`."""
    return f"{_whole_second(at // SECOND)}.{at % SECOND:06d}Z"


@lru_cache(maxsize=64)
def _whole_second(second: int) -> str:
    """What many instants of a log have in common."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def from_text(text: str) -> datetime:
    """The instant that ISO 8601 text says; text without a zone is in UTC. Raises `ValueError`."""
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def in_microseconds(at: datetime) -> int:
    """As the engine keeps it."""
    return int(at.timestamp() * SECOND)
