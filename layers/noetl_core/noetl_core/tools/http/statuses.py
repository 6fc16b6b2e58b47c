"""The error kinds of HTTP statuses. It stands alone, because scripted outcomes of tests need it without the client."""

from __future__ import annotations

from typing import Final

from noetl_core.engine.outcome import ErrorKind

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
