"""Values that tasks keep, in SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from noetl_core.adapters.local.database import Database
from noetl_core.ports import Entry, OtherRevision, check_entry, check_listed

_THERE = "(expires_at=0 OR expires_at>?)"


class SqliteKeyValues:
    """`KeyValues` over a `Database`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, bucket: str, key: str, now: int) -> Entry | None:
        rows = self._db.rows(
            f"SELECT key, value, revision, expires_at FROM key_values WHERE bucket=? AND key=? AND {_THERE}", (bucket, key, now)
        )
        return Entry(*rows[0]) if rows else None

    def put(self, bucket: str, entry: Entry, now: int, expected: str | None = None) -> None:
        check_entry(entry)
        self._db.write("DELETE FROM key_values WHERE expires_at>0 AND expires_at<=?", (now,))
        values = (bucket, entry.key, entry.value, entry.revision, entry.expires_at)
        insert = "INSERT INTO key_values (bucket, key, value, revision, expires_at)"
        replace = "DO UPDATE SET value=excluded.value, revision=excluded.revision, expires_at=excluded.expires_at"
        if expected is None:
            self._db.write(f"{insert} VALUES (?,?,?,?,?) ON CONFLICT (bucket, key) {replace}", values)
        elif expected == "":
            written = self._db.write(f"{insert} VALUES (?,?,?,?,?) ON CONFLICT (bucket, key) DO NOTHING", values)
            self._check(written, bucket, entry, now)
        else:
            written = self._db.write(
                "UPDATE key_values SET value=?, revision=?, expires_at=? WHERE bucket=? AND key=? AND revision=?",
                (entry.value, entry.revision, entry.expires_at, bucket, entry.key, expected),
            )
            self._check(written, bucket, entry, now)

    def delete(self, bucket: str, key: str, now: int, expected: str | None = None) -> bool:
        condition, values = ("", []) if expected is None else (" AND revision=?", [expected])
        written = self._db.write(
            f"DELETE FROM key_values WHERE bucket=? AND key=? AND {_THERE}{condition}", (bucket, key, now, *values)
        )
        if not written and expected is not None and (there := self.get(bucket, key, now)) is not None:
            raise OtherRevision(there.revision)
        return written == 1

    def list(self, bucket: str, prefix: str, now: int, limit: int) -> Sequence[Entry]:
        rows = self._db.rows(
            f"SELECT key, value, revision, expires_at FROM key_values WHERE bucket=? AND substr(key, 1, ?)=? AND {_THERE}"
            " ORDER BY CAST(key AS BLOB) LIMIT ?",
            (bucket, len(prefix), prefix, now, limit),
        )
        entries = [Entry(*row) for row in rows]
        check_listed(entries)
        return entries

    def _check(self, written: int, bucket: str, entry: Entry, now: int) -> None:
        """Raise `OtherRevision` for a refused write, unless our own earlier write is stored."""
        there = None if written else self.get(bucket, entry.key, now)
        if not written and (there is None or there.revision != entry.revision):
            raise OtherRevision(there.revision if there else None)
