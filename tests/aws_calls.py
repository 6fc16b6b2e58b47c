"""Calls to AWS that this process makes, whichever client makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from botocore.client import BaseClient

from noetl_core.aws import direct_requests


@contextmanager
def through_botocore() -> Iterator[None]:
    """Leave all requests to botocore's clients, whose hooks a test watches."""
    with patch.object(direct_requests, "trace", _refuse):
        yield


def _refuse(*_: object) -> Any:
    raise direct_requests.NotAnswered


def observe_calls(monkeypatch: pytest.MonkeyPatch, observe: Callable[[str, str, Mapping[str, Any]], object]) -> None:
    """Call `observe` with the service, the operation and the arguments of each call, before it is made."""
    call: Any = vars(BaseClient)["_make_api_call"]

    def observed(client: Any, operation: str, arguments: Mapping[str, Any]) -> Any:
        observe(client.meta.service_model.service_name, operation, arguments)
        return call(client, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", observed)
    monkeypatch.setattr(direct_requests, "trace", _refuse)
