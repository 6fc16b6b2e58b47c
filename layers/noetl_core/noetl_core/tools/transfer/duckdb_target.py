"""A table in a DuckDB file of the execution's scratch folder as the target of a transfer. The file also keeps its progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from noetl_core.tools.base import ToolCall, ToolFailed
from noetl_core.tools.duckdb.tool import failed
from noetl_core.tools.postgres.copy import Load
from noetl_core.tools.rows.csv_pipes import quoted, text
from noetl_core.tools.rows.duckdb_memory import memory_limit
from noetl_core.tools.rows.scratch import CLOSED, spilling
from noetl_core.tools.rows.sources import Row
from noetl_core.tools.transfer.staged import Staged
from noetl_core.tools.transfer.target import BOOKMARKS, Overtaken, Progress
from noetl_core.tools.transfer.typed import columns_of, lines_of, selected

_LIMITS: Final[dict[str, Any]] = {"threads": 2}
_MEMORY: Final = "512MB"


class DuckDBTarget:
    """Fills `load.table` of the file `database`. A missing table is created from the first chunk."""

    def __init__(self, database: str, load: Load, call: ToolCall, staged: Staged, folder: Path) -> None:
        self._load, self._call, self._staged, self._folder = load, call, staged, folder
        try:
            self._connection = duckdb.connect(
                database, config=_LIMITS | {"memory_limit": memory_limit(_MEMORY)} | spilling(folder) | CLOSED
            )
        except duckdb.Error as error:
            raise ToolFailed(failed(error)) from error

    def progress(self) -> Progress:
        self._run(
            f"CREATE TABLE IF NOT EXISTS {BOOKMARKS} (task_run_id VARCHAR PRIMARY KEY, chunks BIGINT, rows_read BIGINT,"
            " rows_written BIGINT, done BOOLEAN, source VARCHAR)"
        )
        begun = f"INSERT INTO {BOOKMARKS} VALUES (?, 0, 0, 0, false, ?) ON CONFLICT DO NOTHING"
        self._run(begun, [self._call.task_run_id, self._staged.identity])
        noted = f"SELECT chunks, rows_read, rows_written, done, source FROM {BOOKMARKS} WHERE task_run_id = ?"
        (row,) = self._run(noted, [self._call.task_run_id])
        return Progress(*row)

    def write(self, rows: Sequence[Row], before: Progress) -> Progress:
        source, columns = self._chunk(rows)
        table, listed = quoted(self._load.table), ", ".join(map(quoted, columns))
        self._run("BEGIN")
        try:
            self._check(before)
            self._run(f"CREATE TABLE IF NOT EXISTS {table} AS SELECT {listed} FROM {source} WHERE false")
            if before.chunks == 0 and self._load.mode == "replace":
                self._run(f"DELETE FROM {table}")
            if self._load.mode == "upsert":
                self._merge(table, listed, source)
            else:
                self._run(f"INSERT INTO {table} ({listed}) SELECT {listed} FROM {source}")
            after = before.after(len(rows), len(rows))
            self._note(after)
            self._run("COMMIT")
        except BaseException:
            self._connection.rollback()
            raise
        return after

    def finish(self, before: Progress) -> Progress:
        self._run("BEGIN")
        try:
            self._check(before)
            if before.chunks == 0:
                self._without_rows()
            self._note(before.ended())
            self._run("COMMIT")
        except BaseException:
            self._connection.rollback()
            raise
        return before.ended()

    def _without_rows(self) -> None:
        """Leave the table as a source without rows does: empty where it is replaced; made if its columns are known."""
        table, types = quoted(self._load.table), self._staged.types
        if types:
            columns = ", ".join(
                f"{quoted(column)} {types[name]}" for column, name in columns_of(types, self._load.columns).items()
            )
            self._run(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
        there = self._run(
            "SELECT 1 FROM duckdb_tables() WHERE lower(table_name) = lower(?) AND NOT temporary", [self._load.table]
        )
        if self._load.mode == "replace" and there:
            self._run(f"DELETE FROM {table}")

    def facts(self, progress: Progress) -> Mapping[str, Any]:
        return {"table": self._load.table}

    def close(self) -> None:
        self._connection.close()

    def _chunk(self, rows: Sequence[Row]) -> tuple[str, list[str]]:
        """Write a chunk to a file; return the SQL of the source of its rows, and its columns. Raises `BadInput`."""
        path, types = self._folder / "chunk.jsonl", self._staged.types
        if types:
            typed = columns_of(types, self._load.columns)
            return f"({selected(rows, typed, types, path)})", list(typed)
        pairs = self._load.columns or {name: name for row in rows for name in row}
        options = lines_of(({column: row.get(source) for column, source in pairs.items()} for row in rows), path)
        return f"read_json({text(str(path))}, {options}, sample_size = -1)", list(pairs)

    def _merge(self, table: str, listed: str, source: str) -> None:
        """Replace the rows that the keys know. Of rows of the chunk with the same keys the last one counts."""
        keys = ", ".join(map(quoted, self._load.keys))
        same = " AND ".join(f"{table}.{quoted(key)} = chunk.{quoted(key)}" for key in self._load.keys)
        numbered = f"SELECT {listed}, row_number() OVER () AS place FROM {source}"
        self._run(
            f"CREATE OR REPLACE TEMP TABLE chunk AS SELECT * EXCLUDE (place) FROM ({numbered})"
            f" QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY place DESC) = 1"
        )
        self._run(f"DELETE FROM {table} USING chunk WHERE {same}")
        self._run(f"INSERT INTO {table} ({listed}) SELECT {listed} FROM chunk")

    def _check(self, before: Progress) -> None:
        found = self._run(f"SELECT chunks, done FROM {BOOKMARKS} WHERE task_run_id = ?", [self._call.task_run_id])
        if found != [(before.chunks, before.done)]:
            raise Overtaken

    def _note(self, after: Progress) -> None:
        self._run(
            f"UPDATE {BOOKMARKS} SET chunks = ?, rows_read = ?, rows_written = ?, done = ? WHERE task_run_id = ?",
            [after.chunks, after.rows_read, after.rows_written, after.done, self._call.task_run_id],
        )

    def _run(self, statement: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            done = self._connection.execute(statement, list(params)) if params else self._connection.execute(statement)
            return done.fetchall() if done.description else []
        except duckdb.Error as error:
            raise ToolFailed(failed(error)) from error
