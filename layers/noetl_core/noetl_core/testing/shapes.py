"""Checks scripted outcomes against the outcomes of a kind of task: impossible ones are refused, with the correct form.

The fields of results and the kinds of errors are those that `dsl.fields.kinds` declares. Parts of an answer that a test leaves
out are filled in: the status of a response, the columns of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.tools.http.statuses import kind_of, waits_of
from noetl_core.values.json_schema import problems
from noetl_core.values.result_refs import is_reference

NEVER: Final = frozenset({"admission", "lost", "ctx_conflict", "cancelled"})
"""Kinds of errors that come from the engine, never from a tool."""
EVERY: Final = frozenset({"timeout", "schema", "limit", "template", "unsupported", "unknown", "not_found", "auth", "storage"})
"""Kinds of errors that every tool may have."""
TABLE: Final = frozenset({"rows", "columns", "row_count"})
ENVELOPE: Final = "an http task gives {status, headers, data, url, elapsed_ms}: write the body as ok: {data: ...}"


class CannotHappen(ValueError):
    """No task of the kind gives such an outcome. Who acts: the author of the test."""


def normalised(entry: Any) -> Any:
    """Return an entry of a script with its answer, if only `http` describes the response."""
    response = entry.get("http") if isinstance(entry, Mapping) and not {"ok", "error", "echo"} & entry.keys() else None
    if not isinstance(response, Mapping):
        return entry
    status = response.get("status", 200)
    return {**entry, "error": {}} if isinstance(status, int) and status >= 400 else {**entry, "ok": dict(response)}


def completed(kind: str, entry: Mapping[str, Any], inputs: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an entry of a script with the fields that the kind adds. `inputs` and `spec` are those of the call. Raises
    `CannotHappen`."""
    if "error" in entry:
        return _failed(kind, entry)
    if "ok" not in entry:
        return entry
    return {**entry, **_succeeded(kind, entry, inputs, spec)}


def _failed(kind: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    error = dict(entry["error"])
    status = entry.get("http", {}).get("status", error.get("code") if kind == "http" else None)
    if kind == "http" and isinstance(status, int):
        if status < 400:
            raise CannotHappen(f"status {status} is not an error: write ok: {{status: {status}, data: ...}}")
        if error.setdefault("kind", kind_of(status)) != kind_of(status):
            raise CannotHappen(f"status {status} is an error of kind {kind_of(status)}, not {error['kind']}")
        headers = {name.lower(): value for name, value in entry.get("http", {}).get("headers", {}).items()}
        details = {"status": status, **({"retry_after": headers["retry-after"]} if "retry-after" in headers else {})}
        error = {"code": status, "message": f"HTTP {status}", "details": details, **error}
        entry = {**entry, "http": {"status": status, "headers": headers, **waits_of(headers)}}
    known = KINDS.get(kind)
    word = error.get("kind", "unknown")
    if word in NEVER:
        raise CannotHappen(f"an error of kind {word} comes from the engine, never from a task of kind {kind}")
    if known is not None and known.fails is not None and word not in EVERY | known.fails:
        possible = ", ".join(sorted(EVERY | known.fails))
        raise CannotHappen(f"a task of kind {kind} has no error of kind {word}; it has {possible}")
    return {**entry, "error": error}


def _succeeded(kind: str, entry: Mapping[str, Any], inputs: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    result = entry["ok"]
    known = KINDS.get(kind)
    if known is None or known.gives is None or is_reference(result):
        schema = inputs.get("schema") if kind == "llm" else None
        if isinstance(schema, Mapping):
            _fits_schema(result, schema)
        return {}
    if known.gives >= TABLE:
        return {"ok": _table(kind, result, known.gives)}
    if not isinstance(result, Mapping):
        fields = ", ".join(sorted(known.gives))
        raise CannotHappen(ENVELOPE if kind == "http" else f"a task of kind {kind} gives a mapping with fields among {fields}")
    _known_fields(kind, result, known.gives)
    return _response(result, inputs, spec) if kind == "http" else {}


def _known_fields(kind: str, result: Mapping[str, Any], gives: frozenset[str]) -> None:
    if unknown := sorted(map(str, result.keys() - gives)):
        hint = ENVELOPE if kind == "http" else suggest(unknown[0], gives) or f"it gives {', '.join(sorted(gives))}"
        raise CannotHappen(f"the result of a task of kind {kind} has no field {unknown[0]!r}; {hint}")


def _response(result: Mapping[str, Any], inputs: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    status = result.get("status", 200)
    allowed, raises = spec.get("ok_statuses") or (), spec.get("raise_for_status", True)
    is_error = isinstance(status, int) and status >= 400 and raises is True
    if is_error and isinstance(allowed, list | tuple) and status not in allowed:
        raise CannotHappen(f"status {status} is an error: write error: {{}} and http: {{status: {status}}}")
    headers = {name.lower(): value for name, value in (result.get("headers") or {}).items()}
    full = {"status": status, "headers": headers, "data": None, "url": inputs.get("url", ""), "elapsed_ms": 0, **result}
    return {"ok": {**full, "headers": headers}, "http": {"status": status, "headers": headers, **waits_of(headers)}}


def _table(kind: str, result: Any, gives: frozenset[str]) -> Any:
    if isinstance(result, list):
        raise CannotHappen(f"a task of kind {kind} gives {{rows, columns, row_count}}: write ok: {{rows: [...]}}")
    if not isinstance(result, Mapping):
        raise CannotHappen(f"a task of kind {kind} gives rows: write ok: {{rows: [{{column: value}}]}}")
    _known_fields(kind, {name: value for name, value in result.items() if not str(name).startswith("command_")}, gives)
    rows = result.get("rows", [])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise CannotHappen(f"rows of kind {kind} are mappings: write rows: [{{column: value}}]")
    columns = list(rows[0]) if rows else []
    for number, row in enumerate(rows):
        if set(row) != set(columns):
            raise CannotHappen(f"row {number} has other columns than row 0: {', '.join(row)} and {', '.join(columns)}")
    return {"rows": [], "columns": columns, "row_count": len(rows), **result}


def _fits_schema(result: Any, schema: Mapping[str, Any]) -> None:
    data = result.get("data") if isinstance(result, Mapping) else None
    if wrong := next(iter(problems(data, schema)), None):
        raise CannotHappen(f"data of the answer does not fit the schema of the task: {wrong}")
