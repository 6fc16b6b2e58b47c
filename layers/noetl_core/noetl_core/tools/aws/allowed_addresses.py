"""Requests of botocore to an endpoint that an author named: they connect to exactly the address that was checked.

botocore resolves names when it connects; the owner of a name may return another address then than at an earlier check.
"""

from __future__ import annotations

import socket
from typing import Any, ClassVar

from botocore.awsrequest import AWSRequest
from botocore.exceptions import HTTPClientError
from botocore.httpsession import URLLib3Session
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.util.connection import create_connection

from noetl_core.aws.clients import CONFIGS
from noetl_core.tools.network.addresses import AddressPolicy, AddressRefused, resolve


def send_within(client: Any, policy: AddressPolicy) -> None:
    """Let a client of S3 connect only to addresses that `policy` allows. Requests to others raise `AddressRefused`."""
    session = _Session(policy)

    def send(request: AWSRequest, **_: Any) -> Any:
        return session.send(request)

    client.meta.events.register("before-send.s3", send)


class _Session(URLLib3Session):
    """Uses no proxy: with one, the proxy would resolve the name."""

    def __init__(self, policy: AddressPolicy) -> None:
        config: Any = CONFIGS["s3"]  # botocore's types know neither its settings nor a pair of timeouts
        timeout: Any = (config.connect_timeout, config.read_timeout)
        super().__init__(timeout=timeout, max_pool_connections=config.max_pool_connections)
        made: Any = self
        made._manager.pool_classes_by_scheme = _pools(policy)

    def send(self, request: Any) -> Any:
        try:
            return super().send(request)
        except HTTPClientError as error:
            refused = error.kwargs.get("error")
            raise (refused if isinstance(refused, AddressRefused) else error) from None


def _pools(policy: AddressPolicy) -> dict[str, type[HTTPConnectionPool]]:
    class Plain(_Checked, HTTPConnection):
        allowed = policy

    class Secure(_Checked, HTTPSConnection):
        allowed = policy

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


class _Checked:
    """A connection of urllib3 whose name is resolved once, for the check and for the socket."""

    allowed: ClassVar[AddressPolicy]

    def _new_conn(self) -> socket.socket:
        this: Any = self
        try:
            addresses = resolve(this.host, this.port, self.allowed)
        except socket.gaierror as error:
            raise NameResolutionError(this.host, this, error) from error
        failure: OSError | None = None
        for address in addresses:
            try:
                return create_connection(
                    (address, this.port), this.timeout, source_address=this.source_address, socket_options=this.socket_options
                )
            except OSError as error:
                failure = error
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(this, f"connection to {this.host} timed out") from failure
        raise NewConnectionError(this, f"failed to establish a new connection: {failure}") from failure
