"""Tables of PostgreSQL in a DuckDB task (docs/tools/duckdb.md, "attach").

DuckDB's own PostgreSQL extension is not part of its distribution, and extensions are not downloaded. Attached tables are
therefore copied with COPY into the task's database before its commands run, all from one snapshot of the other database.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import psycopg
from psycopg.sql import SQL, Composed

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed
from noetl_core.tools.calls.watch import watched
from noetl_core.tools.duckdb.sources import NAME
from noetl_core.tools.network.addresses import AddressRefused
from noetl_core.tools.postgres.connections import AllInUse, Connection, Connections, target_of
from noetl_core.tools.postgres.copy import table_name
from noetl_core.tools.postgres.errors import failed, unreachable
from noetl_core.tools.postgres.export import copied, described
from noetl_core.tools.postgres.parquet import load_table, types_of
from noetl_core.tools.rows.csv_pipes import quoted

_KEYS = frozenset({"auth", "database", "tables", "queries"})


def attach_databases(connection: duckdb.DuckDBPyConnection, call: ToolCall, connections: Connections, folder: Path) -> None:
    """Create a schema for every entry of `attach`, with the tables that it names. Raises `BadInput`, `ToolFailed`."""
    entries = call.inputs.get("attach") or {}
    if not isinstance(entries, Mapping):
        raise BadInput("`attach` must be a mapping: {name: {auth, tables}}")
    for name, entry in entries.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadInput(f"`attach.{str(name)[:60]}` must be an identifier: it is the schema of the tables")
        queries = _queries(name, entry)
        connection.execute(f"CREATE SCHEMA {quoted(name)}")
        _attach(connection, call, connections, folder, name, entry, queries)


def _queries(name: str, entry: Any) -> dict[str, Composed]:
    """Return the data to read, by table name."""
    if not isinstance(entry, Mapping) or set(entry) - _KEYS:
        raise BadInput(f"`attach.{name}` must be a mapping of {', '.join(sorted(_KEYS))}")
    tables, queries = entry.get("tables") or [], entry.get("queries") or {}
    if not isinstance(tables, list) or not all(isinstance(one, str) and one for one in tables):
        raise BadInput(f"`attach.{name}.tables` must be a list of tables")
    if not isinstance(queries, Mapping) or not all(isinstance(one, str) and one.strip() for one in queries.values()):
        raise BadInput(f"`attach.{name}.queries` must be a mapping of names to SQL")
    found = {one.rpartition(".")[2]: SQL("SELECT * FROM {}").format(table_name(one)) for one in tables}
    found |= {str(key): Composed([SQL(query.strip().rstrip(";"))]) for key, query in queries.items()}
    if not found:
        raise BadInput(f"`attach.{name}` names no `tables` and no `queries`")
    return found


def _attach(
    connection: duckdb.DuckDBPyConnection,
    call: ToolCall,
    connections: Connections,
    folder: Path,
    name: str,
    entry: Mapping[str, Any],
    queries: Mapping[str, Composed],
) -> None:
    where = target_of(call, entry.get("auth"), entry.get("database"))
    try:
        other = connections.take(where, call.cancelled, call.timeout_s)
    except psycopg.Error as error:
        raise ToolFailed(_of_attach(unreachable(error), name)) from error
    except (AllInUse, OSError) as error:
        raise ToolFailed(Outcome.failed("db_connection", f"duckdb: attach.{name}: {error}")) from error
    except AddressRefused as error:
        refused = Outcome.failed("client_error", f"duckdb: attach.{name}: {error}", retryable=False, code="address_refused")
        raise ToolFailed(refused) from error
    try:
        _read(connection, other, call, folder, name, queries)
    except psycopg.Error as error:
        raise ToolFailed(_of_attach(failed(error), name)) from error
    finally:
        connections.give_back(where, other)


def _read(
    connection: duckdb.DuckDBPyConnection,
    other: Connection,
    call: ToolCall,
    folder: Path,
    name: str,
    queries: Mapping[str, Composed],
) -> None:
    other.isolation_level, other.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
    stopping = watched(lambda: other.cancel_safe(timeout=5), call.timeout_s, call.cancelled)
    with stopping, other.transaction(), other.cursor() as cursor:
        if call.timeout_s is not None:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(max(1, int(call.timeout_s * 1000)))])
        for table, query in queries.items():
            types = types_of(described(cursor, query, None))
            create = f"CREATE TABLE {quoted(name)}.{quoted(table)} AS SELECT * FROM {{rows}}"
            load_table(connection, copied(cursor, query, None), types, create, folder)


def _of_attach(outcome: Outcome, name: str) -> Outcome:
    error = outcome.error
    assert error is not None
    message = error.message.replace("postgres: ", f"duckdb: attach.{name}: ", 1)
    return Outcome.failed(error.kind, message, code=error.code, **outcome.helpers)
