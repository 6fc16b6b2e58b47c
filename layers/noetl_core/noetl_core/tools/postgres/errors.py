"""PostgreSQL's errors as outcomes: the kind of a SQLSTATE (resolution 24), and the section `pg` for policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import psycopg

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.tools.stopping import running

_NOT_THERE: Final = {
    "42P01": "the table must exist: run CREATE TABLE IF NOT EXISTS in an earlier task of kind postgres",
    "42703": "map columns that have other names; capitals count: columns: {id: ID}",
}
_EXACT: Final[dict[str, ErrorKind]] = {
    "40001": "db_deadlock", "40P01": "db_deadlock", "57014": "db_timeout", "55P03": "db_timeout", "25P03": "db_timeout",
    "42601": "parse", "42501": "auth", "53200": "limit", "53100": "storage",
}  # fmt: skip
_CLASSES: Final[dict[str, ErrorKind]] = {
    "23": "db_constraint", "08": "db_connection", "57": "db_connection", "53": "db_connection", "28": "auth", "42": "schema",
    "22": "schema", "54": "limit", "25": "client_error", "58": "storage",
}  # fmt: skip


def unreachable(error: psycopg.Error) -> Outcome:
    """Return the outcome of a connection that could not be made."""
    state = error.sqlstate or ""
    kind: ErrorKind = "auth" if state.startswith("28") or "authentication failed" in str(error) else "db_connection"
    if state == "3D000" or "does not exist" in str(error):
        kind = "not_found"
    words = _words(error)
    if "connection is bad" in words:
        words += " (no server answered: is the host of the credential right? Its fields are host, port, dbname, user, password)"
    return Outcome.failed(kind, f"postgres: {words}", code=state or None, pg=helper(error))


def not_filled(error: psycopg.Error) -> Outcome:
    """Return the outcome of a table that could not be filled with rows."""
    outcome, remedy = failed(error), _NOT_THERE.get(error.sqlstate or "")
    if outcome.error is None or remedy is None:
        return outcome
    return replace(outcome, error=replace(outcome.error, message=f"{outcome.error.message} ({remedy})"))


def failed(error: psycopg.Error) -> Outcome:
    """Return the outcome of a statement that failed."""
    kind = kind_of(error)
    what = running("\n".join(getattr(error, "__notes__", ()))) if kind == "db_timeout" else ""
    return Outcome.failed(kind, f"postgres: {_words(error)}{what}{_remedy(error)}", code=error.sqlstate, pg=helper(error))


def kind_of(error: psycopg.Error) -> ErrorKind:
    """Return the error kind of a SQLSTATE (resolution 24)."""
    state = error.sqlstate or ""
    if state in _EXACT:
        return _EXACT[state]
    if state[:2] in _CLASSES:
        return _CLASSES[state[:2]]
    if isinstance(error, psycopg.OperationalError):
        return "db_connection"
    return "schema" if isinstance(error, psycopg.ProgrammingError | psycopg.DataError) else "unknown"


def helper(error: psycopg.Error) -> dict[str, Any]:
    """Return `outcome.pg`."""
    diag = error.diag
    fields = {
        "code": error.sqlstate,
        "sqlstate": error.sqlstate,
        "message": _words(error),
        "detail": diag.message_detail,
        "hint": diag.message_hint,
        "constraint": diag.constraint_name,
        "table": diag.table_name,
        "column": diag.column_name,
    }
    return {name: value for name, value in fields.items() if value is not None or name in ("code", "sqlstate")}


def _words(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error) or type(error).__name__)[:2000]


def _remedy(error: psycopg.Error) -> str:
    """Return how to write parameters, if another notation was used."""
    words = _words(error)
    if (
        "placeholders" in words
        or "incomplete placeholder" in words
        or error.sqlstate == "42P02"
        or words.endswith('at or near ":"')
    ):
        return (
            " (a parameter is written %(name)s with a mapping of params, %s with a list; with params, write a percent sign as %%)"
        )
    return ""
