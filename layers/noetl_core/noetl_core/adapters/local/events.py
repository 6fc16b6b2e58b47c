"""The event log in SQLite, in a file or in memory. A killed process loses nothing; with `durable="power"` neither does a
power cut."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Any

from noetl_core.adapters.clock import SystemClock
from noetl_core.adapters.local.database import Database
from noetl_core.engine.records import Commit, Snapshot, StreamId, Tally
from noetl_core.log.codec import decode_events, decode_progress, encode_events, encode_progress
from noetl_core.log.stored_commits import StoredCommits
from noetl_core.ports import Clock, Conflict, CorruptLog, PortError, StorageFailed, Unavailable
from noetl_core.values.instants import SECOND

_COLUMNS = "seq, ts, writer, wake, lease_until, expires_at, v, body, events, in_vain, aggregates, progress"
_INSERT = f"INSERT INTO commits (execution_id, run_id, {_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_REPLACE_EXPIRED = f"""{_INSERT} ON CONFLICT (execution_id, run_id, seq) DO UPDATE SET ts=excluded.ts, writer=excluded.writer,
  wake=excluded.wake, lease_until=excluded.lease_until, expires_at=excluded.expires_at, v=excluded.v, body=excluded.body,
  events=excluded.events, in_vain=excluded.in_vain, aggregates=excluded.aggregates, progress=excluded.progress
  WHERE expires_at BETWEEN 1 AND ?"""
_LAST = 2**63 - 1
PACKED_FROM = 32 * 1024
"""Bytes of a commit from which its body is compressed: those of loops with short iterations, which pack to a sixth. From this
size on, compressing costs no more time than writing the pages; for shorter commits it would take a tenth longer."""
PACKED_LEVEL = 1
"""The zlib level: 6 packs to an eighth less and takes three times as long."""
_LIVES = "(expires_at=0 OR expires_at>=?)"


class SqliteEventStore:
    """`EventStore` over a `Database`. `on_wake` is called after a waking commit is stored (the stream of the local runner)."""

    def __init__(self, database: Database, on_wake: Callable[[Commit], None] | None = None, clock: Clock | None = None) -> None:
        self._db, self._clock = database, clock or SystemClock()
        self.on_wake = on_wake

    def append(self, commit: Commit) -> None:
        tally = commit.tally
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
            _packed(encode_events(commit.events)),
            None if tally is None else tally.events,
            None if tally is None else tally.takeovers_without_progress,
            None if tally is None or tally.aggregates is None else json.dumps(tally.aggregates),
            None if tally is None or tally.progress is None else encode_progress(tally.progress),
        )
        try:
            self._db.write(_INSERT, row, later=self._may_wait(commit))
        except sqlite3.IntegrityError:
            if not self._settle(commit, row):
                if not self._may_wait(commit):
                    self.sync()  # perhaps this failed when it was written
                return
        if commit.wake and self.on_wake is not None:
            self.on_wake(commit)

    def _may_wait(self, commit: Commit) -> bool:
        """Return whether the commit need not be durable before the next one is."""
        return False

    def sync(self) -> None:
        """Make all commits durable against a power cut, if the database is opened with `power`."""
        self._db.sync()

    def _settle(self, commit: Commit, row: Sequence[object]) -> bool:
        """Resolve a conflict at a taken position: return False if our own earlier write holds it, True if the holder was expired
        and is now replaced; otherwise raise `Conflict`."""
        existing = self.read(commit.stream, after=commit.seq - 1, limit=1)
        if existing and existing[0].writer == commit.writer:
            return False
        if not existing and self._db.write(_REPLACE_EXPIRED, (*row, self._now() - 1)):
            return True
        raise Conflict(f"{commit.stream} position {commit.seq} is taken", existing[0] if existing else None)

    def _now(self) -> int:
        return self._clock.now() // SECOND

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM commits WHERE execution_id=? AND run_id=? AND seq>? AND {_LIVES} ORDER BY seq LIMIT ?",
            (stream.execution_id, stream.run_id or "", after, self._now(), -1 if limit is None else limit),
        )
        for place, row in enumerate(rows, start=after + 1):
            if row[0] != place:
                raise CorruptLog(f"{stream}: position {place} is missing")
        return StoredCommits(rows, partial(self._commit, stream))

    def last(self, stream: StreamId) -> Commit | None:
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM commits WHERE execution_id=? AND run_id=? AND {_LIVES} ORDER BY seq DESC LIMIT 1",
            (stream.execution_id, stream.run_id or "", self._now()),
        )
        return self._commit(stream, rows[0]) if rows else None

    def newest(self, execution_id: str) -> int:
        """Return the time of the newest commit of an execution (microseconds, by the clock of its writer); 0 if there is none."""
        (row,) = self._db.rows("SELECT max(ts) FROM commits WHERE execution_id=?", (execution_id,))
        return row[0] or 0

    @staticmethod
    def _commit(stream: StreamId, row: Sequence[Any]) -> Commit:
        """Return the commit of a row of `_COLUMNS`."""
        seq, ts, writer, wake, lease_until, expires_at, v, body, events, lost, aggregates, progress = row
        tally = None
        if events is not None:
            stated = None if aggregates is None else json.loads(aggregates)
            tally = Tally(events, lost, stated, None if progress is None else decode_progress(progress))
        try:
            events_held = decode_events(body, v)
        except CorruptLog as error:
            raise CorruptLog(f"position {seq} of {stream}: {error}") from error
        return Commit(stream, seq, ts, writer, events_held, bool(wake), lease_until, expires_at, v, tally)

    def save_snapshot(self, snapshot: Snapshot) -> int:
        text = json.dumps(snapshot.state, separators=(",", ":")).encode()
        self._db.write(
            "INSERT INTO snapshots VALUES (?,?,?,?,?) ON CONFLICT (execution_id, seq) DO UPDATE SET"
            " reducer=excluded.reducer, state=excluded.state, expires_at=excluded.expires_at"
            " WHERE excluded.reducer <> snapshots.reducer OR snapshots.expires_at BETWEEN 1 AND ?",
            (
                snapshot.execution_id,
                snapshot.seq,
                snapshot.reducer,
                zlib.compress(text, 1),
                snapshot.state.get("expires_at") or 0,
                self._now() - 1,
            ),
            later=True,
        )
        return len(text)

    def load_snapshot(self, execution_id: str, upto: int | None = None) -> Snapshot | None:
        rows = self._db.rows(
            f"SELECT seq, reducer, state FROM snapshots WHERE execution_id=? AND seq<=? AND {_LIVES} ORDER BY seq DESC LIMIT 1",
            (execution_id, _LAST if upto is None else upto, self._now()),
        )
        if not rows:
            return None
        seq, reducer, stored = rows[0]
        try:
            text = stored if isinstance(stored, str) else zlib.decompress(stored)  # older versions stored a text
            state = json.loads(text)
        except (ValueError, zlib.error):
            return None  # then the log is folded from its start
        return Snapshot(execution_id, seq, reducer, state, len(text))


def _packed(body: bytes) -> bytes:
    """Return the body as it is stored. Readers of all versions take both forms."""
    packed = zlib.compress(body, PACKED_LEVEL) if len(body) >= PACKED_FROM else body
    return packed if len(packed) < len(body) else body


class ObservedEventStore(SqliteEventStore):
    """Notifies an observer of every stored commit. Once `closed` it refuses commits: a task that fails because the process ends
    has no outcome.

    In a database that survives a power cut, a commit is durable before any of its consequences is visible: a task begins after a
    sync (that of its claim), and callers are answered after one. The end of a run and its routing, which are invisible until the
    next task begins, therefore need no sync of their own. The runner syncs before it becomes idle and before it returns.
    """

    observer: Callable[[Commit], None] | None = None
    closed = False
    route: Callable[[Commit], None] | None = None
    """Routes the end of a run that the thread `router` writes, in the transaction that writes it."""
    lost: Callable[[], None] = staticmethod(lambda: None)
    """Called when such a transaction failed: perhaps nothing of it is in the store."""
    router = 0

    def _may_wait(self, commit: Commit) -> bool:
        return commit.wake if commit.stream.run_id is not None else commit.events[0].name == "BoundaryRouted"

    def routes(self, commit: Commit) -> bool:
        """Return whether the transaction that writes a commit routes it, too."""
        return self.route is not None and commit.wake and commit.stream.run_id is not None and self.router == get_ident()

    def append(self, commit: Commit) -> None:
        if self.closed:
            raise Unavailable("the store is closed")
        if not self.routes(commit):
            self._write(commit)
            return
        try:
            with self._db.transaction() as transaction:
                self._write(commit)
                assert self.route is not None
                self.route(commit)
        except PortError as error:
            if transaction.committed and isinstance(error, StorageFailed):
                return  # the sync failed: it is made again before a task begins
            self.lost()
            raise

    def _write(self, commit: Commit) -> None:
        super().append(commit)
        observer = self.observer
        if observer is not None:
            self._db.after_commit(partial(observer, commit))
