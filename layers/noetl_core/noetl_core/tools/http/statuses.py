"""Reads statuses and headers of responses: error kinds, and how long to wait. It stands alone, because scripted outcomes of tests
need it without the client."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from noetl_core.engine.outcome import ErrorKind

LONGEST_WAIT_S: Final = 366 * 24 * 3600.0
_KINDS: Final[dict[int, ErrorKind]] = {
    401: "auth",
    403: "auth",
    404: "not_found",
    408: "timeout",
    410: "not_found",
    429: "rate_limit",
}


def kind_of(status: int) -> ErrorKind:
    """Return the error kind of an HTTP status of 400 or more (resolution 24)."""
    return _KINDS.get(status) or ("client_error" if status < 500 else "server_error")


def waits_of(headers: Mapping[str, str]) -> dict[str, float]:
    """Return `retry_after`, in seconds, of a response with `Retry-After`: a number, or a date relative to that of the
    response."""
    retry_after = headers.get("retry-after", "").strip()
    if retry_after.isascii() and retry_after.isdigit():
        return {"retry_after": min(float(retry_after), LONGEST_WAIT_S)}
    try:
        until, now = parsedate_to_datetime(retry_after), parsedate_to_datetime(headers.get("date", ""))
        return {"retry_after": min(max((until - now).total_seconds(), 0.0), LONGEST_WAIT_S)}
    except (ValueError, TypeError):  # no date, or only one of them has a zone
        return {}
