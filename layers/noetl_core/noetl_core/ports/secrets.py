"""Credentials, encryption of run secrets, and access tokens that workers share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from noetl_core.values.frozen import frozen


class ReadsSecrets(Protocol):
    """Read access to credentials by name."""

    def get(self, name: str) -> Mapping[str, Any]:
        """Return the fields of a credential, e.g. `{type: postgres, data: {...}}`. Raises `NotFound`, `Forbidden`."""
        ...


class Secrets(ReadsSecrets, Protocol):
    """Credentials by name. Only the worker and the credentials API have an adapter."""

    def put(self, name: str, value: Mapping[str, Any]) -> None: ...

    def delete(self, name: str) -> None: ...

    def names(self) -> Iterable[str]: ...


class Sealer(Protocol):
    """Encrypts the secrets that a resumed run needs and the log must not show. Only workers have an adapter."""

    def seal(self, plain: bytes, context: Mapping[str, str]) -> str:
        """Return encrypted text, which reveals nothing of `plain` but its length. The same `context` is needed to decrypt it."""
        ...

    def open(self, sealed: str, context: Mapping[str, str]) -> bytes:
        """Return the decrypted content. Raises `CorruptLog` for another key or context, and for text that was changed."""
        ...


@frozen
class StoredToken:
    """An access token that workers share. Only they can decrypt `sealed`."""

    sealed: str
    until: int
    """The instant at which the token expires (microseconds)."""
    expires_at: int
    """The instant from which on the store may delete it (seconds)."""
    version: str = ""
    """Assigned by the store; different for each written token."""
    accesses: int = 0


class TokenCache(Protocol):
    """Access tokens by a key that reveals nothing about them. When a token has expired, only one worker renews it."""

    def read(self, key: str, now: int) -> StoredToken | None:
        """Return a token, and record the access at `now`; None if there is none or it may be deleted."""
        ...

    def begin_renewal(self, key: str, seen: str | None, now: int, until: int) -> bool:
        """Reserve the renewal of the token with version `seen` (None: of a missing token) until `until`. Return False if there is
        another version, or another worker has reserved it."""
        ...

    def end_renewal(self, key: str, seen: str | None) -> None:
        """Release the reservation of a renewal that failed."""
        ...

    def write(self, key: str, token: StoredToken, seen: str | None) -> bool:
        """Replace the token with version `seen`, and end the reservation. Return False, and change nothing, if there is another
        version."""
        ...
