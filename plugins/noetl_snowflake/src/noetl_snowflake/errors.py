"""Maps Snowflake's errors to outcomes (docs/language/results.md, "Errors")."""

from __future__ import annotations

from typing import Any, Final

from snowflake.connector import errors as of

from noetl_core.engine.outcome import ErrorKind, Outcome

_NUMBERS: Final[dict[int, ErrorKind]] = {
    604: "db_timeout", 630: "db_timeout",  # canceled, also because its time was up
    625: "db_deadlock", 635: "db_deadlock", 639: "db_deadlock",  # locks that were not got
    1003: "parse", 3001: "auth", 2003: "not_found", 2043: "not_found", 606: "not_found",
    200001: "db_constraint", 100072: "db_constraint",
    390111: "db_connection", 390112: "db_connection", 390195: "db_connection",  # the session is over
}  # fmt: skip
_LOGIN: Final = range(390100, 390420)
"""Codes of the service for a rejected login."""
_CLASSES: Final[dict[str, ErrorKind]] = {
    "28": "auth", "23": "db_constraint", "22": "schema", "42": "schema", "40": "db_deadlock", "57": "db_timeout",
    "08": "db_connection",
}  # fmt: skip
_AT_FAULT: Final = (
    of.InternalServerError, of.BadGatewayError, of.ServiceUnavailableError, of.GatewayTimeoutError, of.InternalError,
)  # fmt: skip
_RETRYABLE: Final = frozenset({"db_connection", "db_deadlock", "db_timeout", "rate_limit", "server_error"})


def refused(error: of.Error) -> Outcome:
    """Return the outcome of a connection that was not made."""
    reached = not isinstance(error, of.OperationalError)  # the server answered, but refused the login
    known = kind_of(error)
    return _failed(error, "auth" if reached and known in ("db_connection", "unknown") else known)


def failed(error: of.Error, place: tuple[int, int] | None = None) -> Outcome:
    """Return the outcome of a statement that failed; `place`: which one, of how many."""
    return _failed(error, kind_of(error), place)


def kind_of(error: of.Error) -> ErrorKind:
    """Return the kind of error that Snowflake's number, its SQLSTATE or the class of the exception means."""
    number, state = error.errno if isinstance(error.errno, int) else -1, str(error.sqlstate or "")
    if number in _NUMBERS:
        return _NUMBERS[number]
    if number in _LOGIN:
        return "auth"
    if isinstance(error, of.TooManyRequests):
        return "rate_limit"
    if isinstance(error, _AT_FAULT):
        return "server_error"
    if isinstance(error, of.OperationalError | of.InterfaceError):
        return "db_connection"
    if isinstance(error, of.IntegrityError):
        return "db_constraint"
    if state[:2] in _CLASSES:
        return _CLASSES[state[:2]]
    return "schema" if isinstance(error, of.ProgrammingError | of.DataError) else "unknown"


def _failed(error: of.Error, kind: ErrorKind, place: tuple[int, int] | None = None) -> Outcome:
    number, of_all = place or (None, None)
    details: dict[str, Any] = {"sqlstate": error.sqlstate, "query_id": error.sfqid, "statement": number}
    where = f"statement {number} of {of_all}: " if number else ""
    words = str(error.raw_msg or error.msg or type(error).__name__)[:2000]
    return Outcome.failed(
        kind,
        f"snowflake: {where}{words}",
        retryable=kind in _RETRYABLE,
        code=error.errno,
        details={name: value for name, value in details.items() if value and value != "n/a"},
    )
