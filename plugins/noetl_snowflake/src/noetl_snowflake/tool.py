"""`kind: snowflake`: SQL in one transaction per task; parameters are always bound (docs/tools/snowflake.md).

Placeholders are those of the connector: `%s` with a list of `params`, `%(name)s` with a mapping. `QUERY_TAG` of the session is
the task run, by which Snowflake's history knows whose statements they are.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

import snowflake.connector

from noetl_core.engine.outcome import Outcome
from noetl_core.tools import sql
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed
from noetl_snowflake import errors, files
from noetl_snowflake.login import arguments
from noetl_snowflake.source import TAKES, as_inputs, types_of

LOGIN_S: Final = 60
DEFAULT_TIMEOUT_S: Final = 3600.0
_ASKS: Final = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with|show|desc|describe|call|values|list|ls|explain|execute)\b", re.I | re.S
)
"""Statements whose one column may be called `status` by their author, as it is in what Snowflake says of a `CREATE`."""
_CHANGED: Final = "number of rows "
"""The prefix of the columns that Snowflake returns for a statement that changes rows."""


class SnowflakeTool:
    """Inputs `auth`, `command` (`query`, `sql`, `commands`), `params`, `rows` (the command for each of them), `to`, `database`,
    `schema`, `warehouse`, `role`; spec `max_rows`, `each_statement`, `statement_timeout` (s)."""

    kind = "snowflake"
    inline = False
    source = TAKES

    def stored(self, inputs: Mapping[str, Any]) -> Collection[str]:
        """Return the inputs that may be in the file that `to` writes."""
        return ("command", "commands", "params") if inputs.get("to") is not None else ()

    def run(self, call: ToolCall) -> Outcome:
        return self._done(_Work(call), call)

    def export(self, call: ToolCall) -> Outcome:
        """Write the rows of a source of `transfer` to a file (`base.SourceTool`)."""
        asked = replace(call, inputs=as_inputs(call.inputs))
        work = _Work(asked)
        outcome = self._done(work, asked)
        return outcome if outcome.error is not None else replace(outcome, result={**outcome.result, "types": work.types})

    def _done(self, work: _Work, call: ToolCall) -> Outcome:
        login = arguments(call)
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
                return errors.failed(error, work.place)  # closing the connection rolls back
            except sql.TooManyRows as error:
                return Outcome.failed("limit", f"snowflake: {error}", retryable=False)
        return Outcome.ok(result)


class _Work:
    """The checked inputs of a call. Raises `BadInput`."""

    def __init__(self, call: ToolCall) -> None:
        self._call = call
        self._statements = sql.statements(call)
        self._rows, self._to = call.inputs.get("rows"), call.inputs.get("to")
        if self._rows is not None and (not isinstance(self._rows, list) or len(self._statements) != 1 or self._to is not None):
            raise BadInput("`rows` must be a list, with one `command` that is run for each row, and without `to`")
        if self._to is not None:
            files.check_format(self._to)
        self._most = sql.max_rows(call)
        seconds = call.spec.get("statement_timeout")
        if seconds is not None and (
            isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 86_400 * 7
        ):
            raise BadInput("`spec.statement_timeout` must be a number of seconds")
        self._each_s = seconds
        self._until = time.monotonic() + (DEFAULT_TIMEOUT_S if call.timeout_s is None else call.timeout_s)
        self._number = 0
        self.types: dict[str, str] = {}
        """The types of the columns that `to` has written, as DuckDB calls them."""

    @property
    def place(self) -> tuple[int, int] | None:
        """Return which statement runs, of how many; None where there is one, or none has begun."""
        return (self._number, len(self._statements)) if self._number and len(self._statements) > 1 else None

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
            cursor.executemany(self._statements[0].text, [sql.bound(row, _value) for row in self._rows])
            return sql.changed(cursor.rowcount or 0)
        answers, reference = sql.Answers(self._call), None
        for number, statement in enumerate(self._statements, 1):
            self.stop()
            self._number = number
            cursor.execute(statement.text, sql.bound(statement.params, _value), timeout=self._statement_s())
            names = [column[0] for column in cursor.description or ()]
            if names and names[0].startswith(_CHANGED):
                answers.changed(cursor.rowcount or 0)
            elif not names or (names == ["status"] and not _ASKS.match(statement.text)):
                answers.nothing()
            elif self._to is not None and number == len(self._statements):
                columns = sql.unique(names)
                self.types = types_of(columns, cursor.description)
                reference = files.written(self._call, self._to, columns, files.batches(cursor, self.stop))
            else:
                rows = (row for batch in files.batches(cursor, self.stop) for row in batch)
                answers.rows(sql.table(names, rows, self._most))
        if self._to is not None and reference is None:
            raise BadInput("`to` writes the rows of the last statement, which gives none")
        return reference or answers.result()

    def _left(self) -> float:
        return self._until - time.monotonic()

    def _statement_s(self) -> int:
        return max(1, math.ceil(self._left() if self._each_s is None else min(self._each_s, self._left())))


def _value(value: Any) -> Any:
    """Return a parameter as the connector takes it: JSON as text, for PARSE_JSON."""
    nested = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict | list) for one in value))
    return json.dumps(value, ensure_ascii=False) if nested else value
