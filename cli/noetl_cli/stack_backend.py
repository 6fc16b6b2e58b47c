"""A stack behind its HTTP API, by the typed client."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from noetl_cli.backend import PAGE, POLL_S, Tick, pages, refused
from noetl_cli.errors import TIMEOUT, UNREACHABLE, USAGE, Exit, Stopped
from noetl_core import __version__
from noetl_core.client.errors import Refused, TokenInTheClear, Unreachable
from noetl_core.client.http import Client
from noetl_core.engine.statuses import STOPPED

if TYPE_CHECKING:
    from noetl_core.client.api import Api
    from noetl_core.client.shapes import Event, Started
    from noetl_core.dsl.versions import Version

PATIENCE_S = 10.0
"""How long a stack may fail to answer before following an accepted execution is given up."""


class StackBackend:
    """Access over HTTP, with the token in `NOETL_TOKEN` if it is set."""

    new_store = missing_store = ""

    def __init__(self, url: str) -> None:
        self.name = "stack"
        self.api: Api = _Client(url, token=os.environ.get("NOETL_TOKEN", "").strip() or None)

    def start(
        self,
        *,
        source: str | None,
        path: str | None,
        version: Version,
        payload: dict[str, Any],
        key: str | None,
        priority: float | None = None,
        strict: bool = False,
        labels: Mapping[str, str] | None = None,
    ) -> Started:
        named: dict[str, Any] = {"playbook": source} if source is not None else {"path": path}
        return self.api.start(
            **named,
            version=version,
            payload=payload,
            idempotency_key=key,
            priority=priority,
            strict=strict or None,
            labels=labels or None,
        )

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
                    raise Exit(TIMEOUT, f"execution {execution_id} did not end within {timeout:g} s; it goes on")
                time.sleep(POLL_S)
        except Stopped as stopped:
            message = f"execution {execution_id} goes on; `noetl watch {execution_id} --on stack` follows it again"
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

    def send(
        self,
        method: str,
        what: str,
        body: Mapping[str, Any] | str | None,
        query: Mapping[str, Any],
        also: tuple[int, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> str:
        try:
            return super().send(method, what, body, query, also, headers)
        except Refused as error:
            raise refused(error.status, error.message, error.details) from None
        except Unreachable as error:
            raise Exit(UNREACHABLE, str(error)) from None
        except TokenInTheClear as error:
            raise Exit(USAGE, f"NOETL_TOKEN: {error}, or unset it") from None

    def _parsed(self, what: str, text: str) -> Any:
        try:
            return super()._parsed(what, text)
        except Unreachable as error:  # the answer is not JSON
            raise Exit(UNREACHABLE, str(error)) from None
