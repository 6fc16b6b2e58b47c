"""`kind: snowflake`: SQL in one transaction per task; parameters are always bound (docs/tools/snowflake.md).

Placeholders are those of the connector: `%s` with a list of `params`, `%(name)s` with a mapping. `QUERY_TAG` of the session is
the task run, by which Snowflake's history knows whose statements they are.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import snowflake.connector

from noetl_core.engine.outcome import Outcome
from noetl_core.strict_json import parsed
from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed
from noetl_snowflake import errors, files
from noetl_snowflake.login import arguments

FETCH_ROWS: Final = 2_000
LOGIN_S: Final = 60
DEFAULT_TIMEOUT_S: Final = 3600.0
_SEMI_STRUCTURED: Final = frozenset({5, 9, 10})
"""Types of columns that Snowflake gives as JSON text: VARIANT, OBJECT, ARRAY."""
_ASKS: Final = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with|show|desc|describe|call|values|list|ls|explain|execute)\b", re.I | re.S
)
"""Statements whose one column may be called `status` by their author, as it is in what Snowflake says of a `CREATE`."""
_CHANGED: Final = "number of rows "
"""How the columns begin that Snowflake gives of a statement that changes rows."""


class SnowflakeTool:
    """Inputs `auth`, `command` (`query`, `sql`, `commands`), `params`, `rows` (the command for each of them), `to`, `database`,
    `schema`, `warehouse`, `role`; spec `max_rows`, `each_statement`, `statement_timeout` (s)."""

    kind = "snowflake"
    inline = False

    def stored(self, inputs: Mapping[str, Any]) -> Collection[str]:
        """Return the inputs that may be in the file that `to` writes."""
        return ("command", "commands", "params") if inputs.get("to") is not None else ()

    def run(self, call: ToolCall) -> Outcome:
        work, login = _Work(call), arguments(call)
        try:
            connection = snowflake.connector.connect(**login, **work.session())
        except snowflake.connector.Error as error:
            return errors.refused(error)
        with closing(connection):
            try:
                with closing(connection.cursor()) as cursor:
                    result = work.carried_out(cursor)
                work.stop()
                connection.commit()
            except snowflake.connector.Error as error:
                return errors.failed(error)  # closing the connection rolls back
            except sql.TooManyRows as error:
                return Outcome.failed("limit", f"snowflake: {error}", retryable=False)
        return Outcome.ok(result)


class _Work:
    """What a call asks for, checked. Raises `BadInput`."""

    def __init__(self, call: ToolCall) -> None:
        self._call = call
        self._statements = sql.statements(call)
        self._rows, self._to = call.inputs.get("rows"), call.inputs.get("to")
        if self._rows is not None and (not isinstance(self._rows, list) or len(self._statements) != 1 or self._to is not None):
            raise BadInput("`rows` must be a list, with one `command` that is run for each of them, and without `to`")
        if self._to is not None and self._to not in files.FORMATS:
            files.written(call, self._to, (), iter(()))
        self._most = sql.max_rows(call)
        said = call.spec.get("statement_timeout")
        if said is not None and (isinstance(said, bool) or not isinstance(said, int | float) or not 0 < said < 86_400 * 7):
            raise BadInput("`spec.statement_timeout` must be a number of seconds")
        self._each_s = said
        self._until = time.monotonic() + (DEFAULT_TIMEOUT_S if call.timeout_s is None else call.timeout_s)

    def session(self) -> dict[str, Any]:
        """Return the arguments of the connection beside who connects."""
        left = max(1, math.ceil(self._left()))
        return {
            "autocommit": False,
            "paramstyle": "pyformat",
            "login_timeout": min(LOGIN_S, left),
            "network_timeout": left,
            "session_parameters": {
                "QUERY_TAG": f"noetl {self._call.task_run_id}",
                "STATEMENT_TIMEOUT_IN_SECONDS": left,
                "ABORT_DETACHED_QUERY": True,
                "CLIENT_TELEMETRY_ENABLED": False,
            },
        }

    def stop(self) -> None:
        """Raise `ToolFailed` where nobody needs the outcome any more, or the time of the task is up."""
        if self._call.cancelled.is_set():
            raise ToolFailed(Outcome.failed("cancelled", "snowflake: cancelled", retryable=False))
        if self._left() <= 0:
            raise ToolFailed(Outcome.failed("timeout", "snowflake: the time of the task is up"))

    def carried_out(self, cursor: Any) -> dict[str, Any]:
        """Run the statements and return the result of the task."""
        if self._rows is not None:
            self.stop()
            cursor.executemany(self._statements[0].text, [_bound(row) for row in self._rows])
            return sql.changed(cursor.rowcount or 0)
        answers, given = sql.Answers(self._call), None
        for number, statement in enumerate(self._statements, 1):
            self.stop()
            cursor.execute(statement.text, _bound(statement.params), timeout=self._statement_s())
            names = [column[0] for column in cursor.description or ()]
            if names and names[0].startswith(_CHANGED):
                answers.changed(cursor.rowcount or 0)
            elif not names or (names == ["status"] and not _ASKS.match(statement.text)):
                answers.nothing()
            elif self._to is not None and number == len(self._statements):
                given = files.written(self._call, self._to, names, self._batches(cursor))
            else:
                rows = (row for batch in self._batches(cursor) for row in batch)
                answers.rows(sql.table(names, rows, self._most))
        if self._to is not None and given is None:
            raise BadInput("`to` writes the rows of the last statement, which gives none")
        return given or answers.result()

    def _batches(self, cursor: Any) -> Iterator[Sequence[Sequence[Any]]]:
        """Yield the rows, some at a time, with JSON as its value."""
        parts = [at for at, column in enumerate(cursor.description) if column[1] in _SEMI_STRUCTURED]
        while batch := cursor.fetchmany(FETCH_ROWS):
            self.stop()
            yield [_with_json(row, parts) for row in batch] if parts else batch

    def _left(self) -> float:
        return self._until - time.monotonic()

    def _statement_s(self) -> int:
        return max(1, math.ceil(self._left() if self._each_s is None else min(self._each_s, self._left())))


def _with_json(row: Sequence[Any], parts: list[int]) -> list[Any]:
    out = list(row)
    for at in parts:
        if isinstance(out[at], str):
            try:
                out[at] = parsed(out[at].encode())
            except ValueError:
                continue  # Snowflake writes `undefined`, which is no JSON
    return out


def _bound(params: Any) -> Any:
    """Return parameters as the connector takes them: JSON as text, for PARSE_JSON."""
    if params is None:
        return None
    if isinstance(params, Mapping):
        return {str(name): _value(value) for name, value in params.items()}
    if isinstance(params, list | tuple):
        return [_value(value) for value in params]
    raise BadInput(f"parameters must be a list or a mapping, not {type(params).__name__}")


def _value(value: Any) -> Any:
    nested = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict | list) for one in value))
    return json.dumps(value, ensure_ascii=False) if nested else value
