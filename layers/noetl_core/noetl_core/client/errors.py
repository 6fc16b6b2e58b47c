"""What a call of the API may raise.

ApiError
├── Refused            the service answered, with a refusal
├── Unreachable        there is no service there, or none that answers as this one does
└── TokenInTheClear    the request was not sent
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ApiError(Exception):
    """A call that did not give what it is for."""


class Refused(ApiError):
    """The service refused the request. Who acts: with a `status` below 500 the caller, by what `details` say; else whoever
    operates the service, to whom `request_id` names the request."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(str(error["message"]))
        self.status = status
        self.code = str(error.get("code", ""))
        self.message = str(error["message"])
        self.details: Sequence[Mapping[str, Any]] = error.get("details") or ()
        self.request_id = str(error.get("request_id", ""))


class Unreachable(ApiError):
    """No connection, no answer in time, or one that is not the API's. Who acts: whoever gave the address, or operates what is
    there."""


class TokenInTheClear(ApiError):
    """The address is neither on this machine nor behind TLS, and whoever hears a token has it. Who acts: whoever gave it."""
