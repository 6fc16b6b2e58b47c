"""`kind: postgres`: SQL in one transaction per task; parameters are always bound (formal specification 5,
docs/tools/postgres.md).

Placeholders are those of psycopg: `%s` with a list of `params`, `%(name)s` with a mapping; mappings are bound as `jsonb`. The
transaction commits when every statement succeeded, and rolls back otherwise. `current_setting('noetl.task_run_id')` is the
task run's id, for writes that must not happen twice. Helpers on errors: `pg {code, sqlstate, message, ...}` with the
five-character SQLSTATE.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Jsonb

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.net import AddressPolicy, AddressRefused
from noetl_core.tools.postgres_address import pinned
from noetl_core.tools.secrets import flat, read_credential
from noetl_core.tools.watch import StopReason, watched

CONNECT_TIMEOUT_S: Final = 10
MAX_IDLE: Final = 8
IDLE_S: Final = 60.0
FETCH_ROWS: Final = 2_000
_FIELDS: Final = {
    "host": "host", "hostname": "host", "hostaddr": "hostaddr", "port": "port", "dbname": "dbname", "database": "dbname",
    "db_name": "dbname", "user": "user", "username": "user", "password": "password", "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
}  # fmt: skip
_ISOLATION: Final = {
    "read committed": psycopg.IsolationLevel.READ_COMMITTED,
    "repeatable read": psycopg.IsolationLevel.REPEATABLE_READ,
    "serializable": psycopg.IsolationLevel.SERIALIZABLE,
}

Connection = psycopg.Connection[tuple[Any, ...]]
Where = tuple[tuple[str, str], ...]


class PostgresTool:
    """Inputs `auth` (or `connection`), `command` (`query`, `sql`, `commands`), `params`, `rows` (the command for each of
    them), `database`; spec `statement_timeout` (s), `read_only`, `isolation`, `max_rows`."""

    kind = "postgres"
    inline = False

    def __init__(self, policy: AddressPolicy | None = None) -> None:
        """`policy` None: as the environment says, read at the first call."""
        self._policy = policy
        self._idle: list[tuple[float, Where, Connection]] = []
        self._lock = threading.Lock()

    def run(self, call: ToolCall) -> Outcome:
        todo, limit, where = sql.statements(call), sql.max_rows(call), _where(call)
        isolation = call.spec.get("isolation")
        if isolation is not None and str(isolation).lower().replace("_", " ") not in _ISOLATION:
            raise BadInput(f"`spec.isolation` {str(isolation)[:40]!r} is unknown: {', '.join(_ISOLATION)}")
        try:
            connection = self._connect(where)
        except psycopg.Error as error:
            return _unreachable(error)
        except AddressRefused as error:
            return Outcome.failed("client_error", f"postgres: {error}", retryable=False, code="address_refused")
        except OSError as error:
            return Outcome.failed("db_connection", f"postgres: the host cannot be resolved: {error}")
        keep = False
        try:
            connection.isolation_level = _ISOLATION[str(isolation).lower().replace("_", " ")] if isolation else None
            connection.read_only = call.spec.get("read_only") is True
            timeout = _statement_timeout(call)
            with watched(lambda: _cancel(connection), call.timeout_s, call.cancelled) as stop:
                outcome = _transaction(connection, call, todo, limit, timeout, stop)
            keep = not connection.closed
            return outcome
        finally:
            self._give_back(where, connection, keep)

    def close(self) -> None:
        """Close kept connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _since, _at, connection in idle:
            connection.close()

    def _connect(self, where: Where) -> Connection:
        now = time.monotonic()
        with self._lock:
            old = [entry for entry in self._idle if now - entry[0] > IDLE_S]
            self._idle = [entry for entry in self._idle if now - entry[0] <= IDLE_S]
            found = next((entry for entry in reversed(self._idle) if entry[1] == where), None)
            if found is not None:
                self._idle.remove(found)
        for entry in old:
            entry[2].close()
        if found is not None:
            with suppress(psycopg.Error):
                found[2].execute("DISCARD ALL")  # whatever an earlier task left in the session; and: is it still there?
                found[2].autocommit = False
                return found[2]
            found[2].close()
        self._policy = self._policy or AddressPolicy.from_environment()
        target = pinned(dict(where), self._policy)
        given: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "noetl", **target}
        connection = psycopg.connect(**given)
        connection.prepare_threshold = None  # `DISCARD ALL` takes prepared statements away under the driver's feet
        return connection

    def _give_back(self, where: Where, connection: Connection, keep: bool) -> None:
        if keep and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                connection.autocommit = True
                with self._lock:
                    if len(self._idle) < MAX_IDLE:
                        self._idle.append((time.monotonic(), where, connection))
                        return
        connection.close()


def _transaction(
    connection: Connection, call: ToolCall, todo: Sequence[sql.Statement], limit: int, timeout_ms: int, stop: StopReason
) -> Outcome:
    try:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, true), set_config('noetl.task_run_id', %s, true)",
                [str(timeout_ms), call.task_run_id],
            )
            result = _run(cursor, call, todo, limit)
    except sql.TooManyRows as error:
        return Outcome.failed("limit", f"postgres: {error}", retryable=False)
    except psycopg.Error as error:
        if stop.why == "cancelled":
            return Outcome.failed("cancelled", "postgres: cancelled", retryable=False, pg=_helper(error))
        return _failed(error)
    return Outcome.ok(result)


def _run(cursor: psycopg.Cursor[tuple[Any, ...]], call: ToolCall, todo: Sequence[sql.Statement], limit: int) -> dict[str, Any]:
    rows = call.inputs.get("rows")
    if rows is not None:
        if not isinstance(rows, list) or len(todo) != 1:
            raise BadInput("`rows` must be a list, with one `command` that is run for each of them")
        cursor.executemany(todo[0].text.encode(), [_bound(row) for row in rows])
        return sql.changed(cursor.rowcount)
    answers = sql.Answers(call)
    for statement in todo:
        # Bytes are taken as they are: the text is the author's, values come as parameters only.
        cursor.execute(statement.text.encode(), _bound(statement.params))
        while True:
            if cursor.description is not None:
                names = [column.name for column in cursor.description]
                answers.rows(sql.table(names, _fetched(cursor), limit))
            else:
                answers.changed(cursor.rowcount)
            if not cursor.nextset():
                break
    return answers.result()


def _fetched(cursor: psycopg.Cursor[tuple[Any, ...]]) -> Any:
    while batch := cursor.fetchmany(FETCH_ROWS):
        yield from batch


def _bound(params: Any) -> Any:
    if params is None:
        return None
    if isinstance(params, Mapping):
        return {str(name): _value(value) for name, value in params.items()}
    if isinstance(params, list | tuple):
        return [_value(value) for value in params]
    raise BadInput(f"parameters must be a list or a mapping, not {type(params).__name__}")


def _value(value: Any) -> Any:
    if isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(v, Mapping | list) for v in value)):
        return Jsonb(value)
    return value


def _statement_timeout(call: ToolCall) -> int:
    """Return the milliseconds that a statement may take; 0 for no limit."""
    said = call.spec.get("statement_timeout")
    if said is not None and (isinstance(said, bool) or not isinstance(said, int | float) or not 0 < said < 86_400):
        raise BadInput("`spec.statement_timeout` must be a number of seconds")
    times = [t for t in (said, call.timeout_s) if t is not None]
    return max(1, int(min(times) * 1000)) if times else 0


def _where(call: ToolCall) -> Where:
    """Return how to connect: by a credential's name, its fields, or a connection string (a credential's `dsn`, or
    `connection`)."""
    auth = call.inputs.get("auth", call.inputs.get("connection"))
    if isinstance(auth, str) and ("=" in auth or "://" in auth):
        fields: Mapping[str, Any] = {"dsn": auth}
    elif isinstance(auth, str) and auth:
        fields = read_credential(call, auth)
    elif isinstance(auth, Mapping):
        name = auth.get("credential")
        fields = {**(read_credential(call, name) if isinstance(name, str) else {}), **flat(auth)}
    else:
        raise BadInput("`auth` must name a credential with the fields host, port, dbname, user, password (or dsn)")
    dsn = next((fields[name] for name in ("dsn", "url", "uri", "connection_string") if fields.get(name)), None)
    try:
        said: dict[str, Any] = dict(conninfo_to_dict(str(dsn))) if dsn else {}
    except psycopg.Error as error:
        raise BadInput(f"the connection string is not one: {type(error).__name__}") from error
    given = {**said, **{name: value for name, value in fields.items() if value not in (None, "")}}
    if call.inputs.get("database"):
        given["dbname"] = call.inputs["database"]
    return tuple(sorted({_FIELDS[name]: str(value) for name, value in given.items() if name in _FIELDS}.items()))


def _cancel(connection: Connection) -> None:
    with suppress(psycopg.Error, OSError):
        connection.cancel_safe(timeout=5)


def _unreachable(error: psycopg.Error) -> Outcome:
    state = error.sqlstate or ""
    kind: ErrorKind = "auth" if state.startswith("28") or "authentication failed" in str(error) else "db_connection"
    if state == "3D000" or "does not exist" in str(error):
        kind = "not_found"
    return Outcome.failed(kind, f"postgres: {_words(error)}", code=state or None, pg=_helper(error))


def _failed(error: psycopg.Error) -> Outcome:
    return Outcome.failed(kind_of(error), f"postgres: {_words(error)}", code=error.sqlstate, pg=_helper(error))


def kind_of(error: psycopg.Error) -> ErrorKind:
    """Return the error kind of a SQLSTATE (resolution 24)."""
    state = error.sqlstate or ""
    exact: dict[str, ErrorKind] = {
        "40001": "db_deadlock", "40P01": "db_deadlock", "57014": "db_timeout", "55P03": "db_timeout", "25P03": "db_timeout",
        "42601": "parse", "42501": "auth", "53200": "limit", "53100": "storage",
    }  # fmt: skip
    classes: dict[str, ErrorKind] = {
        "23": "db_constraint", "08": "db_connection", "57": "db_connection", "53": "db_connection", "28": "auth", "42": "schema",
        "22": "schema", "54": "limit", "25": "client_error", "58": "storage",
    }  # fmt: skip
    if state in exact:
        return exact[state]
    if state[:2] in classes:
        return classes[state[:2]]
    if isinstance(error, psycopg.OperationalError):
        return "db_connection"
    return "schema" if isinstance(error, psycopg.ProgrammingError | psycopg.DataError) else "unknown"


def _words(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error) or type(error).__name__)[:2000]


def _helper(error: psycopg.Error) -> dict[str, Any]:
    diag = error.diag
    said = {
        "code": error.sqlstate,
        "sqlstate": error.sqlstate,
        "message": _words(error),
        "detail": diag.message_detail,
        "hint": diag.message_hint,
        "constraint": diag.constraint_name,
        "table": diag.table_name,
        "column": diag.column_name,
    }
    return {name: value for name, value in said.items() if value is not None or name in ("code", "sqlstate")}
