"""Authorizes requests: with a token, or a signature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl_core.api.errors import TokenInTheClear, Unreachable

if TYPE_CHECKING:
    import httpx

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def authorize(request: httpx.Request, token: str | None) -> None:
    """Add `token` to `request`; without one, sign it if the API is on AWS. Raises `TokenInTheClear`, `Unreachable`."""
    if token:
        if request.url.scheme != "https" and request.url.host not in LOOPBACK:
            raise TokenInTheClear(f"a token is not sent to {request.url.host} without TLS: use https")
        request.headers["authorization"] = f"Bearer {token}"
    elif request.url.host.endswith(".amazonaws.com"):
        _sign(request)


def _sign(request: httpx.Request) -> None:
    """Sign with SigV4 and the credentials of the process."""
    from botocore.auth import SigV4Auth  # 110 ms, with the next two: only an API on AWS needs it
    from botocore.awsrequest import AWSRequest
    from botocore.session import Session

    credentials = Session().get_credentials()
    if credentials is None:
        raise Unreachable("the API is on AWS and there are no AWS credentials here")
    signed = AWSRequest(
        request.method, str(request.url), data=request.content, headers={"content-type": request.headers["content-type"]}
    )
    SigV4Auth(credentials, "execute-api", request.url.host.split(".")[2]).add_auth(signed)
    request.headers.update(dict(signed.headers))
