"""The source of a transfer as something that does not change any more, and its rows from any of them on.

Rows and references to rows are that already. The tool of its kind stores the result of a query once, with a note beside it; a
continued transfer reads the note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

import duckdb

from noetl_core.dsl.fields.kinds.data import SOURCES
from noetl_core.engine.outcome import Outcome
from noetl_core.ports import NotFound, ResultStore
from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, SourceTool, Tool, ToolCall, ToolFailed
from noetl_core.tools.duckdb.tool import failed
from noetl_core.tools.postgres.parquet import working
from noetl_core.tools.rows.csv_pipes import text
from noetl_core.tools.rows.sources import Part, Row, format_of, object_file, parts_of, rows_of
from noetl_core.values.frozen import frozen
from noetl_core.values.result_refs import is_reference

BATCH: Final = 2_048
CHUNK_BYTES: Final = 32 * 1024 * 1024
"""A chunk is in memory, however large its rows are."""
CELL_BYTES: Final = 64
"""Bytes that a value takes in addition to its text, its name included. They make a row of many small values large, too."""
COPIES: Final = 4
"""Objects that are copied at a time."""
_TYPE: Final = re.compile(r"[A-Z][A-Z0-9 ]*(\([0-9]+(, ?[0-9]+)?\))?")
"""The form of a column's type, which becomes part of SQL."""


class Stage(Protocol):
    """Gives the tool of a kind. Raises `UnknownKind`."""

    def __call__(self, kind: str) -> Tool: ...


@frozen
class Staged:
    """A source that does not change. `identity` distinguishes it from others; `types` are DuckDB's types of its columns by name,
    if the source knows them."""

    parts: tuple[Part, ...]
    identity: str
    types: Mapping[str, str] = field(default_factory=dict)

    def rows(self, call: ToolCall, skip: int) -> Iterator[Row]:
        """Yield the rows behind the first `skip`."""
        for part in self.parts:
            known = _count(part)
            if known is not None and known <= skip:
                skip -= known
                continue
            passed = 0
            for passed, row in enumerate(_rows(part, call), 1):
                if passed > skip:
                    yield row
            skip = max(0, skip - passed)


def stage(call: ToolCall, source: Mapping[str, Any], kind: str, tools: Stage) -> Staged:
    """Return the source, staged by this call or by an earlier one of the same task run. Raises `BadInput`, `ToolFailed`."""
    if kind == "rows":
        parts = parts_of(source.get("rows"), call, "source.rows", source.get("format"))
        return Staged(tuple(parts), _identity([part.reference or list(part.rows or ()) for part in parts]))
    results = _results(call)
    note = f"{call.execution_id}/transfer/{call.task_run_id}-source.json"
    try:
        found = json.loads(results.get(note))
    except NotFound:
        found = _fetched(call, source, kind, tools)
        results.put(note, json.dumps(found).encode())
    parts = parts_of(found, call, "source", source.get("format"))
    types = found[0].get("types") if len(found) == 1 else None
    return Staged(tuple(parts), _identity(found), types or {})


def _fetched(call: ToolCall, source: Mapping[str, Any], kind: str, tools: Stage) -> list[Any]:
    """Let the tool of a kind store the rows of the source; return the references to them."""
    inputs = {key: value for key, value in source.items() if key != "kind"}
    tool: Any = tools(kind) if kind != "s3" else None
    exporting: SourceTool | None = tool if hasattr(tool, "export") else None
    takes = exporting.source if exporting is not None else SOURCES[kind]
    unknown = set(inputs) - set(takes)
    if unknown:
        raise BadInput(f"`source` of kind {kind} does not take {', '.join(sorted(unknown))}: it takes {', '.join(sorted(takes))}")
    if kind == "s3":
        return _objects(call, inputs)
    if exporting is not None:
        return [_exported(exporting, replace(call, kind=kind, inputs=inputs, spec={}))]
    spec: dict[str, Any] = {}
    if kind == "http":
        spec["store"] = inputs.pop("format", True)
    elif kind == "postgres":
        copied = {key: inputs.pop(key) for key in ("query", "table", "columns") if key in inputs}
        inputs["copy"] = {**copied, "to": "jsonl"}
    else:
        inputs["to"] = "jsonl"
    outcome = tool.run(replace(call, kind=kind, inputs=inputs, spec=spec))
    if outcome.error is not None:
        raise ToolFailed(_renamed(outcome))
    return [outcome.result["data"] if kind == "http" else outcome.result]


def _exported(tool: SourceTool, call: ToolCall) -> Any:
    """Return the reference to the rows that a plugin has written. Its mistakes must end the task, not the worker."""
    try:
        outcome = tool.export(call)
    except ToolFailed as error:
        raise ToolFailed(_renamed(error.outcome)) from error
    if outcome.error is not None:
        raise ToolFailed(_renamed(outcome))
    types = outcome.result.get("types") if is_reference(outcome.result) else None
    typed = types is None or (isinstance(types, Mapping) and all(_TYPE.fullmatch(str(one)) for one in types.values()))
    if not typed or not is_reference(outcome.result):
        message = f"transfer: source: kind {call.kind} gave {outcome.result!r:.100}, which is not a reference to rows"
        raise ToolFailed(Outcome.failed("unknown", message, retryable=False))
    return outcome.result


def _objects(call: ToolCall, inputs: Mapping[str, Any]) -> list[Any]:
    """Copy objects of S3 to the result store, where they do not change; return the references to them."""
    from noetl_core.tools.aws.object_files import content, is_uri, listed  # 100 ms: only sources in S3

    uri, results = inputs.get("uri"), _results(call)
    if not is_uri(uri):
        raise BadInput("`source.uri` must be like s3://bucket/path/*.parquet")
    found = listed(str(uri), call.kind)

    def copied(number: int) -> Mapping[str, Any]:
        one = found[number]
        form = inputs.get("format") or format_of({"key": one.key})
        with results.writer(f"{call.execution_id}/transfer/{call.task_run_id}-{number:05}.{form}") as out:
            for piece in content(one, call.kind):
                out.write(piece)
            return {**out.finish(), "format": form}

    with ThreadPoolExecutor(COPIES) as pool:
        return list(pool.map(copied, range(len(found))))


def _renamed(outcome: Outcome) -> Outcome:
    error = outcome.error
    assert error is not None
    return replace(outcome, error=replace(error, message=f"transfer: source: {error.message}"))


def _identity(described: Any) -> str:
    return sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()


def _count(part: Part) -> int | None:
    """Return how many rows a part has, where that is known without reading it."""
    if part.rows is not None:
        return len(part.rows)
    rows = (part.reference or {}).get("rows")
    return rows if type(rows) is int else None


def _rows(part: Part, call: ToolCall) -> Iterator[Row]:
    if part.rows is None and part.form in ("csv", "parquet"):
        with object_file(part, call) as path:
            yield from _table_rows(path, part.form)
    else:
        yield from rows_of(part, call, "source.rows")


def _table_rows(path: Path, form: str) -> Iterator[Row]:
    """Yield the rows of a CSV or Parquet file, in order. Fields of CSV are text, and NULL where they are empty."""
    options = ", all_varchar = true, allow_quoted_nulls = false" if form == "csv" else ""
    reader = "read_csv" if form == "csv" else "read_parquet"
    with working() as (connection, _):
        try:
            connection.execute(f"SELECT * FROM {reader}({text(str(path))}{options})")
            names = sql.unique([str(column[0]) for column in connection.description or ()])
            while batch := connection.fetchmany(BATCH):
                yield from sql.table(names, batch, BATCH)["rows"]
        except duckdb.Error as error:
            raise ToolFailed(failed(error)) from error


def _results(call: ToolCall) -> ResultStore:
    if call.results is None:
        raise BadInput("this worker has no result store")
    return call.results


def chunks(rows: Iterator[Row], size: int, most_bytes: int = CHUNK_BYTES) -> Iterator[list[Row]]:
    """Yield the rows in lists of `size`, or of fewer that are about `most_bytes` together: the same ones whenever it is done."""
    chunk: list[Row] = []
    held = 0
    for row in rows:
        chunk.append(row)
        held += CELL_BYTES * len(row) + sum(len(value) if type(value) is str else len(repr(value)) for value in row.values())
        if len(chunk) == size or held >= most_bytes:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk
