"""A table in a DuckDB file of the execution's scratch folder as the target of a transfer. The file also keeps its progress."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from noetl_core.tools.base import ToolCall, ToolFailed
from noetl_core.tools.duckdb import failed
from noetl_core.tools.duckdb_pipes import quoted, text
from noetl_core.tools.postgres_copy import Load
from noetl_core.tools.row_sources import Row
from noetl_core.tools.scratch import CLOSED, spilling
from noetl_core.tools.transfer.target import Overtaken, Progress

BOOKMARKS: Final = "noetl_transfers"
_LIMITS: Final[dict[str, Any]] = {"memory_limit": "512MB", "threads": 2}


class DuckDBTarget:
    """Fills `load.table` of the file `database`. A table that is not there is made of the first chunk."""

    def __init__(self, database: str, load: Load, call: ToolCall, source: str, folder: Path) -> None:
        self._load, self._call, self._source, self._folder = load, call, source, folder
        try:
            self._connection = duckdb.connect(database, config=_LIMITS | spilling(folder) | CLOSED)
        except duckdb.Error as error:
            raise ToolFailed(failed(error)) from error

    def progress(self) -> Progress:
        self._run(
            f"CREATE TABLE IF NOT EXISTS {BOOKMARKS} (task_run_id VARCHAR PRIMARY KEY, chunks BIGINT, rows_read BIGINT,"
            " rows_written BIGINT, done BOOLEAN, source VARCHAR)"
        )
        begun = f"INSERT INTO {BOOKMARKS} VALUES (?, 0, 0, 0, false, ?) ON CONFLICT DO NOTHING"
        self._run(begun, [self._call.task_run_id, self._source])
        noted = f"SELECT chunks, rows_read, rows_written, done, source FROM {BOOKMARKS} WHERE task_run_id = ?"
        (row,) = self._run(noted, [self._call.task_run_id])
        return Progress(*row)

    def write(self, rows: Sequence[Row], before: Progress) -> Progress:
        pairs = self._load.columns or {name: name for row in rows for name in row}
        path = self._folder / "chunk.jsonl"
        with path.open("w") as file:
            for row in rows:
                file.write(json.dumps({column: row.get(source) for column, source in pairs.items()}) + "\n")
        source = f"read_json({text(str(path))}, format = 'newline_delimited', sample_size = -1)"
        table, listed = quoted(self._load.table), ", ".join(map(quoted, pairs))
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
        self._check(before)
        self._note(before.ended())
        self._run("COMMIT")
        return before.ended()

    def facts(self, progress: Progress) -> Mapping[str, Any]:
        return {"table": self._load.table}

    def close(self) -> None:
        self._connection.close()

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
