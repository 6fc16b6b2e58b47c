"""The HTTP client of the process: it keeps connections, checks and pins addresses when it connects, and limits time.

There is one client per setting of `verify`, shared by all threads. It keeps no cookies and reads no proxy settings, so that
executions cannot affect each other through it. The check is in the network layer, so redirects, and names that change their
address, pass it too.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
import typing
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

import httpcore
import httpx

from noetl_core.tools.net import AddressPolicy, AddressRefused, resolve

for _library in ("httpx", "httpcore"):
    logging.getLogger(_library).setLevel(logging.WARNING)  # below it they write down URLs, headers and bodies

MAX_CONNECTIONS: Final = 200
KEEPALIVE: Final = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=50, keepalive_expiry=30)
SLICE_S: Final = 0.5
"""How often a blocked read checks whether the call is still needed."""


class Stopped(Exception):
    """The call was cancelled."""


@dataclass(slots=True)
class _Budget:
    deadline: float
    cancelled: threading.Event


_current = threading.local()


@contextmanager
def budget(deadline: float, cancelled: threading.Event) -> Iterator[None]:
    """Everything this thread sends or reads inside ends by `deadline` (monotonic seconds), or once `cancelled` is set."""
    _current.budget = _Budget(deadline, cancelled)
    try:
        yield
    finally:
        _current.budget = None


def _left(timeout: float | None) -> float:
    """Return the seconds that an operation may take: its own timeout, within the budget."""
    own = 3600.0 if timeout is None else timeout
    current: _Budget | None = getattr(_current, "budget", None)
    return own if current is None else min(own, current.deadline - time.monotonic())


def _check_cancelled() -> None:
    current: _Budget | None = getattr(_current, "budget", None)
    if current is not None and current.cancelled.is_set():
        raise Stopped


class _Stream(httpcore.NetworkStream):
    """A connection whose reads and writes keep to the budget, however slow the peer is."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        until = time.monotonic() + _left(timeout)
        while True:
            _check_cancelled()
            left = until - time.monotonic()
            if left <= 0:
                raise httpcore.ReadTimeout("timed out")
            try:
                return self._inner.read(max_bytes, min(left, SLICE_S))
            except httpcore.ReadTimeout:
                continue

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        _check_cancelled()
        left = _left(timeout)
        if left <= 0:
            raise httpcore.WriteTimeout("timed out")
        self._inner.write(buffer, left)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _left(timeout)))

    def get_extra_info(self, info: str) -> typing.Any:
        return self._inner.get_extra_info(info)


class GuardedBackend(httpcore.NetworkBackend):
    """Connects only to addresses that `policy` allows: a name is resolved once, checked, and the checked address is used."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            addresses = resolve(host, port, self._policy)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} cannot be resolved: {error}") from error
        failure: Exception | None = None
        for address in addresses:
            left = _left(timeout)
            if left <= 0:
                raise httpcore.ConnectTimeout("timed out")
            try:
                return _Stream(self._inner.connect_tcp(address, port, left, local_address, socket_options))
            except httpcore.ConnectError as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise AddressRefused("unix sockets are out of bounds")

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _Transport(httpx.HTTPTransport):
    def __init__(self, policy: AddressPolicy, *, verify: bool) -> None:
        context = httpx.create_ssl_context(verify=verify)
        super().__init__(verify=context, limits=KEEPALIVE, trust_env=False)
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            max_connections=KEEPALIVE.max_connections,
            max_keepalive_connections=KEEPALIVE.max_keepalive_connections,
            keepalive_expiry=KEEPALIVE.keepalive_expiry,
            network_backend=GuardedBackend(policy),
        )


def new_client(policy: AddressPolicy, *, verify: bool = True) -> httpx.Client:
    """Return a client that connects to what `policy` allows, keeps no cookies and follows no redirect by itself."""
    jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return httpx.Client(transport=_Transport(policy, verify=verify), cookies=jar, trust_env=False, follow_redirects=False)
