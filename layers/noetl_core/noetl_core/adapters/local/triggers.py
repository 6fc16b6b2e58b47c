"""Triggers, the outcomes of their occurrences, and refused deliveries, in SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from noetl_core.adapters.clock import SystemClock
from noetl_core.adapters.local.database import Database
from noetl_core.dsl.model import Schedule
from noetl_core.dsl.versions import version_of
from noetl_core.ports import Clock, Firing, OtherRevision, RefusedDelivery, TriggerRecord
from noetl_core.values.instants import SECOND

_RECORD = "path, name, kind, version, digest, enabled, source, payload, state, revision, starts"
_FIRING = "path, name, occurrence, at, result, execution_id, reason, expires_at"
_REFUSED = "id, path, name, kind, occurrence, at, code, reason, facts, expires_at"


class SqliteTriggers:
    """`TriggerStore` over a `Database`."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._db, self._clock = database, clock or SystemClock()

    def trigger(self, path: str, name: str) -> TriggerRecord | None:
        rows = self._db.rows(f"SELECT {_RECORD} FROM triggers WHERE path=? AND name=?", (path, name))
        return _record(rows[0]) if rows else None

    def put_trigger(self, record: TriggerRecord, expected: str) -> None:
        values = _values(record)
        if expected == "":
            written = self._db.write(
                f"INSERT INTO triggers ({_RECORD}) VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (path, name) DO NOTHING", values
            )
        else:
            columns = ", ".join(f"{name}=?" for name in _RECORD.split(", ")[2:])
            written = self._db.write(
                f"UPDATE triggers SET {columns} WHERE path=? AND name=? AND revision=?",
                (*values[2:], record.path, record.name, expected),
            )
        if not written:
            self._check(record.path, record.name, record.revision)

    def delete_trigger(self, path: str, name: str, expected: str) -> None:
        if not self._db.write("DELETE FROM triggers WHERE path=? AND name=? AND revision=?", (path, name, expected)):
            self._check(path, name, None)

    def _check(self, path: str, name: str, mine: str | None) -> None:
        """Raise `OtherRevision` for a refused write, unless its result (`mine`, its revision) is already stored."""
        there = self.trigger(path, name)
        revision = None if there is None else there.revision
        if revision != mine:
            raise OtherRevision(revision)

    def triggers(self, path: str | None = None, kind: str | None = None) -> Sequence[TriggerRecord]:
        conditions = [(clause, value) for clause, value in (("path=?", path), ("kind=?", kind)) if value is not None]
        where = " AND ".join(clause for clause, _ in conditions) or "1"
        rows = self._db.rows(
            f"SELECT {_RECORD} FROM triggers WHERE {where} ORDER BY CAST(path AS BLOB), CAST(name AS BLOB)",
            [value for _, value in conditions],
        )
        return [_record(row) for row in rows]

    def delivery_triggers(self) -> Sequence[TriggerRecord]:
        return [record for record in self.triggers() if record.kind != Schedule.kind]

    def put_firing(self, firing: Firing) -> None:
        self._db.write("DELETE FROM firings WHERE expires_at BETWEEN 1 AND ?", (self._clock.now() // SECOND,), later=True)
        values = tuple(getattr(firing, name) for name in _FIRING.split(", "))
        self._db.write(f"INSERT OR REPLACE INTO firings ({_FIRING}) VALUES (?,?,?,?,?,?,?,?)", values, later=True)

    def firings(self, path: str, name: str, now: int, limit: int) -> Sequence[Firing]:
        rows = self._db.rows(
            f"SELECT {_FIRING} FROM firings WHERE path=? AND name=? AND (expires_at=0 OR expires_at>?)"
            " ORDER BY at DESC, occurrence DESC LIMIT ?",
            (path, name, now, limit),
        )
        return [Firing(*row) for row in rows]

    def refuse(self, refused: RefusedDelivery) -> None:
        values = [getattr(refused, name) for name in _REFUSED.split(", ")]
        values[8] = json.dumps(refused.facts)
        self._db.write(f"INSERT OR REPLACE INTO refused ({_REFUSED}) VALUES (?,?,?,?,?,?,?,?,?,?)", values)

    def refused(self, id: str, now: int) -> RefusedDelivery | None:
        rows = self._db.rows(f"SELECT {_REFUSED} FROM refused WHERE id=? AND (expires_at=0 OR expires_at>?)", (id, now))
        return _refused(rows[0]) if rows else None

    def list_refused(self, now: int, limit: int, path: str | None = None) -> Sequence[RefusedDelivery]:
        self._db.write("DELETE FROM refused WHERE expires_at BETWEEN 1 AND ?", (now,), later=True)
        of, values = ("", ()) if path is None else (" AND path=?", (path,))
        rows = self._db.rows(
            f"SELECT {_REFUSED} FROM refused WHERE (expires_at=0 OR expires_at>?){of} ORDER BY id DESC LIMIT ?",
            (now, *values, limit),
        )
        return [_refused(row) for row in rows]

    def forget_refused(self, id: str) -> None:
        self._db.write("DELETE FROM refused WHERE id=?", (id,))


def _values(record: TriggerRecord) -> tuple[Any, ...]:
    texts = (json.dumps(part) for part in (record.source, record.payload, record.state))
    starts = None if record.starts is None else str(record.starts)
    return (record.path, record.name, record.kind, record.version, record.digest, record.enabled, *texts, record.revision, starts)


def _record(row: Sequence[Any]) -> TriggerRecord:
    path, name, kind, version, digest, enabled, source, payload, state, revision, starts = row
    return TriggerRecord(
        path,
        name,
        kind,
        version,
        digest,
        bool(enabled),
        json.loads(source),
        json.loads(payload),
        json.loads(state),
        revision,
        version_of(starts),
    )


def _refused(row: Sequence[Any]) -> RefusedDelivery:
    id, path, name, kind, occurrence, at, code, reason, facts, expires_at = row
    return RefusedDelivery(id, path, name, kind, occurrence, at, code, reason, json.loads(facts), expires_at)
