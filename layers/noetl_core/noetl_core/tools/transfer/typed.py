"""Chunks of a source that knows the types of its columns, for targets that make tables or files with types of their own.

A row is JSON, and DuckDB guesses types from it, separately for each chunk. By the types of the source a column is the same in
every chunk: decimals keep their digits, times their zone, bytes are bytes, and a column of nothing but nulls has its type, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from noetl_core.tools.base import BadInput, ToolFailed
from noetl_core.tools.duckdb.tool import failed
from noetl_core.tools.postgres.parquet import working
from noetl_core.tools.rows.csv_pipes import quoted, text
from noetl_core.tools.rows.sources import Row

USUAL_ROW: Final = 16 * 1024 * 1024
"""The longest line that DuckDB accepts by default: its buffers are twice as large."""
_AS_JSON: Final = frozenset({"JSON", "BLOB"})
"""Types whose values are written as JSON; all others as text."""


def columns_of(types: Mapping[str, str], columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return column -> its name in the source. Raises `BadInput` where the source has no such column."""
    pairs = {name: name for name in types} if columns is None else dict(columns)
    missing = sorted(set(pairs.values()) - types.keys())
    if missing:
        raise BadInput(f"the source has no column {', '.join(missing)[:200]}: it has {', '.join(types)[:300]}")
    return pairs


def selected(rows: Sequence[Row], pairs: Mapping[str, str], types: Mapping[str, str], path: Path) -> str:
    """Write rows to a file, and return the query that gives them with their types. `pairs`: as `columns_of` gives them."""
    kinds = {column: types[source] for column, source in pairs.items()}
    cells = ({column: _cell(row.get(source), kinds[column]) for column, source in pairs.items()} for row in rows)
    options = lines_of(cells, path)
    read = ", ".join(f"{text(column)}: '{'JSON' if kind in _AS_JSON else 'VARCHAR'}'" for column, kind in kinds.items())
    listed = ", ".join(_as_type(column, kind) for column, kind in kinds.items())
    return f"SELECT {listed} FROM read_json({text(str(path))}, {options}, columns = {{{read}}})"


def lines_of(rows: Iterable[Row], path: Path) -> str:
    """Write rows to a file, one a line, and return DuckDB's options for reading it."""
    longest = 0
    with path.open("w") as file:
        for row in rows:
            longest = max(longest, file.write(json.dumps(row) + "\n"))  # ASCII: a character is a byte
    large = f", maximum_object_size = {longest + 1}" if longest >= USUAL_ROW else ""
    return f"format = 'newline_delimited'{large}"


def parquet(rows: Sequence[Row], pairs: Mapping[str, str], types: Mapping[str, str]) -> bytes:
    """Return rows as a Parquet file with the types of the source. Raises `ToolFailed`."""
    with working() as (connection, folder):
        query = selected(rows, pairs, types, folder / "rows.jsonl")
        path = folder / "rows.parquet"
        try:
            connection.execute(f"COPY ({query}) TO {text(str(path))} (FORMAT parquet)")
        except duckdb.Error as error:
            raise ToolFailed(failed(error)) from error
        return path.read_bytes()


def _cell(value: Any, kind: str) -> Any:
    if value is None or kind in _AS_JSON or isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _as_type(column: str, kind: str) -> str:
    name = quoted(column)
    if kind == "BLOB":
        return f"from_base64(json_extract_string({name}, '$.base64')) AS {name}"
    return name if kind in ("JSON", "VARCHAR") else f"CAST({name} AS {kind}) AS {name}"
