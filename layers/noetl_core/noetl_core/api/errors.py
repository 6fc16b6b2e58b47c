"""The exceptions of the API client.

ApiError
├── Refused the service refused the request
├── Unreachable        there is no service there, or none that answers as this one does
└── TokenInTheClear    the request was not sent
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ApiError(Exception):
    """A call that failed."""


class Refused(ApiError):
    """The service refused the request. Who acts: for a `status` below 500 the caller, according to `details`; else the operator
    of the service, who can find the request by `request_id`."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(str(error["message"]))
        self.status = status
        self.code = str(error.get("code", ""))
        self.message = str(error["message"])
        self.details: Sequence[Mapping[str, Any]] = error.get("details") or ()
        self.request_id = str(error.get("request_id", ""))


class Unreachable(ApiError):
    """No connection, no answer in time, or an answer not from the API. Who acts: the operator of the service, or the author of
    the address."""


class TokenInTheClear(ApiError):
    """The address is neither on this machine nor behind TLS, so a token could be intercepted. Who acts: the author of the
    address."""
