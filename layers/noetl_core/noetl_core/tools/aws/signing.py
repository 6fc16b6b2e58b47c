"""Requests of the http tool to services of AWS, signed by botocore (Signature Version 4)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlsplit

from noetl_core.ports import Forbidden
from noetl_core.tools.aws import rights
from noetl_core.tools.base import BadInput
from noetl_core.values.frozen import frozen

HEADERS: Final = frozenset({"authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"})
"""The headers of a signature, in lower case."""
_HOST: Final = re.compile(r"([a-z0-9]+)\.(execute-api|lambda-url)\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)")
_EMULATED: Final = re.compile(r"/(?:_aws/execute-api|restapis)/([a-z0-9]+)(?:/|$)")
_SIGNED: Final = frozenset({"host", "content-type"})


@frozen
class Signing:
    """The credentials with which requests are signed."""

    service: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)

    def secrets(self) -> list[str]:
        """Return the values that no answer may show."""
        return [one for one in (self.secret_key, self.token) if one]


def signing_of(fields: Mapping[str, Any], url: str) -> Signing:
    """Return the credentials for requests to `url`: the keys of a credential, otherwise the worker's role, with which tools may
    call the APIs that the stack names, or locally the caller's own profile. Raises `BadInput`, `Forbidden`."""
    parts = urlsplit(url)
    host = _HOST.fullmatch(parts.hostname or "")
    emulated = _EMULATED.match(parts.path) if _is_emulator(parts.netloc) else None
    known = "execute-api" if emulated is not None else None
    if host is not None:
        known = "lambda" if host[2] == "lambda-url" else host[2]
    service = str(fields.get("service") or known or "")
    if not service:
        raise BadInput("`auth` of type aws needs `service`: it does not follow from the address")
    access = _first(fields, "access_key_id", "aws_access_key_id", "access_key")
    secret = _first(fields, "secret_access_key", "aws_secret_access_key", "secret_key")
    region = _first(fields, "region", "aws_region", "region_name") or (host[3] if host is not None else None)
    if access and secret:
        return Signing(service, region or _region(), access, secret, _first(fields, "session_token", "aws_session_token"))
    if access or secret:
        raise BadInput("`auth` of type aws needs both `access_key_id` and `secret_access_key`, or neither of them")
    if rights.on_stack():
        api = emulated[1] if emulated is not None else host[1] if host is not None else None
        if service != "execute-api" or not api:
            raise Forbidden(
                "the worker's role signs requests to APIs of API Gateway only: write a `credential` with its own keys in `auth`"
            )
        rights.check(rights.APIS, api)
    return _of_the_caller(service, region)


def _is_emulator(netloc: str) -> bool:
    """Return whether `netloc` is the emulator of this environment (`AWS_ENDPOINT_URL`)."""
    return netloc != "" and urlsplit(os.environ.get("AWS_ENDPOINT_URL", "")).netloc == netloc


def _of_the_caller(service: str, region: str | None) -> Signing:
    from noetl_core.tools.aws.clients import session  # 100 ms: only signed requests need it

    found = session().get_credentials()
    if found is None:
        raise Forbidden("there are no AWS credentials here: set AWS_PROFILE, or write `credential` in `auth`")
    keys = found.get_frozen_credentials()
    return Signing(service, region or _region(), str(keys.access_key), str(keys.secret_key), keys.token)


def _region() -> str:
    from noetl_core.tools.aws.clients import session  # 100 ms: as above

    region = session().get_config_variable("region")
    if not region:
        raise BadInput("`auth` of type aws needs `region`: it follows neither from the address nor from the environment")
    return str(region)


def _first(fields: Mapping[str, Any], *names: str) -> str | None:
    return next((str(fields[name]) for name in names if fields.get(name)), None)


def signed(
    signing: Signing, method: str, url: str, headers: Sequence[tuple[bytes, bytes]], body: bytes
) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request with its signature."""
    from botocore.auth import S3SigV4Auth, SigV4Auth  # 100 ms, with the next: as above
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    kept = [(name, value) for name, value in headers if name.decode("latin-1").lower() not in HEADERS]
    signed_headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in kept if n.decode("latin-1").lower() in _SIGNED}
    request = AWSRequest(method=method, url=url, headers=signed_headers, data=body)
    make = S3SigV4Auth if signing.service == "s3" else SigV4Auth
    make(Credentials(signing.access_key, signing.secret_key, signing.token), signing.service, signing.region).add_auth(request)
    added = [(name, value) for name, value in request.headers.items() if name.lower() in HEADERS]
    return kept + [(name.encode(), str(value).encode("latin-1")) for name, value in added]
