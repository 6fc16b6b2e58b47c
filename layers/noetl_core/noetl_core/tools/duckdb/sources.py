"""The sources of a DuckDB task as tables (resolution 22).

A source is a row, a list of rows, or a list of such lists; it becomes one table. Each part may be a reference: DuckDB itself
reads stored objects, thousands of pages at a time, unless they contain references.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, Final

import duckdb

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import ResultStore
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed
from noetl_core.tools.network.addresses import AddressPolicy, AddressRefused
from noetl_core.tools.secrets import flat, read_credential
from noetl_core.values.result_refs import MARK
from noetl_core.values.result_streams import PIECE, pieces

DOWNLOADS: Final = 16
"""Concurrent downloads."""
BATCH: Final = 64
"""The most objects in memory."""
LARGE: Final = 4 * 1024 * 1024
"""A larger object becomes a file of its own, written piece by piece."""
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
NO_COLUMNS: Final = "_no_columns"
"""The column of a table without rows, because a table needs one."""
_OF_ROWS = re.compile(rb"\s*(\[\s*)?[{\]]")
"""The beginning of JSON text of a row or a list of rows. A list of lists begins differently."""


def size_of(call: ToolCall) -> int:
    """Return the total size that the references in the sources state, including those within lists."""
    sources = call.inputs.get("sources")
    return sum(
        claimed(ref) for source in (sources.values() if isinstance(sources, Mapping) else ()) for ref in _references(source, call)
    )


def attach(connection: duckdb.DuckDBPyConnection, call: ToolCall, folder: Path) -> list[str]:
    """Create a table for every source; return those without rows, whose columns are unknown. Raises `BadInput`,
    `NotFound`, `TooLarge`."""
    sources = call.inputs.get("sources") or {}
    if not isinstance(sources, Mapping):
        raise BadInput("`sources` must be a mapping of names")
    empty: list[str] = []
    for number, (name, source) in enumerate(sources.items()):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadInput(f"source name {str(name)[:60]!r} must be an identifier")
        place = folder / f"source{number}"
        place.mkdir()
        form, paths = _files(name, source, call, place)
        if paths:
            _read(connection, form, paths).create(name)
        else:
            connection.sql(f"SELECT NULL AS {NO_COLUMNS} WHERE false").create(name)
            empty.append(name)
    return empty


def _files(name: str, source: Any, call: ToolCall, place: Path) -> tuple[str, list[str]]:
    """Return format and files of a source, no file if it has no rows. Objects that are not local files are downloaded to
    `place`."""
    uris = [source] if isinstance(source, str) else source if isinstance(source, list) and source else []
    if uris and all(isinstance(one, str) and one.startswith("s3://") for one in uris):
        try:
            return _objects(name, uris, call, place)
        except AddressRefused as error:
            refused = Outcome.failed("client_error", f"duckdb: {error}", retryable=False, code="address_refused")
            raise ToolFailed(refused) from error
    refs = _references(source, call)
    stored = _stored(name, refs, call.results, place) if refs and call.results is not None else None
    if stored is not None:
        return stored
    listed = _listed(name, source, call)
    if listed is not None:
        return _files(name, listed, call, place)
    path = place / "rows.jsonl"
    whole = source if call.references is None else call.references.load(source, f"sources.{name}")
    empty = True
    with path.open("w") as file:
        for row in _rows(name, whole):
            file.write(json.dumps(row, ensure_ascii=True) + "\n")
            empty = False
    return "jsonl", [] if empty else [str(path)]


def _objects(name: str, uris: Sequence[str], call: ToolCall, place: Path) -> tuple[str, list[str]]:
    """Return the files of objects in S3."""
    from noetl_core.tools.aws.object_files import Object, content, listed  # 100 ms: only sources in S3

    service = _service(call)
    found = list(dict.fromkeys(one for uri in uris for one in listed(uri, call.kind, service)))
    forms = {_format({"key": one.key}) for one in found}
    if len(forms) > 1:
        raise BadInput(f"source {name!r} mixes formats: {', '.join(sorted(forms))}")

    def fetched(numbered: tuple[int, Object]) -> str:
        path = place / str(numbered[0])
        with path.open("wb") as file:
            for piece in content(numbered[1], call.kind, service):
                file.write(piece)
        return str(path)

    form = forms.pop()
    with ThreadPoolExecutor(DOWNLOADS) as pool:
        paths = list(pool.map(fetched, enumerate(found)))
    if form in ("csv", "parquet") or len(paths) == 1:
        return form, paths
    return form, _joined(name, form, paths, place)


def _joined(name: str, form: str, paths: Sequence[str], place: Path) -> list[str]:
    """Join small JSON files, because the database needs buffers of 32 MB for each file."""
    small = [path for path in paths if Path(path).stat().st_size < LARGE]
    if not small:
        return list(paths)
    whole = place / "joined"
    with whole.open("wb") as file:
        written = _join(file, form, (Path(path).read_bytes() for path in small), data=True)
    others = [path for path in paths if Path(path).stat().st_size >= LARGE]
    if written is None:
        raise BadInput(f"source {name!r}: one of its objects is not a list of rows")
    return [*([str(whole)] if written else []), *others]


def _service(call: ToolCall) -> Any:
    """Return the client for the task's credential; None: the worker's own."""
    auth = call.inputs.get("auth")
    if not auth:
        return None
    from noetl_core.tools.aws.object_files import service_with  # 100 ms: only sources in S3

    fields = read_credential(call, auth) if isinstance(auth, str) else flat(auth) if isinstance(auth, Mapping) else None
    if fields is None:
        raise BadInput("`auth` must name a credential, or hold its fields")
    names = [one for one in fields.values() if isinstance(one, str | Mapping)]
    if len(fields) == 1 and len(names) == 1:  # {alias: credential}
        fields = read_credential(call, names[0]) if isinstance(names[0], str) else flat(names[0])
        fields = read_credential(call, str(fields["credential"])) if set(fields) == {"credential"} else fields
    return service_with(fields, AddressPolicy.from_environment())


def _references(source: Any, call: ToolCall) -> list[Mapping[str, Any]]:
    """Return the references of which a source consists; none when it contains anything else."""
    if call.references is None:
        return []
    several = source if isinstance(source, list) else [source]
    return several if all(call.references.owns(one) for one in several) else []


def _listed(name: str, source: Any, call: ToolCall) -> list[Any] | None:
    """Return the references in a stored list; None if `source` is anything else."""
    if call.references is None or not call.references.owns(source) or _format(source) != "json":
        return None
    found = call.references.opened(source, f"sources.{name}")
    return found if isinstance(found, list) and _references(found, call) else None


def _rows(name: str, value: Any) -> Iterator[Mapping[str, Any]]:
    for item in [value] if isinstance(value, Mapping) else value if isinstance(value, list) else [None]:
        for row in item if isinstance(item, list) else [item]:
            if not isinstance(row, Mapping):
                raise _not_rows(name, value)
            yield row


def _file(value: Any) -> str:
    return "; text must be the address of files in S3: s3://bucket/*.csv" if isinstance(value, str) else ""


def _not_rows(name: str, value: Any = None) -> BadInput:
    return BadInput(f"source {name!r} must be rows - mappings, or lists of them - or references to rows{_file(value)}")


def _stored(name: str, refs: Sequence[Mapping[str, Any]], results: ResultStore, place: Path) -> tuple[str, list[str]] | None:
    """Return the files of stored objects; None when they do not contain rows directly."""
    if any(ref.get("schema_hint") == "manifest" for ref in refs):
        return None
    forms = {_format(ref) for ref in refs}
    if len(forms) > 1:
        raise BadInput(f"source {name!r} mixes formats: {', '.join(sorted(forms))}")
    form = forms.pop()
    with ThreadPoolExecutor(DOWNLOADS) as pool:
        if form in ("csv", "parquet"):
            return form, list(pool.map(lambda numbered: _local(results, numbered[1], place / str(numbered[0])), enumerate(refs)))
        paths: list[str] = []
        for number, (large, some) in enumerate(groupby(refs, lambda ref: claimed(ref) >= LARGE)):
            if large:
                found = [_local(results, ref, place / f"{number}-{n}") for n, ref in enumerate(some)]
                if any(_holds_references(path) for path in found):
                    return None
                paths += found
                continue
            # One file for all pages, because the database needs buffers of 32 MB for each JSON file.
            path, keys = place / str(number), [str(ref["key"]) for ref in some]
            with path.open("wb") as file:
                pages = (pool.map(results.get, keys[n : n + BATCH]) for n in range(0, len(keys), BATCH))
                written = _join(file, form, (body for page in pages for body in page))
            if written is None:
                return None
            paths += [str(path)] if written else []
    return (form, paths) if paths else None


def claimed(ref: Mapping[str, Any]) -> int:
    """Return the size that a reference states."""
    size = ref.get("size")
    return size if isinstance(size, int) else 0


def _local(results: ResultStore, ref: Mapping[str, Any], path: Path) -> str:
    where = results.url(str(ref["key"]))
    if "://" not in where:
        return where
    with path.open("wb") as file:
        for piece in pieces(results, ref):
            file.write(piece)
    return str(path)


def _holds_references(path: str) -> bool:
    """Return whether a file contains the mark of a reference."""
    before = b""
    with Path(path).open("rb") as file:
        while piece := file.read(PIECE):
            if MARK in before + piece:
                return True
            before = piece[-len(MARK) :]
    return False


def _join(file: BinaryIO, form: str, bodies: Iterator[bytes], *, data: bool = False) -> bool | None:
    """Concatenate objects: lines after lines, or the elements of JSON arrays as one array. Returns False if there are no rows,
    None if an object is not a list of rows or contains references (`data` cannot contain them)."""
    written = False
    for body in bodies:
        if (MARK in body and not data) or (form == "json" and not _OF_ROWS.match(body)):
            return None
        rows = body.strip()
        if form == "jsonl":
            file.write(rows + b"\n" if rows else b"")
        else:
            if rows[:1] == b"[":
                rows = rows[1:-1].strip()
            if rows:
                file.write((b",\n" if written else b"[") + rows)
        written = written or bool(rows)
    if form == "json" and written:
        file.write(b"]")
    return written


def _format(ref: Mapping[str, Any]) -> str:
    suffix = str(ref.get("key", "")).rpartition(".")[2].lower()
    form = str(ref.get("format") or {"jsonl": "jsonl", "ndjson": "jsonl", "csv": "csv", "parquet": "parquet"}.get(suffix, "json"))
    if form not in ("json", "jsonl", "csv", "parquet"):
        raise BadInput(f"format {form!r} of {str(ref.get('key'))!r} is unknown: json, jsonl, csv or parquet")
    return form


def _read(connection: duckdb.DuckDBPyConnection, form: str, paths: list[str]) -> duckdb.DuckDBPyRelation:
    # SQL text, because its options are documented. File names are ours or the store's, and are quoted anyway.
    listed = "[" + ", ".join("'" + path.replace("'", "''") + "'" for path in paths) + "]"
    # Types come from all rows: a sample could round 1.5 to 2 if the first rows have integers, and miss columns of later rows.
    json_options = ", sample_size = -1"
    options = {
        "json": f"{json_options}, format = 'array'",
        "jsonl": f"{json_options}, format = 'newline_delimited'",
        "csv": ", union_by_name = true, sample_size = -1",
        "parquet": ", union_by_name = true",
    }[form]
    function = {"json": "read_json", "jsonl": "read_json", "csv": "read_csv", "parquet": "read_parquet"}[form]
    return connection.sql(f"SELECT * FROM {function}({listed}{options})")
