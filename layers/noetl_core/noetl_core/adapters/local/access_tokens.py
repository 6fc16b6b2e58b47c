"""Access tokens in SQLite."""

from __future__ import annotations

from uuid import uuid4

from noetl_core.adapters.local.database import Database
from noetl_core.ports import StoredToken
from noetl_core.values.instants import SECOND


class SqliteTokenCache:
    """`TokenCache` over a `Database`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def read(self, key: str, now: int) -> StoredToken | None:
        rows = self._db.returning(
            "UPDATE tokens SET accesses=accesses+1, accessed_at=? WHERE key=? AND version IS NOT NULL AND expires_at>?"
            " RETURNING sealed, until, expires_at, version, accesses",
            (now, key, now // SECOND),
        )
        return StoredToken(*rows[0]) if rows else None

    def begin_renewal(self, key: str, seen: str | None, now: int, until: int) -> bool:
        seconds = now // SECOND
        self._db.write("DELETE FROM tokens WHERE expires_at<=?", (seconds,))
        written = self._db.write(
            "INSERT INTO tokens (key, expires_at, renewed_until) SELECT ?,?,? WHERE ? IS NULL"
            " ON CONFLICT (key) DO UPDATE SET renewed_until=excluded.renewed_until"
            " WHERE tokens.version IS NULL AND tokens.renewed_until<=?"
            if seen is None
            else "UPDATE tokens SET renewed_until=? WHERE key=? AND version=? AND coalesce(renewed_until, 0)<=?",
            (key, until // SECOND + 1, until, seen, now) if seen is None else (until, key, seen, now),
        )
        return written == 1

    def end_renewal(self, key: str, seen: str | None) -> None:
        self._db.write("UPDATE tokens SET renewed_until=0 WHERE key=? AND version IS ?", (key, seen))

    def write(self, key: str, token: StoredToken, seen: str | None) -> bool:
        written = self._db.write(
            "INSERT INTO tokens (key, version, sealed, until, expires_at) VALUES (?,?,?,?,?) ON CONFLICT (key) DO UPDATE SET"
            " version=excluded.version, sealed=excluded.sealed, until=excluded.until, expires_at=excluded.expires_at,"
            " accesses=0, renewed_until=NULL WHERE tokens.version IS ?",
            (key, uuid4().hex, token.sealed, token.until, token.expires_at, seen),
        )
        return written == 1
