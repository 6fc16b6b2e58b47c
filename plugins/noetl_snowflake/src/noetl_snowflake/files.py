"""The rows of a query, some at a time, and as a stored file, in constant memory."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.rows.stored import reference, stored
from noetl_core.values.strict_json import parsed

FORMATS: Final = ("csv", "jsonl")
BATCH_ROWS: Final = 2_000
BATCH_BYTES: Final = 4 * 1024 * 1024
"""Rows are held until they are as many, or as large together: a single one may have 128 MB."""
_SEMI_STRUCTURED: Final = frozenset({5, 9, 10})
"""Types of columns that Snowflake gives as JSON text: VARIANT, OBJECT, ARRAY."""


def batches(cursor: Any, stop: Callable[[], None]) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the rows of a cursor, some at a time, with JSON as its value. `stop` raises once nobody needs them any more."""
    parts = [at for at, column in enumerate(cursor.description) if column[1] in _SEMI_STRUCTURED]
    batch: list[Sequence[Any]] = []
    held = 0
    while (row := cursor.fetchone()) is not None:
        held += sum(len(value) for value in row if isinstance(value, str | bytes | bytearray))
        batch.append(_with_json(row, parts) if parts else row)
        if len(batch) == BATCH_ROWS or held >= BATCH_BYTES:
            stop()
            yield batch
            batch, held = [], 0
    stop()
    if batch:
        yield batch


def _with_json(row: Sequence[Any], parts: list[int]) -> list[Any]:
    out = list(row)
    for at in parts:
        if isinstance(out[at], str):
            try:
                out[at] = parsed(out[at].encode())
            except ValueError:
                continue  # Snowflake writes `undefined`, which is no JSON
    return out


def check_format(form: Any) -> None:
    """Raise `BadInput` where `to` names no format."""
    if form not in FORMATS:
        raise BadInput(f"`to` {str(form)[:20]!r} is unknown: csv or jsonl; a task of kind duckdb writes these as Parquet")


def written(call: ToolCall, form: str, columns: list[str], batches: Iterator[Sequence[Sequence[Any]]]) -> dict[str, Any]:
    """Write the rows to a file of the execution, and return its reference."""
    count = 0
    with stored(call, form) as out:
        if form == "csv":
            out.write(_lines([columns]))
        for batch in batches:
            count += len(batch)
            rows = sql.table(columns, batch, len(batch))["rows"]
            if form == "csv":
                out.write(_lines([[_text(row[name]) for name in columns] for row in rows]))
            else:
                out.write("".join(_dumps(row) + "\n" for row in rows).encode())
        return reference(out.finish(), form, count, columns)


def _lines(rows: list[list[Any]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def _text(value: Any) -> Any:
    return _dumps(value) if isinstance(value, dict | list | bool) else value


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
