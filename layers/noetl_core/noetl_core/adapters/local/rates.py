"""Rates of tasks in SQLite, and of requests in the process that takes them."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from noetl_core.adapters.local.database import Database
from noetl_core.engine.limits.rates import FORGOTTEN_S, wait_for_permit
from noetl_core.ports import RateInUse
from noetl_core.values.instants import SECOND


class SqliteRateLimits:
    """`RateLimits` over a `Database`; all processes that have it open share its rates."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def reserve(self, key: str, interval: int, count: int, now: int) -> int:
        length = interval * count
        rows = self._db.returning(
            "INSERT INTO rates (key, free_at, interval) VALUES (?,?,?) ON CONFLICT (key) DO UPDATE SET"
            " free_at=max(free_at, ?)+?, interval=excluded.interval RETURNING free_at",
            (key, now + length, interval, now, length),
        )
        end: int = rows[0][0]
        return end - length

    def rates(self, now: int) -> Sequence[RateInUse]:
        rows = self._db.rows(
            "SELECT key, free_at, interval FROM rates WHERE free_at>? ORDER BY key", (now - FORGOTTEN_S * SECOND,)
        )
        return [RateInUse(*row) for row in rows]


class LocalRequestRates:
    """`RequestRates` in memory: one process takes the requests of a store. Thread-safe."""

    def __init__(self) -> None:
        self._free_at: dict[str, int] = {}
        self._lock = Lock()

    def take(self, key: str, interval: int, burst: int, now: int) -> int:
        with self._lock:
            free_at = self._free_at.get(key, 0)
            wait = wait_for_permit(free_at, interval, burst, now)
            if not wait:
                self._free_at[key] = max(free_at, now) + interval
            return wait
