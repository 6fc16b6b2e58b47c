"""Files of rows that tasks give: where they are stored, and the reference to them."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, Self

from noetl_core.outlines import LineOutline
from noetl_core.ports import ObjectWriter, ResultStore
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.store import CONTENT_TYPES, HINT_COLUMNS
from noetl_core.values import with_outline

FORMATS: Final = ("csv", "jsonl", "parquet")


def stored(call: ToolCall, form: str) -> ObjectWriter:
    """Return what writes the file of a task: a retry writes the same object. Raises `BadInput`."""
    if call.results is None:
        raise BadInput("this worker has no result store")
    out = call.results.writer(f"{call.execution_id}/store/{call.task_run_id}.{form}", CONTENT_TYPES[form])
    return OutlinedLines(out, call.results) if form == "jsonl" else out


class OutlinedLines:
    """`ObjectWriter` of JSON lines over `out`, which makes an outline of them for templates that read parts. What is masked on
    its way has none."""

    def __init__(self, out: ObjectWriter, results: ResultStore) -> None:
        self._out, self._results = out, results
        self._lines, self._digest = LineOutline(), sha256()

    def __enter__(self) -> Self:
        self._out.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._out.__exit__(*error)

    def write(self, data: bytes) -> None:
        self._out.write(data)
        self._lines.write(data)
        self._digest.update(data)

    def finish(self) -> Mapping[str, Any]:
        written = dict(self._out.finish())
        checksum = f"sha256:{self._digest.hexdigest()}"
        outline = self._lines.finish(checksum) if written["checksum"] == checksum else None
        return with_outline(self._results, written, outline)


def reference(written: Mapping[str, Any], form: str, rows: int, names: list[str]) -> dict[str, Any]:
    """Return the reference to a file of rows, as `store` gives it."""
    hint = {"type": "list", "length": rows, "columns": names[:HINT_COLUMNS]}
    return {**written, "format": form, "rows": rows, "schema_hint": hint}
