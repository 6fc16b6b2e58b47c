"""Signs requests as botocore's clients do, and sends them over connections of its own. It repeats nothing.

After a failure its callers leave the requests of an endpoint to botocore for a while: botocore has the backoff and the quota of
retries, which its own successes refill.
"""

from __future__ import annotations

import hmac
import logging
import os
import ssl
import time
import weakref
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from email.message import Message
from hashlib import sha256
from http.client import HTTPConnection, HTTPSConnection
from threading import Lock
from typing import Any
from urllib.parse import quote, urlsplit

from botocore.awsrequest import AWSPreparedRequest, HeadersDict
from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies
from urllib3.util import wait_for_read

from noetl_core import __version__
from noetl_core.aws.clients import CONNECTIONS, session
from noetl_core.values.frozen import frozen

log = logging.getLogger(__name__)


LEFT_S = 5.0
"""Seconds for which requests are left to botocore after a failure."""
IDLE_S = 60.0
"""Seconds after which an idle connection is not used again: the function may have been frozen, and the other side be gone."""


class NotSent(Exception):
    """The request was not sent, because requests are left to botocore."""


class NotConnected(NotSent):
    """The request was not sent, because there is no connection."""


@frozen
class Answered:
    status: int
    headers: Message
    """With `get`, for names in any case."""
    content: bytes


class Endpoint:
    """The endpoint of one botocore client. It has the client's credentials, hooks and time limits. Thread-safe."""

    def __init__(self, botocore_client: Any) -> None:
        self.service = str(botocore_client.meta.service_model.signing_name)
        self.region = str(botocore_client.meta.region_name)
        self._url = str(botocore_client.meta.endpoint_url).rstrip("/")
        self._hooks = botocore_client.meta.events
        self._credentials: Any = session().get_credentials()
        parts = urlsplit(self._url)
        self._host, self._port = parts.hostname or "", parts.port
        standard = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
        self._host_header = parts.netloc.rpartition("@")[2].removesuffix(standard)
        config = botocore_client.meta.config
        self._connect_s, self._answer_s = config.connect_timeout, config.read_timeout
        self._is_usable = (
            parts.scheme in ("http", "https")
            and not parts.path
            and self._credentials is not None
            and not get_environ_proxies(self._url).get(parts.scheme)
            and not config.use_fips_endpoint
            and config.account_id_endpoint_mode != "required"
        )
        self._tls = None
        if self._is_usable and parts.scheme == "https":
            try:
                self._tls = _tls()
            except OSError as error:  # botocore reports the error in the certificates
                log.warning("requests are left to botocore: %r", error)
                self._is_usable = False
        self.left_until = 0.0
        """The instant of the monotonic clock until which requests are left to botocore."""
        self.idle: deque[tuple[HTTPConnection, float]] = deque()
        """Connections that wait for the next request, and since when, the newest last."""
        weakref.finalize(self, _close_all, self.idle)
        self._key: tuple[str, str, bytes] = ("", "", b"")

    @property
    def is_usable(self) -> bool:
        """True if requests are sent from here, not left to botocore."""
        return self._is_usable and time.monotonic() >= self.left_until

    def leave(self) -> None:
        """Leave the requests of the next seconds to botocore, and close all connections: they may be as dead as the one that
        failed. Connections that botocore itself has kept may be dead, too; it finds out one by one."""
        self.left_until = time.monotonic() + LEFT_S
        _close_all(self.idle)

    def post(self, operation: str, body: bytes, headers: Mapping[str, str], path: str = "/") -> Answered:
        """Send a request of `operation`; `headers` have lower-case names. Raises `NotSent`, `NotConnected`, and errors of sending
        and receiving (`OSError`, `HTTPException`), after which the service may have got the request."""
        if not self.is_usable:
            raise NotSent
        signed = self.signed(body, headers, path)
        headers_of_hooks: Any = HeadersDict(signed)  # as botocore makes it; its stubs say HTTPHeaders
        prepared = AWSPreparedRequest("POST", self._url + path, headers_of_hooks, body, False)
        _, instead = self._hooks.emit_until_response(f"before-send.{self.service}.{operation}", request=prepared)
        if instead is not None:
            headers_instead = Message()
            for name, value in instead.headers.items():
                headers_instead[name] = value
            return Answered(instead.status_code, headers_instead, instead.content)
        connection = self._connection()
        try:
            try:
                connection.request("POST", path, body, signed)
            except ValueError as error:  # an invalid header: credentials with a line break
                raise NotSent from error
            answer = connection.getresponse()
            content = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close or len(self.idle) >= CONNECTIONS:
            connection.close()
        else:
            self.idle.append((connection, time.time()))
        return Answered(answer.status, answer.headers, content)

    def _connection(self) -> HTTPConnection:
        """Return an idle connection that the other side has not closed, or a new one. Raises `NotConnected`."""
        while self.idle:
            try:
                connection, since = self.idle.pop()
            except IndexError:  # another thread took it
                break
            is_fresh = 0 <= time.time() - since < IDLE_S  # by the clock that continues while the function is frozen
            if is_fresh and connection.sock is not None and not wait_for_read(connection.sock, timeout=0):
                return connection
            connection.close()
        if self._tls is not None:
            connection = HTTPSConnection(self._host, self._port, timeout=self._connect_s, context=self._tls)
        else:
            connection = HTTPConnection(self._host, self._port, timeout=self._connect_s)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise NotConnected(str(error)) from error
        connection.sock.settimeout(self._answer_s)
        return connection

    def signed(self, body: bytes, headers: Mapping[str, str], path: str) -> dict[str, str]:
        """Return the headers of a request with its signature (AWS Signature Version 4)."""
        credentials = self._credentials.get_frozen_credentials()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        more = {"x-amz-security-token": credentials.token} if credentials.token else {}
        signed = dict(sorted({**headers, "host": self._host_header, "x-amz-date": now, **more}.items()))
        names = ";".join(signed)
        lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
        canonical = f"POST\n{quote(path, safe='/~')}\n\n{lines}\n{names}\n{sha256(body).hexdigest()}"
        scope = f"{now[:8]}/{self.region}/{self.service}/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._signing_key(credentials.secret_key, scope), text.encode(), "sha256").hex()
        who = f"Credential={credentials.access_key}/{scope}, SignedHeaders={names}"
        unsigned = {"user-agent": f"noetl/{__version__}", **_trace_header()}
        return {**signed, **unsigned, "authorization": f"AWS4-HMAC-SHA256 {who}, Signature={signature}"}

    def _signing_key(self, secret: str, scope: str) -> bytes:
        """Return the key of a day, which the last request of the same day and secret left."""
        of_secret, of_scope, key = self._key
        if (of_secret, of_scope) != (secret, scope):
            key = f"AWS4{secret}".encode()
            for part in scope.split("/"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (secret, scope, key)
        return key


def _close_all(connections: deque[tuple[HTTPConnection, float]]) -> None:
    with suppress(IndexError):
        while True:
            connections.pop()[0].close()


def _tls() -> ssl.SSLContext:
    """Return a context that trusts the same certificates as botocore's clients."""
    bundle = session().get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE") or get_cert_path(True)
    context = ssl.create_default_context(cafile=bundle)
    context.verify_flags &= ~_PYTHON_313_FLAGS
    return context


_PYTHON_313_FLAGS = ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
"""Flags of a default context since Python 3.13. botocore does not set them: private authorities may lack what the first requires,
and the second trusts intermediate certificates."""


def _trace_header() -> dict[str, str]:
    """Return the header that continues the trace of a Lambda function's invocation, as botocore sends it."""
    trace = os.environ.get("_X_AMZN_TRACE_ID")
    return {"x-amzn-trace-id": trace} if trace and "AWS_LAMBDA_FUNCTION_NAME" in os.environ else {}


_making = Lock()
_endpoints: weakref.WeakKeyDictionary[Any, Endpoint] = weakref.WeakKeyDictionary()


def endpoint(botocore_client: Any) -> Endpoint:
    """Return the endpoint of a botocore client, which lives as long as the client."""
    with _making:
        found = _endpoints.get(botocore_client)
        if found is None:
            found = _endpoints[botocore_client] = Endpoint(botocore_client)
        return found
