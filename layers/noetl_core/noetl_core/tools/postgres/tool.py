"""`kind: postgres`: SQL in one transaction per task; parameters are always bound (formal specification 5,
docs/tools/postgres.md).

Placeholders are those of psycopg: `%s` with a list of `params`, `%(name)s` with a mapping; mappings are bound as `jsonb`. The
transaction commits when every statement succeeded, and rolls back otherwise. `current_setting('noetl.task_run_id')` is the
task run's id, for writes that must not happen twice. Helpers on errors: `pg {code, sqlstate, message, ...}` with the
five-character SQLSTATE.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg.types.json import Jsonb

from noetl_core.engine.outcome import Outcome
from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.calls.watch import StopReason, watched
from noetl_core.tools.network.addresses import AddressPolicy, AddressRefused
from noetl_core.tools.postgres.connections import AllInUse, Connection, Connections, Where, where_of
from noetl_core.tools.postgres.errors import failed, helper, kind_of, not_filled, unreachable
from noetl_core.tools.stopping import noted_on_error

FETCH_ROWS: Final = 2_000
_ISOLATION: Final = {
    "read committed": psycopg.IsolationLevel.READ_COMMITTED,
    "repeatable read": psycopg.IsolationLevel.REPEATABLE_READ,
    "serializable": psycopg.IsolationLevel.SERIALIZABLE,
}


class PostgresTool:
    """Inputs `auth` (or `connection`), `command` (`query`, `sql`, `commands`) or `copy`, `params`, `rows` (the command
    for each of them), `database`; spec `statement_timeout` (s), `read_only`, `isolation`, `max_rows`."""

    kind = "postgres"
    inline = False

    def __init__(self, policy: AddressPolicy | None = None) -> None:
        """`policy` None: read from the environment at the first call."""
        self._connections = Connections(policy)

    def stored(self, inputs: Mapping[str, Any]) -> Collection[str]:
        """Return the inputs that may end up in the object that a COPY writes."""
        copy = inputs.get("copy")
        return ("copy", "params") if isinstance(copy, Mapping) and "to" in copy else ()

    def run(self, call: ToolCall) -> Outcome:
        work, where = _Work(call), where_of(call)
        connection = self._connected(call, where)
        if isinstance(connection, Outcome):
            return connection
        try:
            connection.isolation_level, connection.read_only = work.isolation, work.read_only
            with watched(lambda: _cancel(connection), call.timeout_s, call.cancelled) as stop:
                return _transaction(connection, work, stop)
        finally:
            self._connections.give_back(where, connection)

    def close(self) -> None:
        """Close kept connections."""
        self._connections.close()

    def _connected(self, call: ToolCall, where: Where) -> Connection | Outcome:
        try:
            return self._connections.take(where, call.cancelled, call.timeout_s)
        except psycopg.Error as error:
            return unreachable(error)
        except AllInUse as error:
            return Outcome.failed("db_connection", f"postgres: {error}", code="all_in_use")
        except AddressRefused as error:
            return Outcome.failed("client_error", f"postgres: {error}", retryable=False, code="address_refused")
        except OSError as error:
            return Outcome.failed("db_connection", f"postgres: the host cannot be resolved: {error}")


class _Work:
    """The checked inputs of a call. Raises `BadInput`."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.copy = call.inputs.get("copy")
        if self.copy is not None and not isinstance(self.copy, Mapping):
            raise BadInput("`copy` must be a mapping: {from, into} or {query, to}")
        if self.copy is not None and ("into" in self.copy) == ("to" in self.copy):
            raise BadInput("`copy` needs `into` (a table to fill) or `to` (the format of a file to write)")
        if self.copy is not None and call.inputs.get("rows") is not None:
            raise BadInput("`rows` belongs to `command`: write `copy: {from: ..., into: ...}`")
        self.statements = [] if self.copy is not None else sql.statements(call)
        self.max_rows = sql.max_rows(call)
        self.timeout_ms = _statement_timeout(call)
        self.read_only = call.spec.get("read_only") is True
        isolation = call.spec.get("isolation")
        word = str(isolation).lower().replace("_", " ")
        if isolation is not None and word not in _ISOLATION:
            raise BadInput(f"`spec.isolation` {str(isolation)[:40]!r} is unknown: {', '.join(_ISOLATION)}")
        self.isolation = _ISOLATION[word] if isolation is not None else None


def _transaction(connection: Connection, work: _Work, stop: StopReason) -> Outcome:
    try:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, true), set_config('noetl.task_run_id', %s, true)",
                [str(work.timeout_ms), work.call.task_run_id],
            )
            result = _run(cursor, work) if work.copy is None else _copy(cursor, work.call, work.copy)
    except sql.TooManyRows as error:
        return Outcome.failed("limit", f"postgres: {error}", retryable=False)
    except psycopg.Error as error:
        if stop.why == "cancelled":
            return Outcome.failed("cancelled", "postgres: cancelled", retryable=False, pg=helper(error))
        return failed(error) if work.copy is None else not_filled(error)
    return Outcome.ok(result)


def _copy(cursor: psycopg.Cursor[tuple[Any, ...]], call: ToolCall, options: Mapping[str, Any]) -> dict[str, Any]:
    if "into" in options:
        from noetl_core.tools.postgres.copy import copy_in  # 10 ms: only a COPY needs it

        return copy_in(cursor, call, options)
    from noetl_core.tools.postgres.export import copy_out  # 10 ms: only a COPY needs it

    return copy_out(cursor, call, options, sql.bound(call.inputs.get("params"), _value))


def _run(cursor: psycopg.Cursor[tuple[Any, ...]], work: _Work) -> dict[str, Any]:
    rows, todo = work.call.inputs.get("rows"), work.statements
    if rows is not None:
        if not isinstance(rows, list) or len(todo) != 1:
            raise BadInput("`rows` must be a list, with one `command` that is run for each of them")
        with noted_on_error(todo[0].text):
            cursor.executemany(todo[0].text.encode(), [sql.bound(row, _value) for row in rows])
        return sql.changed(cursor.rowcount)
    answers = sql.Answers(work.call)
    for statement in todo:
        # Bytes are passed unchanged: the text is the author's, values come only as parameters.
        with noted_on_error(statement.text):
            cursor.execute(statement.text.encode(), sql.bound(statement.params, _value))
            while True:
                if cursor.description is not None:
                    names = [column.name for column in cursor.description]
                    answers.rows(sql.table(names, _fetched(cursor), work.max_rows))
                else:
                    answers.changed(cursor.rowcount)
                if not cursor.nextset():
                    break
    return answers.result()


def _fetched(cursor: psycopg.Cursor[tuple[Any, ...]]) -> Any:
    while batch := cursor.fetchmany(FETCH_ROWS):
        yield from batch


def _value(value: Any) -> Any:
    if isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(v, Mapping | list) for v in value)):
        return Jsonb(value)
    return value


def _statement_timeout(call: ToolCall) -> int:
    """Return the milliseconds that a statement may take; 0 for no limit."""
    seconds = call.spec.get("statement_timeout")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 86_400):
        raise BadInput("`spec.statement_timeout` must be a number of seconds")
    times = [t for t in (seconds, call.timeout_s) if t is not None]
    return max(1, int(min(times) * 1000)) if times else 0


def _cancel(connection: Connection) -> None:
    with suppress(psycopg.Error, OSError):
        connection.cancel_safe(timeout=5)


__all__ = ["Connection", "Connections", "PostgresTool", "kind_of", "where_of"]
