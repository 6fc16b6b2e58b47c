"""Serves the API in this process."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from noetl_core.api.fields import check_numbers
from noetl_core.api.refused import NoRoute
from noetl_core.api.request import Answer, Request
from noetl_core.api.requests import Api
from noetl_core.ports import Secrets, Unavailable

if TYPE_CHECKING:
    from noetl_core.control.core import Control
    from noetl_core.events.shapes import By


def cursor_key(control: Callable[[], Control]) -> Callable[[], bytes]:
    """Return a function that returns the key of cursors.

    It is derived from the key that the deployment, or the local store, generated, and read once per process, for the first
    cursor.
    """

    def key() -> bytes:
        generated = control().callback_key
        if generated is None:
            raise Unavailable("this process has no key to sign cursors with")
        return hmac.digest(generated(), b"noetl cursors", "sha256")

    return key


def load(kind: type[Request[Any]]) -> None:
    """Import the module that answers requests of `kind`, which has the same name as that of the request."""
    import_module(f"noetl_core.service.operations.{kind.__module__.rpartition('.')[2]}")


@dataclass(frozen=True)
class Operations(Api):
    """All operations of the API. Dependencies are created on first use, to keep cold starts short."""

    plane: Callable[[], Control]
    cursor_key: Callable[[], bytes]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the deployment: where it runs, its pools and their limits."""
    stored: Callable[[], Secrets] | None = None
    """Stored credentials; None if another function serves them, and this one has no access to them."""
    by: Callable[[], By | None] = lambda: None
    """The caller, if known."""
    paths_required: bool = False
    """If true, each credential must name the playbooks that may use it. True on a stack."""
    registers: bool = True
    """If true, a playbook passed as text becomes a version of its path (`StartRequest.registers`)."""

    def call(self, request: Request[Answer]) -> Answer:
        check_numbers(request)
        load(type(request))
        return cast("Answer", type(request).handler(self, request))

    def control(self) -> Control:
        """Return the control plane, which acts on behalf of the caller."""
        return self.plane().on_behalf_of(self.by())

    def secrets(self) -> Secrets:
        """Return the stored credentials. Raises `NoRoute`."""
        if self.stored is None:
            raise NoRoute("credentials are not served here")
        return self.stored()
