"""A stack behind its HTTP API, by the typed client."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from noetl_cli.backends.backend import PAGE, POLL_S, Tick, pages, refused
from noetl_cli.errors import TIMEOUT, UNREACHABLE, USAGE, Exit, Stopped
from noetl_core import __version__
from noetl_core.api.client import Client
from noetl_core.api.errors import Refused, TokenInTheClear, Unreachable
from noetl_core.api.request import Answer, Request
from noetl_core.engine.statuses import STOPPED

if TYPE_CHECKING:
    from noetl_core.api.requests import Api
    from noetl_core.api.shapes.executions import Event

PATIENCE_S = 10.0
"""Seconds without an answer of the stack after which following an accepted execution is given up."""


def own_token() -> str | None:
    """Return the token of this process: that in `NOETL_TOKEN`."""
    return os.environ.get("NOETL_TOKEN", "").strip() or None


class StackBackend:
    """Access over HTTP, with a token if there is one."""

    new_store = missing_store = ""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.name = "stack"
        self.api: Api = _Client(url, token=token)

    def follow(self, execution_id: str, timeout: float | None, tick: Tick) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        answered = time.monotonic()
        try:
            while True:
                try:
                    if self.api.state(execution_id)["status"] in STOPPED:
                        tick()
                        return
                    tick()
                    answered = time.monotonic()
                except Exit as end:
                    if end.code != UNREACHABLE or time.monotonic() - answered > PATIENCE_S:
                        raise
                if until is not None and time.monotonic() > until:
                    raise Exit(TIMEOUT, f"execution {execution_id} did not end within {timeout:g} s; it continues")
                time.sleep(POLL_S)
        except Stopped as stopped:
            message = f"execution {execution_id} continues; `noetl watch {execution_id} --on stack` follows it again"
            raise Exit(stopped.code, message) from None

    def news(self, execution_id: str) -> None:
        return None

    def history(self, execution_id: str, name: str | None = None, after: str | None = None) -> Iterator[Event]:
        for page in pages(lambda cursor: self.api.events(execution_id, name=name, after=cursor, limit=PAGE), after):
            yield from page["events"]

    def close(self) -> None:
        """Do nothing: there are no resources."""


class _Client(Client):
    """The typed client; refusals and missing answers end the command."""

    agent = f"noetl-cli/{__version__}"

    def call(self, request: Request[Answer]) -> Answer:
        try:
            return super().call(request)
        except Refused as error:
            raise refused(error.status, error.message, error.details) from None
        except Unreachable as error:
            raise Exit(UNREACHABLE, str(error)) from None
        except TokenInTheClear as error:
            raise Exit(USAGE, f"NOETL_TOKEN: {error}, or unset it") from None
