"""The rows of a DuckDB task as a stored file. DuckDB writes Parquet and CSV; JSON lines are written by this module."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb

from noetl_core.ports import ObjectWriter
from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.rows.csv_pipes import text
from noetl_core.tools.rows.stored import FORMATS, reference, stored

BATCH: Final = 2_048
PIECE: Final = 1024 * 1024
_OPTIONS: Final = {"parquet": "FORMAT parquet", "csv": "FORMAT csv, HEADER true"}


def wanted_format(call: ToolCall) -> str | None:
    """Return the format of the file that the task returns; None if it returns rows. Raises `BadInput`."""
    form = call.inputs.get("to")
    if form is not None and form not in FORMATS:
        raise BadInput(f"`to` {str(form)[:20]!r} is unknown: {', '.join(FORMATS)}")
    return form


def write(
    connection: duckdb.DuckDBPyConnection, call: ToolCall, query: duckdb.Statement, params: Any, form: str, folder: Path
) -> dict[str, Any]:
    """Write the rows of a query and return the reference. The SQL may write to `folder`."""
    if query.type != duckdb.StatementType.SELECT:
        raise BadInput(f"`to` writes the rows of the last statement, which must be a SELECT, not {query.type.name}")
    with stored(call, form) as out:
        if form == "jsonl":
            names, rows = _lines(connection, query, params, out)
        else:
            names, rows = _file(connection, query, params, form, folder / f"rows.{form}", out)
        return reference(out.finish(), form, rows, names)


def _lines(
    connection: duckdb.DuckDBPyConnection, query: duckdb.Statement, params: Any, out: ObjectWriter
) -> tuple[list[str], int]:
    connection.execute(query, params) if params else connection.execute(query)
    names, count = sql.unique([str(column[0]) for column in connection.description or ()]), 0
    while batch := connection.fetchmany(BATCH):
        count += len(batch)
        rows = sql.table(names, batch, BATCH)["rows"]
        out.write("".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows).encode())
    return names, count


def _file(
    connection: duckdb.DuckDBPyConnection, query: duckdb.Statement, params: Any, form: str, path: Path, out: ObjectWriter
) -> tuple[list[str], int]:
    statement = f"COPY ({query.query.rstrip().rstrip(';')}\n) TO {text(str(path))} ({_OPTIONS[form]})"
    (connection.execute(statement, params) if params else connection.execute(statement))
    count = connection.fetchone()
    reader = "read_parquet" if form == "parquet" else "read_csv"
    names = list(
        connection.sql(f"SELECT * FROM {reader}({text(str(path))}{'' if form == 'parquet' else ', all_varchar = true'})").columns
    )
    for piece in _pieces(path):
        out.write(piece)
    return names, int(count[0]) if count else 0


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


@contextmanager
def out_folder(connection: duckdb.DuckDBPyConnection, folder: Path) -> Iterator[Path]:
    """Restrict the SQL to one folder, and yield it."""
    place = folder / "out"
    place.mkdir()
    connection.execute(f"SET allowed_directories = [{text(str(place))}]")
    yield place
