"""`kind: duckdb`: SQL over rows, and over files stored by earlier tasks (formal specification 2.4, docs/tools/duckdb.md).

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
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.calls.watch import StopReason, watched
from noetl_core.tools.duckdb.results import out_folder, wanted_format, write
from noetl_core.tools.duckdb.sources import attach, size_of
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.rows.duckdb_memory import memory_limit
from noetl_core.tools.rows.scratch import CLOSED, REMEDY, DiskFull, scratch, spilling
from noetl_core.tools.stopping import noted_on_error, running

if TYPE_CHECKING:
    from noetl_core.tools.postgres.connections import Connections

_FULL: Final = ("max_temp_directory_size", "No space left on device")
DEFAULT_MEMORY: Final = "1GB"
DEFAULT_THREADS: Final = 2
FETCH_ROWS: Final = 2_048
IN_FILE: Final = 64 * 1024 * 1024
"""Size of sources above which the tables of a task are kept in a file."""
NO_ACCESS: Final = (
    "SQL of tasks reaches no files, network or extensions: `sources` gives it rows, references and s3://bucket/*.parquet, "
    "`attach` gives it tables of PostgreSQL, and `to: parquet` makes a file of the result, which kind s3 puts into a bucket"
)
NAME_COLUMNS: Final = "name them in the SQL: FROM (FROM name UNION ALL BY NAME SELECT NULL::BIGINT AS id WHERE false)"
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")

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
    """Inputs `command` (`query`, `sql`, `commands`), `params`, `sources`, `attach`, `database`, `to`; spec `memory_limit`,
    `threads`, `max_rows`."""

    kind = "duckdb"
    inline = False

    def __init__(self, policy: AddressPolicy | None = None) -> None:
        """`policy` applies to the addresses of `attach`; None: read from the environment at the first call."""
        self._policy = policy
        self._connections: Connections | None = None
        self._making = threading.Lock()

    def stored(self, inputs: Mapping[str, Any]) -> Collection[str]:
        """Return the inputs that may be in the file that a call writes."""
        return ("command", "commands", "params", "sources") if inputs.get("to") is not None else ()

    def run(self, call: ToolCall) -> Outcome:
        todo, limit, form = sql.statements(call), sql.max_rows(call), wanted_format(call)
        try:
            with scratch("noetl-duckdb-") as folder:
                return self._answer(call, todo, limit, form, folder)
        except DiskFull as error:
            return Outcome.failed("limit", f"duckdb: {error}", retryable=False, code="disk_full")
        except OSError as error:
            return Outcome.failed("storage", f"duckdb: {error.strerror or error}")

    def close(self) -> None:
        """Close kept connections."""
        if self._connections is not None:
            self._connections.close()

    def _answer(self, call: ToolCall, todo: Sequence[sql.Statement], limit: int, form: str | None, folder: Path) -> Outcome:
        try:
            connection = duckdb.connect(_database(call, folder), config=_config(call, folder))
        except duckdb.Error as error:
            return failed(error)
        with connection, watched(connection.interrupt, call.timeout_s, call.cancelled) as stop:
            empty: list[str] = []
            try:
                empty = attach(connection, call, folder)
                self._attach_databases(connection, call, folder)
                with out_folder(connection, folder) as out:
                    connection.execute("SET enable_external_access = false")
                    connection.execute("SET lock_configuration = true")
                    return Outcome.ok(_run(connection, call, todo, limit, form, out))
            except sql.TooManyRows as error:
                return Outcome.failed("limit", f"duckdb: {error}: `to: parquet` gives a file instead", retryable=False)
            except duckdb.Error as error:
                return _interrupted(stop, call, error) or failed(error, empty)

    def _attach_databases(self, connection: duckdb.DuckDBPyConnection, call: ToolCall, folder: Path) -> None:
        if not call.inputs.get("attach"):
            return
        from noetl_core.tools.duckdb.attach import attach_databases  # 60 ms: only `attach` needs a driver
        from noetl_core.tools.postgres.connections import Connections  # the same

        with self._making:
            self._connections = self._connections or Connections(self._policy)
        attach_databases(connection, call, self._connections, folder)


def _run(
    connection: duckdb.DuckDBPyConnection, call: ToolCall, todo: Sequence[sql.Statement], limit: int, form: str | None, out: Path
) -> dict[str, Any]:
    """Run every statement; return the result of the last one that returns rows."""
    answers = sql.Answers(call)
    parameters: set[str] = set()
    every = [(statement, one) for statement in todo for one in connection.extract_statements(statement.text)]
    for number, (statement, one) in enumerate(every, 1):
        bound = _bound(one, statement.params)
        parameters |= one.named_parameters
        with noted_on_error(one.query):
            if form is not None and number == len(every):
                _refuse_unused(todo, parameters)
                return write(connection, call, one, bound, form, out)
            connection.execute(one, bound) if bound else connection.execute(one)
            names = [str(column[0]) for column in connection.description or ()]
            if duckdb.ExpectedResultType.CHANGED_ROWS in one.expected_result_type and names == ["Count"]:  # not RETURNING
                count = connection.fetchone()
                answers.changed(int(count[0]) if count else 0)
            elif names:
                answers.rows(sql.table(names, _fetched(connection), limit))
            else:
                answers.nothing()
    _refuse_unused(todo, parameters)
    return answers.result()


def _bound(statement: duckdb.Statement, params: sql.Params) -> Any:
    """Return the parameters of a statement. Raises `BadInput`."""
    names = statement.named_parameters
    if not isinstance(params, Mapping):
        return params if names else None
    missing = names - set(params)
    if missing:
        raise BadInput(f"`params` lacks {', '.join(sorted(missing))}")
    return {name: params[name] for name in names}


def _fetched(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while batch := connection.fetchmany(FETCH_ROWS):
        yield from batch


def _refuse_unused(todo: Sequence[sql.Statement], parameters: set[str]) -> None:
    """Refuse a parameter that no statement uses: it is probably misspelt."""
    names = {str(name) for statement in todo if isinstance(statement.params, Mapping) for name in statement.params}
    if names - parameters:
        raise BadInput(f"`params` has {', '.join(sorted(names - parameters))}, which no command uses: write $name in the command")


def _config(call: ToolCall, folder: Path) -> dict[str, Any]:
    limit, threads = call.spec.get("memory_limit"), call.spec.get("threads", DEFAULT_THREADS)
    memory = memory_limit(DEFAULT_MEMORY, None if limit is None else str(limit))
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 64:
        raise BadInput("`spec.threads` must be a number from 1 to 64")
    return {"memory_limit": memory, "threads": threads} | spilling(folder) | CLOSED


def _database(call: ToolCall, folder: Path) -> str:
    name = call.inputs.get("database")
    if name in (None, "", ":memory:"):
        # Tables in a file are compressed, and memory holds only the parts in use.
        return str(folder / "tables.db") if size_of(call) >= IN_FILE or call.inputs.get("attach") else ":memory:"
    return database_file(call, name)


def database_file(call: ToolCall, name: Any) -> str:
    """Return the path of a database in the execution's scratch folder. Raises `BadInput`."""
    if not isinstance(name, str) or not _FILE.fullmatch(name):
        raise BadInput(f"`database` {str(name)[:60]!r} must be a plain file name: it is in the execution's scratch folder")
    root = Path(os.environ.get("NOETL_SCRATCH") or Path(tempfile.gettempdir(), "noetl-scratch"))
    place = root / re.sub(r"[^A-Za-z0-9_-]", "_", call.execution_id or "none")
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    return str(place / name)


def _interrupted(stop: StopReason, call: ToolCall, error: duckdb.Error) -> Outcome | None:
    if stop.why == "timeout":
        what = running("\n".join(getattr(error, "__notes__", ())))
        return Outcome.failed("db_timeout", f"duckdb: stopped at its timeout of {call.timeout_s:g} s{what}")
    return Outcome.failed("cancelled", "duckdb: cancelled", retryable=False) if stop.why == "cancelled" else None


def failed(error: duckdb.Error, empty: Sequence[str] = ()) -> Outcome:
    """Return the outcome of failed SQL; `empty` are the sources without rows."""
    kind: ErrorKind = next((kind for known, kind in _KINDS if isinstance(error, known)), "unknown")
    name = type(error).__name__
    if any(words in str(error) for words in _FULL):
        return Outcome.failed("limit", f"duckdb: the disk is full: {REMEDY}", retryable=False, code="disk_full")
    helper = {"exception_type": name, "message": str(error)[:2000]}
    remedy = f" ({NO_ACCESS})" if isinstance(error, duckdb.PermissionException) else ""
    if empty and isinstance(error, duckdb.BinderException):
        remedy = f" ({', '.join(empty)}: no rows, and so no columns; {NAME_COLUMNS})"
    return Outcome.failed(kind, f"duckdb: {str(error)[:2000]}{remedy}", code=name, duckdb=helper)
