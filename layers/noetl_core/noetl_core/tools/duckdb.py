"""`kind: duckdb`: SQL over what earlier tasks stored, and over rows given (formal spec 2.4).

`sources` maps a name to a reference, a list of references, or rows: each becomes a table before the commands run - thousands
of stored pages are one table. JSON (rows as a list of objects), JSON lines, CSV and Parquet are told apart by the reference's
format or key.

After the sources are there, the database is closed to the world: no files, no network, no extensions, no settings (DESIGN
section 7). `database` names a file in a scratch folder of the execution on this machine; without it the database lives in
memory for the task.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

import duckdb

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.ports import ResultStore
from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.watch import Verdict, watched

DEFAULT_MEMORY: Final = "1GB"
DEFAULT_THREADS: Final = 2
FETCH_ROWS: Final = 2_048
DOWNLOADS: Final = 16
"""Objects fetched at once."""
BATCH: Final = 64
"""Objects held in memory at most."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)?\s*(KB|MB|GB|KiB|MiB|GiB)")

_KINDS: Final[tuple[tuple[type[Exception], ErrorKind], ...]] = (
    (duckdb.ConstraintException, "db_constraint"),
    (duckdb.OutOfMemoryException, "limit"),
    (duckdb.ParserException, "parse"),
    (duckdb.SyntaxException, "parse"),
    (duckdb.PermissionException, "auth"),
    (duckdb.IOException, "storage"),
    (duckdb.ProgrammingError, "schema"),
    (duckdb.DataError, "schema"),
)


class DuckDBTool:
    """Inputs `command` (`query`, `sql`, `commands`), `params`, `sources`, `database`; spec `memory_limit`, `threads`,
    `max_rows`."""

    kind = "duckdb"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        todo, limit = sql.statements(call), sql.max_rows(call)
        with tempfile.TemporaryDirectory(prefix="noetl-duckdb-") as folder:
            try:
                connection = duckdb.connect(_database(call), config=_config(call, folder))
            except duckdb.Error as error:
                return _failed(error)
            with connection, watched(connection.interrupt, call.timeout_s, call.cancelled) as verdict:
                try:
                    _attach(connection, call, Path(folder))
                    connection.execute("SET enable_external_access = false")
                    connection.execute("SET lock_configuration = true")
                    return Outcome.ok(_run(connection, todo, limit))
                except sql.TooManyRows as error:
                    return Outcome.failed("limit", f"duckdb: {error}", retryable=False)
                except duckdb.Error as error:
                    return _interrupted(verdict, call) or _failed(error)
                except OSError as error:
                    return Outcome.failed("storage", f"duckdb: {error.strerror or error}")


def _run(connection: duckdb.DuckDBPyConnection, todo: Sequence[sql.Statement], limit: int) -> dict[str, Any]:
    """Run every statement; the result of the last one that gives rows."""
    result, changed = None, 0
    asked: set[str] = set()
    for statement in todo:
        for one in connection.extract_statements(statement.text):
            wanted = one.named_parameters
            asked |= wanted
            params = statement.params
            if isinstance(params, Mapping):
                missing = wanted - set(params)
                if missing:
                    raise BadInput(f"`params` lacks {', '.join(sorted(missing))}")
                bound: Any = {name: params[name] for name in wanted}
            else:
                bound = params if wanted else None
            connection.execute(one, bound) if bound else connection.execute(one)
            names = [str(column[0]) for column in connection.description or ()]
            if duckdb.ExpectedResultType.CHANGED_ROWS in one.expected_result_type and names == ["Count"]:  # not RETURNING
                count = connection.fetchone()
                changed = int(count[0]) if count else 0
            elif names:
                result = sql.table(names, _fetched(connection), limit)
    _refuse_unasked(todo, asked)
    return result if result is not None else sql.changed(changed)


def _fetched(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while batch := connection.fetchmany(FETCH_ROWS):
        yield from batch


def _refuse_unasked(todo: Sequence[sql.Statement], asked: set[str]) -> None:
    """A parameter that no statement asks for is a misspelt one."""
    given = {str(name) for statement in todo if isinstance(statement.params, Mapping) for name in statement.params}
    if given - asked:
        raise BadInput(f"`params` has {', '.join(sorted(given - asked))}, which no command asks for: write $name")


def _config(call: ToolCall, folder: str) -> dict[str, Any]:
    memory, threads = str(call.spec.get("memory_limit", DEFAULT_MEMORY)), call.spec.get("threads", DEFAULT_THREADS)
    if not _MEMORY.fullmatch(memory):
        raise BadInput(f"`spec.memory_limit` {memory[:20]!r} must be like 512MB or 2GB")
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 64:
        raise BadInput("`spec.threads` must be a number from 1 to 64")
    return {
        "memory_limit": memory,
        "threads": threads,
        "temp_directory": str(Path(folder, "spill")),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_unsigned_extensions": False,
        "python_enable_replacements": False,
    }


def _database(call: ToolCall) -> str:
    name = call.inputs.get("database")
    if name in (None, "", ":memory:"):
        return ":memory:"
    if not isinstance(name, str) or not _FILE.fullmatch(name):
        raise BadInput(f"`database` {str(name)[:60]!r} must be a plain file name: it stands in the execution's scratch folder")
    root = Path(os.environ.get("NOETL_SCRATCH") or Path(tempfile.gettempdir(), "noetl-scratch"))
    folder = root / re.sub(r"[^A-Za-z0-9_-]", "_", call.execution_id or "none")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return str(folder / name)


def _attach(connection: duckdb.DuckDBPyConnection, call: ToolCall, folder: Path) -> None:
    """Every source as a table."""
    sources = call.inputs.get("sources") or {}
    if not isinstance(sources, Mapping):
        raise BadInput("`sources` must be a mapping of names")
    for number, (name, given) in enumerate(sources.items()):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadInput(f"source name {str(name)[:60]!r} must be an identifier")
        place = folder / f"source{number}"
        place.mkdir()
        form, paths = _files(name, given, call.results, place)
        _read(connection, form, paths).create(name)


def _files(name: str, given: Any, results: ResultStore | None, place: Path) -> tuple[str, list[str]]:
    """Format and files of a source; what is not a local file already is fetched into `place`."""
    if isinstance(given, Mapping) and given.get("kind") == "result_ref":
        given = [given]
    if not isinstance(given, Sequence) or isinstance(given, str) or not given or not all(isinstance(g, Mapping) for g in given):
        raise BadInput(f"source {name!r} must be a reference, a list of references, or a list of rows - and not an empty one")
    if not all(g.get("kind") == "result_ref" for g in given):
        path = place / "rows.jsonl"
        with path.open("w") as file:
            file.writelines(json.dumps(row, ensure_ascii=True) + "\n" for row in given)
        return "jsonl", [str(path)]
    if results is None:
        raise BadInput(f"source {name!r} cannot be read: this worker has no result store")
    if any(g.get("schema_hint") == "manifest" for g in given):
        raise BadInput(f"source {name!r} is the result of a whole loop: give the references in it, e.g. with map(attribute=...)")
    forms = {_format(g) for g in given}
    if len(forms) > 1:
        raise BadInput(f"source {name!r} mixes formats: {', '.join(sorted(forms))}")
    form = forms.pop()
    keys = [str(g["key"]) for g in given]
    with ThreadPoolExecutor(DOWNLOADS) as pool:
        if form in ("csv", "parquet"):
            return form, list(pool.map(lambda numbered: _local(results, numbered[1], place / str(numbered[0])), enumerate(keys)))
        # One file, however many pages: the database keeps buffers of 32 MB for each file of JSON.
        path = place / "rows"
        with path.open("wb") as file:
            _join(file, form, chain.from_iterable(pool.map(results.get, keys[n : n + BATCH]) for n in range(0, len(keys), BATCH)))
    return form, [str(path)]


def _local(results: ResultStore, key: str, path: Path) -> str:
    where = results.url(key)
    if "://" not in where:
        return where
    path.write_bytes(results.get(key))
    return str(path)


def _join(file: BinaryIO, form: str, bodies: Iterable[bytes]) -> None:
    """Write many objects as one: lines after lines, or the elements of JSON arrays as one array."""
    separator = b"["
    for body in bodies:
        rows = body.strip()
        if form == "jsonl":
            file.write(rows + b"\n" if rows else b"")
            continue
        if rows[:1] == b"[":
            rows = rows[1:-1].strip()
        if rows:
            file.write(separator + rows)
            separator = b",\n"
    if form == "json":
        file.write(b"]" if separator != b"[" else b"[]")


def _format(ref: Mapping[str, Any]) -> str:
    suffix = str(ref.get("key", "")).rpartition(".")[2].lower()
    form = str(ref.get("format") or {"jsonl": "jsonl", "ndjson": "jsonl", "csv": "csv", "parquet": "parquet"}.get(suffix, "json"))
    if form not in ("json", "jsonl", "csv", "parquet"):
        raise BadInput(f"format {form!r} of {str(ref.get('key'))!r} is unknown: json, jsonl, csv or parquet")
    return form


def _read(connection: duckdb.DuckDBPyConnection, form: str, paths: list[str]) -> duckdb.DuckDBPyRelation:
    # From text, so that the options are the documented ones of SQL; file names are ours or the store's, quoted all the same.
    listed = "[" + ", ".join("'" + path.replace("'", "''") + "'" for path in paths) + "]"
    # Every row is looked at for the types: a sample would round 1.5 to 2 where the first rows are whole, and lose late columns.
    json_options = ", sample_size = -1"
    options = {
        "json": f"{json_options}, format = 'array'",
        "jsonl": f"{json_options}, format = 'newline_delimited'",
        "csv": ", union_by_name = true, sample_size = -1",
        "parquet": ", union_by_name = true",
    }[form]
    function = {"json": "read_json", "jsonl": "read_json", "csv": "read_csv", "parquet": "read_parquet"}[form]
    return connection.sql(f"SELECT * FROM {function}({listed}{options})")


def _interrupted(verdict: Verdict, call: ToolCall) -> Outcome | None:
    if verdict.why == "timeout":
        return Outcome.failed("db_timeout", f"duckdb: still running after {call.timeout_s:g} s")
    return Outcome.failed("cancelled", "duckdb: cancelled", retryable=False) if verdict.why == "cancelled" else None


def _failed(error: duckdb.Error) -> Outcome:
    kind: ErrorKind = next((kind for known, kind in _KINDS if isinstance(error, known)), "unknown")
    name = type(error).__name__
    helper = {"exception_type": name, "message": str(error)[:2000]}
    return Outcome.failed(kind, f"duckdb: {str(error)[:2000]}", code=name, duckdb=helper)
