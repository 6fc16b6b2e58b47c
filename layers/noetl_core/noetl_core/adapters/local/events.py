"""The event log in SQLite: a file, or memory. A killed process loses nothing; with `durable="power"` neither does a power cut."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence

from noetl_core.adapters.local.database import Database
from noetl_core.codec import decode_events, encode_events
from noetl_core.engine.records import Commit, Snapshot, StreamId
from noetl_core.ports import Conflict, CorruptLog

_INSERT = "INSERT INTO commits VALUES (?,?,?,?,?,?,?,?,?,?)"
_COLUMNS = "seq, ts, writer, wake, lease_until, expires_at, v, body"


class SqliteEventStore:
    """`EventStore` over a `Database`. `on_wake` is called after a waking commit stands (the local runner's stream)."""

    def __init__(self, database: Database, on_wake: Callable[[Commit], None] | None = None) -> None:
        self._db = database
        self.on_wake = on_wake

    def append(self, commit: Commit) -> None:
        row = (
            commit.stream.execution_id,
            commit.stream.run_id or "",
            commit.seq,
            commit.ts,
            commit.writer,
            commit.wake,
            commit.lease_until,
            commit.expires_at,
            commit.v,
            encode_events(commit.events),
        )
        try:
            self._db.write(_INSERT, row)
        except sqlite3.IntegrityError:
            existing = self.read(commit.stream, after=commit.seq - 1, limit=1)
            if existing and existing[0].writer == commit.writer:
                return
            raise Conflict(f"{commit.stream} position {commit.seq} is taken", existing[0] if existing else None) from None
        if commit.wake and self.on_wake is not None:
            self.on_wake(commit)

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM commits WHERE execution_id=? AND run_id=? AND seq>? ORDER BY seq LIMIT ?",
            (stream.execution_id, stream.run_id or "", after, -1 if limit is None else limit),
        )
        commits = [self._commit(stream, row) for row in rows]
        for place, commit in enumerate(commits, start=after + 1):
            if commit.seq != place:
                raise CorruptLog(f"{stream}: position {place} is missing")
        return commits

    def last(self, stream: StreamId) -> Commit | None:
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM commits WHERE execution_id=? AND run_id=? ORDER BY seq DESC LIMIT 1",
            (stream.execution_id, stream.run_id or ""),
        )
        return self._commit(stream, rows[0]) if rows else None

    @staticmethod
    def _commit(stream: StreamId, row: Sequence[object]) -> Commit:
        seq, ts, writer, wake, lease_until, expires_at, v, body = row
        return Commit(stream, seq, ts, writer, decode_events(body, v), bool(wake), lease_until, expires_at, v)  # type: ignore[arg-type]

    def save_snapshot(self, snapshot: Snapshot) -> None:
        self._db.write(
            "INSERT INTO snapshots VALUES (?,?,?,?) ON CONFLICT (execution_id) DO UPDATE SET"
            " seq=excluded.seq, reducer=excluded.reducer, state=excluded.state WHERE excluded.seq > snapshots.seq",
            (snapshot.execution_id, snapshot.seq, snapshot.reducer, json.dumps(snapshot.state)),
        )

    def load_snapshot(self, execution_id: str) -> Snapshot | None:
        rows = self._db.rows("SELECT seq, reducer, state FROM snapshots WHERE execution_id=?", (execution_id,))
        return Snapshot(execution_id, rows[0][0], rows[0][1], json.loads(rows[0][2])) if rows else None
