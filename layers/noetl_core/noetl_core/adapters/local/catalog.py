"""Playbooks, heads, due items and gates in the SQLite database of the local store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from noetl_core.adapters import path_records
from noetl_core.adapters.clock import SystemClock
from noetl_core.adapters.local.database import Database
from noetl_core.engine.heads import search_text
from noetl_core.engine.statuses import TERMINAL
from noetl_core.ports import Clock, Conflict, Due, Gate, Head, NotFound, PathRecord, PlaybookVersion
from noetl_core.values.instants import SECOND

_TERMINAL = "({})".format(",".join(f"'{status}'" for status in sorted(TERMINAL)))
_HEAD = "execution_id, status, path, version, digest, started_at, updated_at, finished_at, error, parent, expires_at,"
_HEAD += " trigger, search, searched, labels, warnings, redriven_at"
_PUT_HEAD = (
    f"INSERT INTO heads ({_HEAD}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    f" ON CONFLICT (execution_id) DO UPDATE SET ({_HEAD})="
    f"({', '.join('excluded.' + name.strip() for name in _HEAD.split(','))})"
    f" WHERE excluded.updated_at > heads.updated_at OR (excluded.updated_at = heads.updated_at"
    f" AND (excluded.status IN {_TERMINAL} OR heads.status NOT IN {_TERMINAL}))"
)


DUE_PAGE = 200


def _loads(text: str | None) -> Any:
    return json.loads(text) if text else None


def _head(row: Sequence[Any]) -> Head:
    *plain, error, parent, expires_at, trigger, search, _, labels, warnings, redriven_at = row
    execution_id, status, path, version, digest, started_at, updated_at, finished_at = plain
    return Head(
        execution_id,
        status,
        path,
        version,
        digest,
        started_at,
        updated_at,
        finished_at,
        _loads(error),
        _loads(parent),
        expires_at,
        _loads(trigger),
        _loads(search),
        _loads(labels) or {},
        warnings or 0,
        redriven_at or 0,
    )


def _searched(head: Head) -> str:
    """Return the search attributes of a head as lines of text; a search matches a whole line."""
    return "".join(_line(name, search_text(value)) for name, value in (head.search or {}).items())


def _line(name: str, value: str) -> str:
    return f"\n{name}={value}\n"


class SqlitePlaybookCatalog:
    """`PlaybookCatalog` over a `Database`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def register(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        while True:
            versions = self._select("path=? ORDER BY version DESC LIMIT 1", (path,))
            if versions and versions[0].digest == digest:
                return versions[0]
            new = PlaybookVersion(path, versions[0].version + 1 if versions else 1, digest, source, now)
            try:
                self._db.write("INSERT INTO playbooks VALUES (?,?,?,?,?)", (path, new.version, digest, source, now))
            except sqlite3.IntegrityError:
                continue  # another process registered that version: look again
            return new

    def get(self, path: str, version: int | None = None) -> PlaybookVersion:
        where = "path=? ORDER BY version DESC LIMIT 1" if version is None else "path=? AND version=?"
        found = self._select(where, (path,) if version is None else (path, version))
        if not found:
            raise NotFound(f"no playbook {path}" + ("" if version is None else f" version {version}"))
        return found[0]

    def pin(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        self._db.write("INSERT OR IGNORE INTO pinned VALUES (?,?,?,?)", (digest, path, source, now))
        return self.by_digest(digest)

    def by_digest(self, digest: str) -> PlaybookVersion:
        found = self._select("digest=? ORDER BY registered_at, path, version LIMIT 1", (digest,))
        if found:
            return found[0]
        pinned = self._db.rows("SELECT path, 0, digest, source, pinned_at FROM pinned WHERE digest=?", (digest,))
        for row in pinned:
            return PlaybookVersion(*row)
        raise NotFound(f"no playbook with digest {digest}")

    def versions(self, path: str) -> Sequence[PlaybookVersion]:
        return self._select("path=? ORDER BY version", (path,))

    def list(self, prefix: str = "") -> Sequence[PlaybookVersion]:
        latest = "version=(SELECT max(version) FROM playbooks q WHERE q.path=playbooks.path)"
        return self._select(f"substr(path,1,?)=? AND {latest} ORDER BY path", (len(prefix), prefix))

    def about(self, path: str, *, fresh: bool = True) -> PathRecord:
        rows = self._db.rows("SELECT record FROM paths WHERE path=?", (path,))
        return path_records.loads(rows[0][0]) if rows else PathRecord(path)

    def put_about(self, record: PathRecord) -> None:
        put = (record.path, record.revision, path_records.dumps(record))
        if record.revision == 1:
            wrote = self._db.write("INSERT OR IGNORE INTO paths VALUES (?,?,?)", put)
        else:
            wrote = self._db.write(
                "UPDATE paths SET revision=?, record=? WHERE path=? AND revision=?", (*put[1:], record.path, record.revision - 1)
            )
        if not wrote:
            raise Conflict(f"somebody else has changed {record.path} meanwhile")

    def all_about(self, prefix: str = "") -> Sequence[PathRecord]:
        rows = self._db.rows("SELECT record FROM paths WHERE substr(path,1,?)=? ORDER BY path", (len(prefix), prefix))
        return [path_records.loads(row[0]) for row in rows]

    def _select(self, where: str, values: Sequence[object]) -> Sequence[PlaybookVersion]:
        rows = self._db.rows(f"SELECT path, version, digest, source, registered_at FROM playbooks WHERE {where}", values)
        return [PlaybookVersion(*row) for row in rows]


class SqliteExecutionIndex:
    """`ExecutionIndex` over a `Database`. Its writes accompany commits, and become durable with the next one."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._db, self._clock = database, clock or SystemClock()

    def put_head(self, head: Head) -> None:
        self._db.write(
            _PUT_HEAD,
            (
                head.execution_id,
                head.status,
                head.path,
                head.version,
                head.digest,
                head.started_at,
                head.updated_at,
                head.finished_at,
                json.dumps(head.error) if head.error else None,
                json.dumps(head.parent) if head.parent else None,
                head.expires_at,
                json.dumps(head.trigger) if head.trigger else None,
                None if head.search is None else json.dumps(head.search),
                _searched(head),
                json.dumps(head.labels) if head.labels else None,
                head.warnings,
                head.redriven_at,
            ),
            later=True,
        )

    def heads(
        self,
        status: str | None = None,
        path: str | None = None,
        since: int | None = None,
        limit: int = 50,
        before: str | None = None,
        where: Mapping[str, str] | None = None,
        oldest_first: bool = False,
    ) -> Sequence[Head]:
        goes, order = (">", "ASC") if oldest_first else ("<", "DESC")
        clauses = ["(expires_at=0 OR expires_at>=?)"]
        values: list[Any] = [self._clock.now() // SECOND]
        for name, wanted in (where or {}).items():
            clauses.append("instr(searched, ?)>0")
            values.append(_line(name, wanted))
        for clause, value in (("status=?", status), ("path=?", path), ("started_at>=?", since)):
            if value is not None:
                clauses.append(clause)
                values.append(value)
        if before is not None:
            place = "(started_at, execution_id)"
            clauses.append(f"{place} {goes} (SELECT started_at, execution_id FROM heads WHERE execution_id=?)")
            values.append(before)
        rows = self._db.rows(
            f"SELECT {_HEAD} FROM heads WHERE {' AND '.join(clauses)} ORDER BY started_at {order}, execution_id {order} LIMIT ?",
            (*values, limit),
        )
        return [_head(row) for row in rows]

    def head(self, execution_id: str) -> Head | None:
        rows = self._db.rows(f"SELECT {_HEAD} FROM heads WHERE execution_id=?", (execution_id,))
        return _head(rows[0]) if rows else None

    def set_due(self, execution_id: str, at: int, seen: int | None = None) -> None:
        if seen is not None:
            self._db.write(
                "UPDATE due SET due_at=?, looks=0 WHERE execution_id=? AND due_at=?", (at, execution_id, seen), later=True
            )
            return
        self._db.write(
            "INSERT INTO due VALUES (?,?,0) ON CONFLICT (execution_id) DO UPDATE SET due_at=excluded.due_at, looks=0",
            (execution_id, at),
            later=True,
        )

    def claim_due(self, due: Due, at: int) -> int | None:
        rows = self._db.returning(
            "UPDATE due SET due_at=?, looks=coalesce(looks, 0)+1 WHERE execution_id=? AND due_at=? RETURNING looks",
            (at, due.execution_id, due.at),
        )
        return rows[0][0] if rows else None

    def clear_due(self, execution_id: str) -> None:
        self._db.write("DELETE FROM due WHERE execution_id=?", (execution_id,), later=True)

    def due(self, now: int) -> Iterator[Due]:
        after = Due(-1, "")
        while rows := self._db.rows(
            "SELECT due_at, execution_id FROM due WHERE due_at<=? AND (due_at, execution_id)>(?,?)"
            " ORDER BY due_at, execution_id LIMIT ?",
            (now, after.at, after.execution_id, DUE_PAGE),
        ):
            for row in rows:
                after = Due(*row)
                yield after


class SqliteGates:
    """`Gates` over a `Database`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def gate(self, execution_id: str) -> Gate:
        rows = self._db.rows("SELECT mode, stopped_runs FROM gates WHERE execution_id=?", (execution_id,))
        return Gate(rows[0][0], frozenset(json.loads(rows[0][1]))) if rows else Gate()

    def set_gate(self, execution_id: str, gate: Gate) -> None:
        self._db.write(
            "INSERT INTO gates VALUES (?,?,?) ON CONFLICT (execution_id) DO UPDATE SET mode=excluded.mode,"
            " stopped_runs=excluded.stopped_runs",
            (execution_id, gate.mode, json.dumps(sorted(gate.stopped_runs))),
        )
