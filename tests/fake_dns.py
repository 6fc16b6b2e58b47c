"""Names that resolve to the addresses of a test, whatever the machine's resolver says."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest


def resolve(patch: pytest.MonkeyPatch, addresses_of: Callable[[str], Sequence[str]]) -> None:
    """Let names that end in `.test` stand for the IPv4 addresses that `addresses_of` returns."""
    real = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        if not str(host).endswith(".test"):
            return real(host, port, *args, **kwargs)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses_of(host)]

    patch.setattr(socket, "getaddrinfo", getaddrinfo)
