"""The rows of a query as a stored file, in constant memory."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.stored_rows import reference, stored

FORMATS: Final = ("csv", "jsonl")


def written(call: ToolCall, form: Any, names: Sequence[str], batches: Iterator[Sequence[Sequence[Any]]]) -> dict[str, Any]:
    """Write the rows to a file of the execution, and return its reference. Raises `BadInput`."""
    if form not in FORMATS:
        raise BadInput(f"`to` {str(form)[:20]!r} is unknown: csv or jsonl; a task of kind duckdb writes these as Parquet")
    columns, count = sql.unique(list(names)), 0
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
