"""Files of rows that tasks return: the writer, and the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl_core.ports import ObjectWriter
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.rows.outlined import outlined
from noetl_core.tools.store import CONTENT_TYPES, HINT_COLUMNS

FORMATS: Final = ("csv", "jsonl", "parquet")


def stored(call: ToolCall, form: str) -> ObjectWriter:
    """Return the writer for the file of a task. A retry writes the same object. Raises `BadInput`."""
    if call.results is None:
        raise BadInput("this worker has no result store")
    out = call.results.writer(f"{call.execution_id}/store/{call.task_run_id}.{form}", CONTENT_TYPES[form])
    return outlined(out, call.results, form)


def reference(written: Mapping[str, Any], form: str, rows: int, names: list[str]) -> dict[str, Any]:
    """Return the reference to a file of rows, in the form of `kind: store`."""
    hint = {"type": "list", "length": rows, "columns": names[:HINT_COLUMNS]}
    return {**written, "format": form, "rows": rows, "schema_hint": hint}
