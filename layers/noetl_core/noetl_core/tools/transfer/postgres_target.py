"""A table of PostgreSQL as the target of a transfer. Its progress is a row of `noetl_transfers`, written with each chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg.sql import SQL, Identifier

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall, ToolFailed
from noetl_core.tools.calls.watch import watched
from noetl_core.tools.network.addresses import AddressRefused
from noetl_core.tools.postgres.connections import AllInUse, Connection, Connections, Where
from noetl_core.tools.postgres.copy import Cursor, Load, Loading
from noetl_core.tools.postgres.errors import not_filled, unreachable
from noetl_core.tools.rows.sources import Row
from noetl_core.tools.transfer.target import BOOKMARKS, Overtaken, Progress

KEPT_DAYS: Final = 90
_COLUMNS: Final = SQL("chunks, rows_read, rows_written, done, source")


class PostgresTarget:
    """Fills `load.table`."""

    def __init__(self, connections: Connections, where: Where, load: Load, call: ToolCall, source: str) -> None:
        self._connections, self._where, self._load, self._call, self._source = connections, where, load, call, source
        with _as_outcomes(call):
            self._connection = _connected(connections, where, call)

    def progress(self) -> Progress:
        with self._transaction() as cursor:
            cursor.execute("SELECT to_regclass(%s)", [BOOKMARKS])
            if cursor.fetchone() == (None,):
                cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [BOOKMARKS])
                cursor.execute(
                    SQL(
                        "CREATE TABLE IF NOT EXISTS {} (task_run_id text PRIMARY KEY, chunks bigint NOT NULL,"
                        " rows_read bigint NOT NULL,"
                        " rows_written bigint NOT NULL, done boolean NOT NULL, source text NOT NULL,"
                        " updated_at timestamptz NOT NULL)"
                    ).format(Identifier(BOOKMARKS))
                )
            cursor.execute(
                SQL("DELETE FROM {} WHERE done AND updated_at < now() - {} * interval '1 day'").format(
                    Identifier(BOOKMARKS), KEPT_DAYS
                )
            )
            cursor.execute(
                SQL("INSERT INTO {} VALUES (%s, 0, 0, 0, false, %s, now()) ON CONFLICT DO NOTHING").format(Identifier(BOOKMARKS)),
                [self._call.task_run_id, self._source],
            )
            cursor.execute(
                SQL("SELECT {} FROM {} WHERE task_run_id = %s").format(_COLUMNS, Identifier(BOOKMARKS)), [self._call.task_run_id]
            )
            row = cursor.fetchone()
        assert row is not None
        return Progress(*row)

    def write(self, rows: Sequence[Row], before: Progress) -> Progress:
        with self._transaction() as cursor:
            self._hold(cursor, before)
            loading = Loading(cursor, self._load, self._call)
            if self._load.mode == "replace" and before.chunks == 0:
                loading.empty()
            loading.rows(iter(rows), "source")
            copied = loading.finish()
            after = before.after(copied.read, copied.written)
            self._note(cursor, after)
        return after

    def finish(self, before: Progress) -> Progress:
        with self._transaction() as cursor:
            self._hold(cursor, before)
            if self._load.mode == "replace" and before.chunks == 0:
                Loading(cursor, self._load, self._call).empty()
            self._note(cursor, before.ended())
        return before.ended()

    def facts(self, progress: Progress) -> Mapping[str, Any]:
        return {"table": self._load.table}

    def close(self) -> None:
        self._connections.give_back(self._where, self._connection)

    def _hold(self, cursor: Cursor, before: Progress) -> None:
        """Lock the note of this transfer, and check that it is as far as `before`."""
        cursor.execute(
            SQL("SELECT chunks, done FROM {} WHERE task_run_id = %s FOR UPDATE").format(Identifier(BOOKMARKS)),
            [self._call.task_run_id],
        )
        if cursor.fetchone() != (before.chunks, before.done):
            raise Overtaken

    def _note(self, cursor: Cursor, after: Progress) -> None:
        cursor.execute(
            SQL(
                "UPDATE {} SET chunks = %s, rows_read = %s, rows_written = %s, done = %s, updated_at = now()"
                " WHERE task_run_id = %s"
            ).format(Identifier(BOOKMARKS)),
            [after.chunks, after.rows_read, after.rows_written, after.done, self._call.task_run_id],
        )

    @contextmanager
    def _transaction(self) -> Iterator[Cursor]:
        connection, call = self._connection, self._call
        stopping = watched(lambda: _cancel(connection), None, call.cancelled)
        with _as_outcomes(call), stopping, connection.transaction(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('noetl.task_run_id', %s, true), set_config('statement_timeout', %s, true)",
                [call.task_run_id, str(int((call.timeout_s or 0) * 1000))],
            )
            yield cursor


def _connected(connections: Connections, where: Where, call: ToolCall) -> Connection:
    try:
        return connections.take(where, call.cancelled, call.timeout_s)
    except psycopg.Error as error:
        raise ToolFailed(unreachable(error)) from error
    except (AllInUse, OSError) as error:
        raise ToolFailed(Outcome.failed("db_connection", f"transfer: {error}")) from error
    except AddressRefused as error:
        refused = Outcome.failed("client_error", f"transfer: {error}", retryable=False, code="address_refused")
        raise ToolFailed(refused) from error


@contextmanager
def _as_outcomes(call: ToolCall) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        if call.cancelled.is_set():
            raise ToolFailed(Outcome.failed("cancelled", "transfer: cancelled", retryable=False)) from error
        raise ToolFailed(not_filled(error)) from error


def _cancel(connection: Connection) -> None:
    with suppress(psycopg.Error, OSError):
        connection.cancel_safe(timeout=5)
