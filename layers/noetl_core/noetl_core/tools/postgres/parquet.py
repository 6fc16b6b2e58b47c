"""Converts Parquet and DuckDB tables to and from the CSV of PostgreSQL's COPY, with their types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import psycopg

from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.rows.csv_pipes import csv_of, from_csv, quoted, text
from noetl_core.tools.rows.duckdb_memory import memory_limit
from noetl_core.tools.rows.scratch import CLOSED, scratch, spilling
from noetl_core.tools.rows.sources import Part, object_file

_TYPES: Final = {
    16: "BOOLEAN", 17: "BLOB", 20: "BIGINT", 21: "SMALLINT", 23: "INTEGER", 26: "BIGINT", 700: "FLOAT", 701: "DOUBLE",
    114: "JSON", 3802: "JSON", 1082: "DATE", 1083: "TIME", 1114: "TIMESTAMP", 1184: "TIMESTAMPTZ", 2950: "UUID",
}  # fmt: skip
"""PostgreSQL's type (OID) -> DuckDB's; others are text."""
_NUMERIC: Final = 1700
_DIGITS: Final = 38
"""The most digits of a decimal in DuckDB and Parquet."""
_WORKING: Final[dict[str, Any]] = {"threads": 2}
_MEMORY: Final = "512MB"


@contextmanager
def parquet_rows(part: Part, call: ToolCall, columns: Mapping[str, str] | None) -> Iterator[tuple[list[str], Iterator[bytes]]]:
    """Yield the column names of a stored Parquet file (only those in `columns`, if given) and its rows as CSV. Raises
    `BadInput`."""
    with object_file(part, call) as path, working() as (connection, folder):
        source = f"read_parquet({text(str(path))})"
        try:
            names = list(connection.sql(f"SELECT * FROM {source}").columns)
        except duckdb.Error as error:
            raise BadInput(f"{path.name} is not Parquet: {str(error)[:300]}") from error
        selection = columns or {name: name for name in names}
        missing = set(selection.values()) - set(names)
        if missing:
            raise BadInput(f"the file has no column {', '.join(sorted(missing))}: it has {', '.join(names)[:300]}")
        rows = csv_of(connection, f"SELECT {as_text(connection, source, list(selection.values()))} FROM {source}", folder)
        yield list(selection), _read(rows, path.name)


def _read(rows: Iterator[bytes], name: str) -> Iterator[bytes]:
    try:
        yield from rows
    except duckdb.Error as error:
        raise BadInput(f"{name} cannot be read: {str(error)[:300]}") from error


def as_text(connection: duckdb.DuckDBPyConnection, source: str, names: Sequence[str]) -> str:
    """Return the select list that converts DuckDB's columns to PostgreSQL's text form."""
    types = dict(zip((relation := connection.sql(f"SELECT * FROM {source}")).columns, relation.types, strict=True))
    return ", ".join(_as_text(quoted(name), types[name]) for name in names)


def _as_text(column: str, kind: Any) -> str:
    if kind.id == "blob":
        return f"'\\x' || lower(hex({column})) AS {column}"
    if kind.id in ("list", "array", "struct", "map", "union", "variant"):
        return f"to_json({column}) AS {column}"
    return column


@contextmanager
def working() -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """Yield an in-memory database, and the folder to which it spills."""
    with (
        scratch("noetl-duckdb-") as folder,
        duckdb.connect(
            ":memory:", config=CLOSED | _WORKING | {"memory_limit": memory_limit(_MEMORY)} | spilling(folder)
        ) as connection,
    ):
        connection.execute("SET TimeZone = 'UTC'")
        yield connection, folder


def types_of(columns: Iterable[psycopg.Column]) -> dict[str, str]:
    """Return DuckDB's types for the columns of a query, by name. Raises `BadInput` where two have the same name."""
    found: dict[str, str] = {}
    for column in columns:
        if column.name in found:
            raise BadInput(f"the query has two columns {column.name!r}: name one of them with AS")
        kind = _TYPES.get(column.type_code, "VARCHAR")
        if column.type_code == _NUMERIC:
            precision, scale = column.precision, column.scale
            exact = precision is not None and scale is not None and 0 <= scale <= precision <= _DIGITS
            kind = f"DECIMAL({precision}, {scale})" if exact else "DOUBLE"
        found[column.name] = kind
    return found


def read_types(types: Mapping[str, str]) -> dict[str, str]:
    """Return the types with which PostgreSQL's CSV is read; `as_read` converts them to the final ones."""
    return {name: "VARCHAR" if kind in ("BLOB", "JSON") else kind for name, kind in types.items()}


def as_read(types: Mapping[str, str]) -> str:
    """Return the select list that converts CSV as PostgreSQL writes it to `types`."""
    return ", ".join(
        f"unhex({quoted(name)}[3:]) AS {quoted(name)}" if kind == "BLOB" else f"{quoted(name)}::{kind} AS {quoted(name)}"
        for name, kind in types.items()
    )


def load_table(
    connection: duckdb.DuckDBPyConnection, rows: Iterator[bytes], types: Mapping[str, str], statement: str, folder: Path
) -> None:
    """Run `statement`, whose `{rows}` are rows of CSV as PostgreSQL writes it. Raises `duckdb.Error`, and the errors of
    `rows`."""
    from_csv(connection, rows, read_types(types), statement.replace("{rows}", f"(SELECT {as_read(types)} FROM {{rows}})"), folder)
