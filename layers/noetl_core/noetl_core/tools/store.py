"""`kind: store`: stores data and returns a reference to it (canonical step spec 10, resolution 22).

`data` is written under the prefix of the execution. The key is derived from the task run unless the author names one, so a
retry, or a second execution after a crash, writes the same object.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.log.stored_values import with_outline
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.values.outlines import LineOutline, checksum_of, outline_of

CONTENT_TYPES: Final = {
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}
MAX_BYTES: Final = 512 * 1024 * 1024
"""The most bytes of a store task; `spec.max_bytes` lowers it."""
_KEY = re.compile(r"[A-Za-z0-9_.=+-][A-Za-z0-9_.=+ -]*(/[A-Za-z0-9_.=+-][A-Za-z0-9_.=+ -]*)*")
HINT_COLUMNS: Final = 20


class StoreTool:
    """Inputs `data`, `key` (relative), `format`: json (default) | jsonl | csv | parquet, `schema_hint`; result: the reference
    `{kind: "result_ref", store, key, size, checksum, format, rows?, schema_hint}`."""

    kind = "store"
    inline = False
    takes_secrets = False

    def run(self, call: ToolCall) -> Outcome:
        if call.results is None:
            return Outcome.failed("storage", "store: this worker has no result store", retryable=False)
        data: Any = call.inputs.get("data")
        form = self._format(call)
        limit = _limit(call.spec.get("max_bytes"))
        if call.references is not None:
            if call.references.owns(data) and "key" not in call.inputs and "format" not in call.inputs:
                return Outcome.ok(dict(data))  # already stored
            data = call.references.load(data, "data", limit)
        try:
            body = encode(data, form)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(f"`data` cannot be written as {form}: {error}") from error
        if len(body) > limit:
            return Outcome.failed("limit", f"store: {len(body)} bytes of {form} are over the limit of {limit}", retryable=False)
        reference = {**call.results.put(self._key(call, form), body, CONTENT_TYPES[form]), "format": form}
        reference = with_outline(call.results, reference, _outline(data, body, form, reference))
        if isinstance(data, Sequence) and not isinstance(data, str):
            reference["rows"] = len(data)
        reference["schema_hint"] = call.inputs.get("schema_hint") or _hint(data)
        return Outcome.ok(reference)

    def _format(self, call: ToolCall) -> str:
        suffix = str(call.inputs.get("key") or "").rpartition(".")[2]
        form = str(call.inputs.get("format") or (suffix if suffix in CONTENT_TYPES else "json"))
        if form not in CONTENT_TYPES:
            raise BadInput(f"`format` {form!r} is unknown: json, jsonl, csv or parquet")
        return form

    def _key(self, call: ToolCall, form: str) -> str:
        key = call.inputs.get("key")
        if key is None:
            return f"{call.execution_id}/store/{call.task_run_id}.{form}"
        if (
            not isinstance(key, str)
            or len(key) > 512
            or not _KEY.fullmatch(key)
            or ".." in key.split("/")
            or "." in key.split("/")
        ):
            raise BadInput(f"`key` {str(key)[:80]!r} must be a relative name: letters, digits and _ . = + - between slashes")
        return f"{call.execution_id}/store/{key}"


def _outline(data: Any, body: bytes, form: str, reference: Mapping[str, Any]) -> bytes | None:
    """Return the outline of stored data that templates may read in parts; None if secrets were masked in it."""
    checksum = reference["checksum"]
    if form not in ("json", "jsonl") or checksum != checksum_of(body):
        return None
    if form == "json":
        return outline_of(data, body, checksum)
    lines = LineOutline()
    lines.write(body)
    return lines.finish(checksum)


def _limit(value: Any) -> int:
    """Return how many bytes one task may write."""
    if value is None:
        return MAX_BYTES
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1:
        raise BadInput(f"`spec.max_bytes` must be a number of bytes, not {str(value)[:40]!r}")
    return int(min(value, MAX_BYTES))


def encode(data: Any, form: str) -> bytes:
    """Return `data` as bytes in `form`; csv and parquet take a list of objects. Raises `TypeError` or `ValueError`."""
    if form == "json":
        return _dumps(data).encode()
    if not isinstance(data, Sequence) or isinstance(data, str | bytes):
        raise TypeError(f"{form} needs a list, not {type(data).__name__}")
    if form == "jsonl":
        return b"".join(_dumps(row).encode() + b"\n" for row in data)
    if not all(isinstance(row, Mapping) for row in data):
        raise TypeError(f"{form} needs a list of objects")
    return _csv(data) if form == "csv" else _parquet(data)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(name) for row in rows for name in row))


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, _columns(rows), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: _dumps(v) if isinstance(v, dict | list | bool) else v for k, v in row.items()})
    return out.getvalue().encode()


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    import duckdb  # 130 ms: only Parquet needs it

    if not rows:
        raise ValueError("parquet needs at least one row: there are no columns otherwise")
    with TemporaryDirectory(prefix="noetl-parquet-") as folder, duckdb.connect() as connection:
        source, target = Path(folder, "rows.jsonl"), Path(folder, "rows.parquet")
        source.write_bytes(b"".join(_dumps(row).encode() + b"\n" for row in rows))
        connection.read_json(str(source), format="newline_delimited", sample_size=-1).write_parquet(str(target))
        return target.read_bytes()


def _hint(data: Any) -> dict[str, Any]:
    """Describe the stored value: its type, the columns of rows, the keys of an object."""
    if isinstance(data, Mapping):
        return {"type": "object", "keys": [str(name) for name in data][:HINT_COLUMNS]}
    if not isinstance(data, Sequence) or isinstance(data, str):
        return {"type": type(data).__name__}
    hint = {"type": "list", "length": len(data)}
    if data and isinstance(data[0], Mapping):
        hint["columns"] = [str(name) for name in data[0]][:HINT_COLUMNS]
    return hint
