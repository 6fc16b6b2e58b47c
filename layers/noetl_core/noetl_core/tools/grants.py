"""OAuth 2.0 as values: the grant that is exchanged for an access token, and the token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from noetl_core.engine.outcome import ErrorInfo
from noetl_core.values.instants import SECOND

Sharing = Literal["local", "shared", "global"]
"""The executions that share a token: one, its family of parents and children, or all."""
MARGIN_S: Final = 60.0
"""Seconds before its expiry at which a token is renewed, or a tenth of its lifetime if that is less."""


class TokenRefused(Exception):
    """No access token could be obtained. `error` is the error of the task."""

    def __init__(self, error: ErrorInfo) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True, repr=False)
class Grant:
    """A grant that is exchanged for an access token, and the endpoint. Its texts may be secrets."""

    url: str
    body: Mapping[str, Any] | None = None
    """The fields of the request's body: a form, or JSON with `as_json`."""
    as_json: bool = False
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    token_field: str = "access_token"
    expires_field: str = "expires_in"
    scope: Sharing = "global"
    renew: bool = True
    """False: an expired token is an error, in the scope of an execution."""
    ttl_s: float | None = None

    def material(self) -> bytes:
        """Return the identity of this grant. It contains secrets."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")


@dataclass(slots=True, repr=False)
class Token:
    """An access token. `fields` is the answer that gave it; instants are microseconds."""

    fields: Mapping[str, Any]
    since: int
    until: int
    own: bool = False
    """True if this process has requested it."""
    accepted: bool = False
    """True if a service has accepted it from this process."""

    @property
    def value(self) -> str:
        return str(self.fields["access_token"])

    @property
    def header(self) -> str:
        """The value of `Authorization`."""
        kind = str(self.fields.get("token_type") or "Bearer")
        return f"{'Bearer' if kind.lower() == 'bearer' else kind} {self.value}"

    @property
    def refresh_token(self) -> str | None:
        value = self.fields.get("refresh_token")
        return value if isinstance(value, str) and value else None

    def secrets(self) -> list[Any]:
        """Return the parts of the answer that no log may show."""
        return [value for name, value in self.fields.items() if name.lower().endswith(("token", "secret"))]

    def renew_at(self) -> int:
        return self.until - int(min(MARGIN_S * SECOND, (self.until - self.since) / 10))
