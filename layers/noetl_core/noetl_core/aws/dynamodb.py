"""PutItem, GetItem and Query, in a third of the processor time that botocore's client takes (docs/decisions.md,
"Frequent requests to DynamoDB bypass botocore's client").

This module sends the first attempt of a request: it signs the JSON and sends it over an idle connection. It understands two
answers, success and a failed condition. With any other answer, a broken connection or a proxy it leaves the request to
botocore's client, which sends it again, with its retries and its errors. So a request may be sent once more than botocore alone
would send it; callers allow for repeated requests anyway.
"""

from __future__ import annotations

import hmac
import json
import os
import ssl
import time
import weakref
import zlib
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Lock
from typing import Any, Final
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, HeadersDict
from botocore.exceptions import BotoCoreError, ClientError
from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies
from urllib3.util import wait_for_read

from noetl_core import __version__
from noetl_core.aws.clients import CONNECT_S, CONNECTIONS, DYNAMODB_ANSWER_S, client, session

Answer = dict[str, Any]
Trace = Callable[[str, Mapping[str, Any], str], AbstractContextManager[Any]]

CONDITION_FAILED: Final = "ConditionalCheckFailedException"
trace: Trace | None = None
"""The context of each request if requests are traced, called with the operation, its arguments and the Region. If it raises
`NotAnswered`, the request is left to botocore."""
_OPERATIONS: Final = {"PutItem": "put_item", "GetItem": "get_item", "Query": "query"}
_TYPE: Final = "application/x-amz-json-1.0"


class NotAnswered(Exception):
    """The first attempt had no answer that this module understands: the request is botocore's."""


def put_item(**request: Any) -> Answer:
    """As `put_item` of botocore's client. Raises its errors."""
    return _send("PutItem", request)


def get_item(**request: Any) -> Answer:
    """As `get_item` of botocore's client. Raises its errors."""
    return _send("GetItem", request)


def query(**request: Any) -> Answer:
    """As `query` of botocore's client. Raises its errors."""
    return _send("Query", request)


def _send(operation: str, request: Mapping[str, Any]) -> Answer:
    botocores = client("dynamodb")
    try:
        there = endpoint(botocores)
        with nullcontext() if trace is None else trace(operation, request, there.region):
            status, content = there.post(operation, json.dumps(request, default=_encoded, separators=(",", ":")).encode())
        return _answer(operation, status, content)
    except (NotAnswered, OSError, HTTPException, BotoCoreError):
        answer: Answer = getattr(botocores, _OPERATIONS[operation])(**request)
        return answer


def _encoded(binary: bytes) -> str:
    return b64encode(binary).decode()


def _answer(operation: str, status: int, content: bytes) -> Answer:
    """Return the answer as botocore would. Raises `ClientError` for a failed condition, `NotAnswered` for any other error."""
    try:
        answer: Answer = json.loads(content)
        for item in (answer.get("Item"), answer.get("Attributes"), *answer.get("Items", ())):
            if item is not None:
                item.update({name: _value(value) for name, value in item.items() if "S" not in value and "N" not in value})
    except (ValueError, TypeError, AttributeError):
        raise NotAnswered from None
    if status == 200:
        return answer
    if str(answer.get("__type")).rpartition("#")[2] != CONDITION_FAILED:
        raise NotAnswered
    error = {"Code": CONDITION_FAILED, "Message": str(answer.get("message", answer.get("Message", "")))}
    told: Any = {**answer, "Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
    raise ClientError(told, operation)


def _value(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an attribute value whose binary parts are bytes."""
    ((kind, content),) = value.items()
    if kind == "B":
        return {"B": b64decode(content, validate=True)}
    if kind == "BS":
        return {"BS": [b64decode(each, validate=True) for each in content]}
    if kind == "L":
        return {"L": [_value(each) for each in content]}
    if kind == "M":
        return {"M": {name: _value(each) for name, each in content.items()}}
    return value


class Endpoint:
    """The endpoint of one botocore client: it signs and sends requests with the client's credentials and hooks."""

    def __init__(self, botocores: Any) -> None:
        self._url = str(botocores.meta.endpoint_url).rstrip("/") + "/"
        self.region = str(botocores.meta.region_name)
        self._hooks = botocores.meta.events
        self._credentials: Any = session().get_credentials()
        parts = urlsplit(self._url)
        self._host, self._port, self._path = parts.hostname or "", parts.port, parts.path
        standard = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
        self._host_header = parts.netloc.rpartition("@")[2].removesuffix(standard)
        self._is_usable = (
            parts.scheme in ("http", "https")
            and parts.path == "/"
            and self._credentials is not None
            and not get_environ_proxies(self._url)
        )
        self._tls = _tls() if self._is_usable and parts.scheme == "https" else None
        self.idle: deque[HTTPConnection] = deque()
        weakref.finalize(self, _close, self.idle)
        self._key: tuple[str, str, bytes] = ("", "", b"")

    def post(self, operation: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; return status and content of the answer. Raises `NotAnswered`, and errors of a connection."""
        if not self._is_usable:
            raise NotAnswered
        headers = self.signed(f"DynamoDB_20120810.{operation}", body)
        prepared = AWSPreparedRequest("POST", self._url, HeadersDict(headers), body, False)  # type: ignore[arg-type]  # the stubs say HTTPHeaders
        _, instead = self._hooks.emit_until_response(f"before-send.dynamodb.{operation}", request=prepared)
        if instead is not None:
            return instead.status_code, instead.content
        connection = self._connection()
        try:
            connection.request("POST", self._path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close or len(self.idle) >= CONNECTIONS:
            connection.close()
        else:
            self.idle.append(connection)
        checksum = answer.getheader("x-amz-crc32")
        if checksum is not None and int(checksum) != zlib.crc32(content):
            raise NotAnswered
        return answer.status, content

    def _connection(self) -> HTTPConnection:
        """Return an idle connection that the other side has not closed, or a new one."""
        while self.idle:
            try:
                connection = self.idle.pop()
            except IndexError:  # another thread took it
                break
            if connection.sock is not None and not wait_for_read(connection.sock, timeout=0):
                return connection
            connection.close()
        if self._tls is not None:
            connection = HTTPSConnection(self._host, self._port, timeout=CONNECT_S, context=self._tls)
        else:
            connection = HTTPConnection(self._host, self._port, timeout=CONNECT_S)
        connection.connect()
        connection.sock.settimeout(DYNAMODB_ANSWER_S)
        return connection

    def signed(self, target: str, body: bytes) -> dict[str, str]:
        """Return the headers of a request with its signature (AWS Signature Version 4)."""
        credentials = self._credentials.get_frozen_credentials()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        signed = {"content-type": _TYPE, "host": self._host_header, "x-amz-date": now}
        if credentials.token:
            signed["x-amz-security-token"] = credentials.token
        signed["x-amz-target"] = target
        names = ";".join(signed)
        lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
        canonical = f"POST\n{self._path}\n\n{lines}\n{names}\n{sha256(body).hexdigest()}"
        scope = f"{now[:8]}/{self.region}/dynamodb/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._signing_key(credentials.secret_key, scope), text.encode(), "sha256").hex()
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return {**signed, "authorization": authorization, "user-agent": f"noetl/{__version__}"}

    def _signing_key(self, secret: str, scope: str) -> bytes:
        """Return the key of a day, which the last request of the same day and secret left."""
        if self._key[:2] != (secret, scope):
            key = f"AWS4{secret}".encode()
            for part in scope.split("/"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (secret, scope, key)
        return self._key[2]


def _close(connections: Iterable[HTTPConnection]) -> None:
    for connection in connections:
        connection.close()


def _tls() -> ssl.SSLContext:
    """Return a context that trusts the same certificates as botocore's clients."""
    bundle = session().get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE") or get_cert_path(True)
    return ssl.create_default_context(cafile=bundle)


_making = Lock()


def endpoint(botocores: Any) -> Endpoint:
    """Return the endpoint of a client of botocore's, with its idle connections."""
    with _making:
        return _made(botocores)


@lru_cache(maxsize=1)
def _made(botocores: Any) -> Endpoint:
    return Endpoint(botocores)
