"""COPY into a table, in constant memory whatever the size (docs/tools/postgres.md, "COPY").

In: CSV goes to the server unchanged; the rows of JSON and JSON lines are converted one by one; DuckDB reads Parquet. All parts of
a
source are one transaction. `postgres_export` is the way out.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import psycopg
from psycopg.sql import SQL, Composed, Identifier, Literal

from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.rows.sources import FORMATS, Part, Row, object_bytes, parts_of, rows_of
from noetl_core.values.frozen import frozen

Cursor = psycopg.Cursor[tuple[Any, ...]]
MODES: Final = ("append", "replace", "upsert")
MAX_HEADER: Final = 1024 * 1024
_JSON, _JSONB, _BYTEA = 114, 3802, 17
_NEW: Final = "noetl_new"
"""The temporary table of an upsert."""
_PLACE: Final = "noetl_place"


@frozen
class Load:
    """The settings of `copy` for a table to fill."""

    table: str
    columns: Mapping[str, str] | None = None
    """Column -> its name in the source; None: the columns of the source."""
    mode: str = "append"
    keys: tuple[str, ...] = ()
    form: str | None = None
    delimiter: str = ","
    header: bool = True


@dataclass(slots=True)
class Copied:
    """The outcome of a copy: rows read, rows written, and their columns."""

    read: int = 0
    written: int = 0
    columns: tuple[str, ...] = ()


def load_of(options: Mapping[str, Any]) -> Load:
    """Return the checked settings of `copy`. Raises `BadInput`."""
    table, form = options.get("into"), options.get("format")
    if not isinstance(table, str) or not table.strip():
        raise BadInput("`copy.into` must name a table")
    if form is not None and form not in FORMATS:
        raise BadInput(f"`copy.format` {str(form)[:20]!r} is unknown: {', '.join(FORMATS)}")
    delimiter, header = options.get("delimiter", ","), options.get("header", True)
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\n\r':
        raise BadInput("`copy.delimiter` must be one character")
    columns = columns_of(options.get("columns"), "copy.columns")
    if header is False and columns is None:
        raise BadInput("`copy.header: false` needs `copy.columns`: their names, in the order of the file")
    mode, keys = mode_of(options, "copy.")
    return Load(table, columns, mode, keys, form, delimiter, header is not False)


def columns_of(columns: Any, name: str) -> dict[str, str] | None:
    """Return columns as `{column: its name in the source}`. Raises `BadInput`."""
    if columns is None:
        return None
    found = dict(columns) if isinstance(columns, Mapping) else {one: one for one in columns} if isinstance(columns, list) else {}
    if not found or not all(isinstance(one, str) and one for pair in found.items() for one in pair):
        raise BadInput(f"`{name}` must be a list of columns, or a mapping of columns to their names in the source")
    return found


def mode_of(options: Mapping[str, Any], prefix: str = "") -> tuple[str, tuple[str, ...]]:
    """Return `mode` and `keys`, checked. Raises `BadInput`."""
    mode, keys = options.get("mode", "append"), options.get("keys")
    if mode not in MODES:
        raise BadInput(f"`{prefix}mode` {str(mode)[:20]!r} is unknown: {', '.join(MODES)}")
    listed = [keys] if isinstance(keys, str) else keys or []
    if not isinstance(listed, list) or not all(isinstance(key, str) and key for key in listed):
        raise BadInput(f"`{prefix}keys` must be a list of columns")
    if (mode == "upsert") != bool(listed):
        raise BadInput(
            f"`{prefix}mode: upsert` needs `{prefix}keys` (the columns that identify a row), and only this mode takes them"
        )
    return mode, tuple(listed)


def table_name(name: str) -> Identifier:
    """Return the identifier of `table` or `schema.table`."""
    return Identifier(*name.split("."))


class Loading:
    """Fills a table within the transaction of `cursor`: `add` parts, then `finish`."""

    def __init__(self, cursor: Cursor, load: Load, call: ToolCall) -> None:
        self._cursor, self._load, self._call = cursor, load, call
        self._into: Identifier | None = None
        self._names: tuple[str, ...] = ()
        self._oids: tuple[int, ...] = ()
        self.copied = Copied()

    def empty(self) -> None:
        """Begin a replacement: the table has no rows any more."""
        self._cursor.execute(SQL("TRUNCATE {}").format(table_name(self._load.table)))

    def add(self, part: Part, name: str) -> None:
        """Copy the rows of a part. Raises `BadInput`, `psycopg.Error`, and the errors of reading the part."""
        if part.form == "csv" and part.rows is None:
            self._csv(object_bytes(part, self._call), name)
        elif part.form == "parquet" and part.rows is None:
            self._parquet(part)
        else:
            self.rows(rows_of(part, self._call, name), name)

    def finish(self) -> Copied:
        """Move the rows collected by an upsert into the table."""
        if self._load.mode != "upsert":
            self.copied.written = self.copied.read
        elif self._into is not None:
            self._merge()
        return self.copied

    # --- rows -------------------------------------------------------------------------------------------------------------

    def rows(self, rows: Iterator[Row], name: str) -> None:
        """Copy rows, one by one."""
        first = next(rows, None)
        if first is None:
            return
        pairs = self._load.columns or {column: column for column in first}
        self._begin(tuple(pairs))
        known, missing = frozenset(pairs.values()), set(pairs.values())
        sources = tuple(pairs.values())
        number = 0
        with self._cursor.copy(self._statement(SQL(""))) as copy:
            for number, row in enumerate(chain([first], rows), 1):
                if self._load.columns is None and not row.keys() <= known:
                    more = ", ".join(sorted(row.keys() - known))
                    raise BadInput(
                        f"row {number} of `{name}` has {more[:100]}, which the first row does not have: name the `columns`"
                    )
                if missing:
                    missing -= row.keys()
                cells = [_cell(row.get(source), oid) for source, oid in zip(sources, self._oids, strict=True)]
                try:
                    copy.write_row(cells)
                except psycopg.DataError as error:
                    raise BadInput(f"row {number} of `{name}`: {_place(pairs, cells)}{error}") from error
        if missing:
            raise BadInput(f"no row of `{name}` has {', '.join(sorted(missing))}")
        self.copied.read += number

    def _csv(self, body: Iterator[bytes], name: str) -> None:
        load = self._load
        if load.header:
            names, body = _header(body, load.delimiter, name)
            if not names:
                return
            selection = load.columns or {one: one for one in names}
            missing = set(selection.values()) - set(names)
            if missing:
                raise BadInput(f"`{name}` has no column {', '.join(sorted(missing))}: it has {', '.join(names)[:300]}")
        else:
            selection = dict(load.columns or {})
            names = list(selection.values())
        if len(selection) < len(names):
            self._some_columns(names, selection, body)
            return
        targets = {source: target for target, source in selection.items()}
        self._begin(tuple(targets[one] for one in names))
        self._pour(self._statement(self._csv_options()), body)

    def _csv_options(self) -> Composed:
        delimiter = SQL(", DELIMITER {}").format(Literal(self._load.delimiter))
        return SQL(" (FORMAT csv, ENCODING 'UTF8'{})").format(delimiter)

    def _some_columns(self, names: Sequence[str], selection: Mapping[str, str], body: Iterator[bytes]) -> None:
        """Copy a file with more columns than are wanted through a temporary table of text."""
        self._begin(tuple(selection))
        file = Identifier("noetl_file")
        columns = SQL(", ").join(SQL("{} text").format(Identifier(one)) for one in names)
        self._cursor.execute(SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(file, columns))
        with self._cursor.copy(SQL("COPY {} FROM STDIN{}").format(file, self._csv_options())) as copy:
            for piece in body:
                copy.write(piece)
        assert self._into is not None
        kinds = self._kinds()
        values = SQL(", ").join(
            SQL("{}::{}").format(Identifier(source), SQL(kind)) for source, kind in zip(selection.values(), kinds, strict=True)
        )
        self._cursor.execute(SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(self._into, _list(self._names), values, file))
        self.copied.read += self._cursor.rowcount
        self._cursor.execute(SQL("DROP TABLE {}").format(file))

    def _kinds(self) -> list[str]:
        """Return the types of the columns, as SQL writes them."""
        listed = SQL(
            "SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute a WHERE a.attrelid = {}::regclass AND a.attname = {}"
        )
        target = Literal(table_name(self._load.table).as_string(self._cursor))
        found = []
        for name in self._names:
            self._cursor.execute(listed.format(target, Literal(name)))
            row = self._cursor.fetchone()
            found.append("text" if row is None else str(row[0]))
        return found

    def _parquet(self, part: Part) -> None:
        from noetl_core.tools.postgres.parquet import parquet_rows  # 130 ms: only Parquet needs DuckDB

        with parquet_rows(part, self._call, self._load.columns) as (names, pieces):
            self._begin(tuple(names))
            self._pour(self._statement(SQL(" (FORMAT csv, ENCODING 'UTF8')")), pieces)

    def _pour(self, statement: Composed, pieces: Iterator[bytes]) -> None:
        with self._cursor.copy(statement) as copy:
            for piece in pieces:
                copy.write(piece)
        self.copied.read += self._cursor.rowcount

    # --- destinations -------------------------------------------------------------------------------------------------------

    def _begin(self, names: tuple[str, ...]) -> None:
        """Prepare for rows with these columns."""
        if self._into is not None:
            if names != self._names:
                if set(names) != set(self._names):
                    raise BadInput(
                        f"the parts of the source have different columns: {', '.join(names)[:200]}; name the `columns`"
                    )
                self._names = names
                self._look()
            return
        self._names = self.copied.columns = names
        target = table_name(self._load.table)
        lacking = set(self._load.keys) - set(names)
        if lacking:
            raise BadInput(f"`keys` has {', '.join(sorted(lacking))}, which is not among the columns {', '.join(names)[:200]}")
        if self._load.mode == "upsert":
            self._cursor.execute(
                SQL("CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
                    Identifier(_NEW), _list(names), target
                )
            )
            self._cursor.execute(
                SQL("ALTER TABLE {} ADD COLUMN {} bigint GENERATED ALWAYS AS IDENTITY").format(
                    Identifier(_NEW), Identifier(_PLACE)
                )
            )
            target = Identifier(_NEW)
        self._into = target
        self._look()

    def _look(self) -> None:
        """Read the types of the columns."""
        assert self._into is not None
        self._cursor.execute(SQL("SELECT {} FROM {} LIMIT 0").format(_list(self._names), self._into))
        self._oids = tuple(column.type_code for column in self._cursor.description or ())

    def _statement(self, options: SQL | Composed) -> Composed:
        assert self._into is not None
        return SQL("COPY {} ({}) FROM STDIN{}").format(self._into, _list(self._names), options)

    def _merge(self) -> None:
        """Insert new rows, and update those with existing keys. Of rows with the same keys the last one counts."""
        others = [name for name in self._names if name not in self._load.keys]
        update = SQL(", ").join(SQL("{0} = EXCLUDED.{0}").format(Identifier(name)) for name in others)
        action = SQL("UPDATE SET {}").format(update) if others else SQL("NOTHING")
        self._cursor.execute(
            SQL(
                "INSERT INTO {target} ({columns}) SELECT DISTINCT ON ({keys}) {columns} FROM {new} ORDER BY {keys}, {place} DESC"
                " ON CONFLICT ({keys}) DO {action}"
            ).format(
                target=table_name(self._load.table),
                columns=_list(self._names),
                keys=_list(self._load.keys),
                new=Identifier(_NEW),
                place=Identifier(_PLACE),
                action=action,
            )
        )
        self.copied.written = self._cursor.rowcount


def copy_in(cursor: Cursor, call: ToolCall, options: Mapping[str, Any]) -> dict[str, Any]:
    """Fill a table; return the result of the task. Raises `BadInput`, `psycopg.Error`."""
    load = load_of(options)
    loading = Loading(cursor, load, call)
    if load.mode == "replace":
        loading.empty()
    for part in parts_of(options.get("from"), call, "copy.from", load.form):
        loading.add(part, "copy.from")
    copied = loading.finish()
    return {"rows": [], "columns": list(copied.columns), "row_count": copied.written, "rows_read": copied.read}


def _list(names: Sequence[str]) -> Composed:
    return SQL(", ").join(map(Identifier, names))


def _cell(value: Any, oid: int) -> Any:
    """Return a value in the text form of COPY."""
    if value is None:
        return None
    if oid in (_JSON, _JSONB):
        return json.dumps(value, ensure_ascii=False)
    if oid == _BYTEA and isinstance(value, Mapping) and set(value) == {"base64"}:
        return base64.b64decode(str(value["base64"]))
    if isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(one, Mapping) for one in value)):
        return json.dumps(value, ensure_ascii=False)
    return value


def _place(names: Iterable[str], cells: Sequence[Any]) -> str:
    """Return which column has the null character, which no text of PostgreSQL holds."""
    found = (column for column, cell in zip(names, cells, strict=True) if isinstance(cell, str) and "\0" in cell)
    return next((f"column {column}: " for column in found), "")


def _header(body: Iterator[bytes], delimiter: str, name: str) -> tuple[list[str], Iterator[bytes]]:
    """Return the names in the first record of CSV, and the bytes after it."""
    held = b""
    for piece in body:
        held += piece
        end = _record_end(held)
        if end is not None:
            break
        if len(held) > MAX_HEADER:
            raise BadInput(f"`{name}` is not CSV: its first line does not end")
    else:
        end = len(held)
    try:
        line = held[:end].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"`{name}` is not UTF-8: {error.reason}") from error
    names = next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter), [])
    if len(set(names)) < len(names) or not all(names):
        raise BadInput(f"`{name}`: the first line must name the columns, each once: {line.strip()[:200]}")
    return names, chain([held[end:]], body)


def _record_end(held: bytes) -> int | None:
    """Return where the first record ends: at a line's end that is not within quotes."""
    at = held.find(b"\n")
    while at >= 0:
        if held.count(b'"', 0, at) % 2 == 0:
            return at + 1
        at = held.find(b"\n", at + 1)
    return None
