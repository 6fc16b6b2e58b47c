"""Instants as tests of schedules write them."""

from __future__ import annotations

from datetime import UTC, datetime

SECOND = 1_000_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND
