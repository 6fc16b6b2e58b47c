"""Places in limits, in SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence

from noetl_core.adapters.local.database import Database
from noetl_core.ports import LimitRecord, LimitWaiter


class SqliteLimitPlaces:
    """`LimitPlaces` over a `Database`; all processes that have it open share its limits."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def read(self, key: str) -> LimitRecord:
        rows = self._db.rows("SELECT key, holders, most, waiting, revision, displaced FROM limits WHERE key=?", (key,))
        return _record(rows[0]) if rows else LimitRecord(key)

    def write(self, record: LimitRecord, now: int) -> bool:
        values = (json.dumps(record.holders), record.most, record.waiting, record.revision + 1, json.dumps(record.displaced))
        if record.revision:
            written = self._db.write(
                "UPDATE limits SET holders=?, most=?, waiting=?, revision=?, displaced=? WHERE key=? AND revision=?",
                (*values, record.key, record.revision),
            )
        else:
            written = self._db.write(
                "INSERT OR IGNORE INTO limits (holders, most, waiting, revision, displaced, key) VALUES (?,?,?,?,?,?)",
                (*values, record.key),
            )
        return written == 1

    def records(self, now: int) -> Sequence[LimitRecord]:
        rows = self._db.rows(
            "SELECT key, holders, most, waiting, revision, displaced FROM limits WHERE holders<>'{}' OR waiting ORDER BY key"
        )
        return [_record(row) for row in rows]

    def enqueue(self, key: str, waiter: LimitWaiter) -> None:
        self._db.write(
            "INSERT INTO limit_waiters VALUES (?,?,?,?,?) ON CONFLICT (key, place) DO UPDATE SET most=excluded.most,"
            " cancels=excluded.cancels",
            (key, waiter.place, waiter.holder, waiter.most, waiter.cancels),
        )

    def replace(self, key: str, waiter: LimitWaiter) -> bool:
        values = (waiter.holder, waiter.most, waiter.cancels, key, waiter.place)
        return self._db.write("UPDATE limit_waiters SET holder=?, most=?, cancels=? WHERE key=? AND place=?", values) == 1

    def dequeue(self, key: str, place: str) -> None:
        self._db.write("DELETE FROM limit_waiters WHERE key=? AND place=?", (key, place))

    def waiters(self, key: str, limit: int) -> Sequence[LimitWaiter]:
        rows = self._db.rows(
            "SELECT holder, place, most, cancels FROM limit_waiters WHERE key=? ORDER BY place LIMIT ?", (key, limit)
        )
        return [LimitWaiter(*row) for row in rows]


def _record(row: tuple[str, str, int, int, int, str]) -> LimitRecord:
    key, holders, most, waiting, revision, displaced = row
    return LimitRecord(key, json.loads(holders), most, bool(waiting), revision, json.loads(displaced))
