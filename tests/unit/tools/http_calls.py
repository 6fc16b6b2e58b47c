"""Calls of the tool `http` as fixtures, for the modules that test it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke
from noetl_core.tools.network.addresses import AddressPolicy

Http = Callable[..., Outcome]


@pytest.fixture
def http() -> Iterator[Http]:
    tool = HttpTool(AddressPolicy(allow_private=True))

    def call(
        url: str,
        timeout_s: float = 10.0,
        spec: dict[str, Any] | None = None,
        secrets: Any = None,
        cancelled: threading.Event | None = None,
        **inputs: Any,
    ) -> Outcome:
        fields: dict[str, Any] = {} if cancelled is None else {"cancelled": cancelled}
        return invoke(
            tool,
            ToolCall(
                "http", {"url": url, **inputs}, spec or {}, "1", "s", "t", "run-1", timeout_s=timeout_s, secrets=secrets, **fields
            ),
        )

    yield call
    tool.close()
