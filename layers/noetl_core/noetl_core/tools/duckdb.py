"""`kind: duckdb`: SQL over rows, and over what earlier tasks stored (formal specification 2.4, docs/tools/duckdb.md).

`sources` maps a name to rows or to references to rows. Each becomes a table before the commands run (`duckdb_sources`). JSON
(rows as a list of objects), JSON lines, CSV and Parquet are distinguished by the format or the key of the reference.

After the sources are loaded, the database can reach nothing else: no files, no network, no extensions, no settings
(docs/access.md). `database` names a file in a scratch folder of the execution on this machine; without it the database is in
memory for the task.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.duckdb_sources import attach
from noetl_core.tools.watch import StopReason, watched

DEFAULT_MEMORY: Final = "1GB"
DEFAULT_THREADS: Final = 2
FETCH_ROWS: Final = 2_048
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
            with connection, watched(connection.interrupt, call.timeout_s, call.cancelled) as stop:
                try:
                    attach(connection, call, Path(folder))
                    connection.execute("SET enable_external_access = false")
                    connection.execute("SET lock_configuration = true")
                    return Outcome.ok(_run(connection, call, todo, limit))
                except sql.TooManyRows as error:
                    return Outcome.failed("limit", f"duckdb: {error}", retryable=False)
                except duckdb.Error as error:
                    return _interrupted(stop, call) or _failed(error)
                except OSError as error:
                    return Outcome.failed("storage", f"duckdb: {error.strerror or error}")


def _run(connection: duckdb.DuckDBPyConnection, call: ToolCall, todo: Sequence[sql.Statement], limit: int) -> dict[str, Any]:
    """Run every statement; return the result of the last one that gives rows."""
    answers = sql.Answers(call)
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
                answers.changed(int(count[0]) if count else 0)
            elif names:
                answers.rows(sql.table(names, _fetched(connection), limit))
            else:
                answers.nothing()
    _refuse_unasked(todo, asked)
    return answers.result()


def _fetched(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while batch := connection.fetchmany(FETCH_ROWS):
        yield from batch


def _refuse_unasked(todo: Sequence[sql.Statement], asked: set[str]) -> None:
    """Refuse a parameter that no statement uses: it is probably misspelt."""
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


def _interrupted(stop: StopReason, call: ToolCall) -> Outcome | None:
    if stop.why == "timeout":
        return Outcome.failed("db_timeout", f"duckdb: still running after {call.timeout_s:g} s")
    return Outcome.failed("cancelled", "duckdb: cancelled", retryable=False) if stop.why == "cancelled" else None


def _failed(error: duckdb.Error) -> Outcome:
    kind: ErrorKind = next((kind for known, kind in _KINDS if isinstance(error, known)), "unknown")
    name = type(error).__name__
    helper = {"exception_type": name, "message": str(error)[:2000]}
    return Outcome.failed(kind, f"duckdb: {str(error)[:2000]}", code=name, duckdb=helper)
