"""COPY out of a query into a stored object: CSV, JSON lines or Parquet (docs/tools/postgres.md, "COPY")."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from noetl_core.ports import ObjectWriter
from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.postgres.copy import Cursor, table_name
from noetl_core.tools.rows.stored import FORMATS, reference, stored

BATCH: Final = 2_000
PIECE: Final = 1024 * 1024


def copy_out(cursor: Cursor, call: ToolCall, options: Mapping[str, Any], params: Any) -> dict[str, Any]:
    """Write the rows of a query or a table to an object; return its reference. Raises `BadInput`, `psycopg.Error`."""
    form, query = options.get("to"), _query(options)
    if form not in FORMATS:
        raise BadInput(f"`copy.to` {str(form)[:20]!r} is unknown: {', '.join(FORMATS)}")
    with stored(call, form) as out:
        write = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}[form]
        names, rows = write(cursor, query, params, out)
        return reference(out.finish(), form, rows, names)


def _query(options: Mapping[str, Any]) -> Composed:
    query, table = options.get("query"), options.get("table")
    if (query is None) == (table is None):
        raise BadInput("`copy.to` needs `copy.query` or `copy.table`")
    if table is not None:
        if not isinstance(table, str) or not table.strip():
            raise BadInput("`copy.table` must name a table")
        columns = options.get("columns")
        if columns is not None and not (isinstance(columns, list) and columns and all(isinstance(one, str) for one in columns)):
            raise BadInput("`copy.columns` must be a list of columns")
        listed = SQL(", ").join(map(Identifier, columns)) if columns else SQL("*")
        return SQL("SELECT {} FROM {}").format(listed, table_name(table))
    if not isinstance(query, str) or not query.strip():
        raise BadInput("`copy.query` must be SQL text")
    return Composed([SQL(query.strip().rstrip(";"))])  # the author's text, like all SQL of a task


def _csv(cursor: Cursor, query: Composed, params: Any, out: ObjectWriter) -> tuple[list[str], int]:
    names = sql.unique([column.name for column in described(cursor, query, params)])
    header = io.StringIO(newline="")
    csv.writer(header, lineterminator="\n").writerow(names)
    out.write(header.getvalue().encode())
    for piece in copied(cursor, query, params):
        out.write(piece)
    return names, cursor.rowcount


def _jsonl(cursor: Cursor, query: Composed, params: Any, out: ObjectWriter) -> tuple[list[str], int]:
    count, names = 0, []
    with cursor.connection.cursor("noetl_copy") as rows:
        rows.execute(query, params)
        names = sql.unique([column.name for column in rows.description or ()])
        while batch := rows.fetchmany(BATCH):
            count += len(batch)
            lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in sql.table(names, batch, BATCH)["rows"])
            out.write(("\n".join(lines) + "\n").encode())
    return names, count


def _parquet(cursor: Cursor, query: Composed, params: Any, out: ObjectWriter) -> tuple[list[str], int]:
    import duckdb  # 130 ms: only Parquet needs it

    from noetl_core.tools.postgres.parquet import load_table, types_of, working  # 130 ms: only Parquet needs DuckDB

    types = types_of(described(cursor, query, params))
    with working() as (connection, folder):
        path = Path(folder, "rows.parquet")
        try:
            load_table(connection, copied(cursor, query, params), types, f"COPY {{rows}} TO '{path}' (FORMAT parquet)", folder)
        except duckdb.Error as error:
            raise BadInput(f"the rows cannot be written as Parquet: {str(error)[:500]}") from error
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                out.write(piece)
    return list(types), cursor.rowcount


def described(cursor: Cursor, query: Composed, params: Any) -> Sequence[psycopg.Column]:
    """Return the columns of a query."""
    with psycopg.ClientCursor(cursor.connection) as looking:
        looking.execute(SQL("SELECT * FROM ({}\n) AS noetl LIMIT 0").format(query), params)
        return looking.description or ()


def copied(cursor: Cursor, query: Composed, params: Any) -> Iterator[bytes]:
    """Yield the rows of a query as CSV without a header."""
    with cursor.copy(SQL("COPY ({}\n) TO STDOUT (FORMAT csv, ENCODING 'UTF8')").format(query), params) as copy:
        held = bytearray()
        for piece in copy:
            held += piece
            if len(held) >= PIECE:
                yield bytes(held)
                held.clear()
        if held:
            yield bytes(held)
