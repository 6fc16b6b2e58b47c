"""Credentials, what is encrypted, and access tokens that workers share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


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
    """Encrypts what a resumed run needs and the log must not show. Only workers have an adapter."""

    def seal(self, plain: bytes, context: Mapping[str, str]) -> str:
        """Return encrypted text, which reveals nothing of `plain` but its length. The same `context` is needed to decrypt it."""
        ...

    def open(self, sealed: str, context: Mapping[str, str]) -> bytes:
        """Return the decrypted content. Raises `CorruptLog` for another key or context, and for text that was changed."""
        ...


@dataclass(frozen=True, slots=True)
class StoredToken:
    """An access token that workers share. `sealed` is what only they can open."""

    sealed: str
    until: int
    """When it ends (microseconds)."""
    expires_at: int
    """Seconds: when the store may forget it."""
    version: str = ""
    """Given by the store: another one for each token that is written."""
    accesses: int = 0


class TokenCache(Protocol):
    """Access tokens by a key that tells nothing of them. Of the workers that find one ended, one renews it."""

    def read(self, key: str, now: int) -> StoredToken | None:
        """Return a token, counting the access at `now`. None where there is none, or the store may have forgotten it."""
        ...

    def begin_renewal(self, key: str, seen: str | None, now: int, until: int) -> bool:
        """Reserve the renewal of the token with version `seen` (None: of what is not there) until `until`. Return False where
        there is another version, or another worker has reserved it."""
        ...

    def end_renewal(self, key: str, seen: str | None) -> None:
        """Give a reservation back that came to nothing."""
        ...

    def write(self, key: str, token: StoredToken, seen: str | None) -> bool:
        """Store a token in place of the one with version `seen`, and end the reservation. Return False where there is another
        version: then it stays."""
        ...
