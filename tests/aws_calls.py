"""Calls to AWS that this process makes, whichever client makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore.client import BaseClient


def observe_calls(patch: pytest.MonkeyPatch, observe: Callable[[str, str, Mapping[str, Any]], object]) -> None:
    """Call `observe` with the service, the operation and the arguments of each call, before it is made."""
    call: Any = vars(BaseClient)["_make_api_call"]

    def observed(client: Any, operation: str, arguments: Mapping[str, Any]) -> Any:
        observe(client.meta.service_model.service_name, operation, arguments)
        return call(client, operation, arguments)

    patch.setattr(BaseClient, "_make_api_call", observed)
