"""Calls the API over HTTP."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from noetl_core import __version__
from noetl_core.api.authorization import authorize
from noetl_core.api.errors import Refused, Unreachable
from noetl_core.api.fields import Spec, specs
from noetl_core.api.request import JSON, Answer, Request
from noetl_core.api.requests import Api

if TYPE_CHECKING:
    import ssl

    import httpx

ATTEMPTS = 8
"""Maximum number of attempts for a request answered with 429: nothing was done, and `Retry-After` says when to retry."""
LONGEST_WAIT_S = 10.0
NOT_MODIFIED = 304


class Client(Api):
    """The operations of the API at `url`, which ends before `/api`. All raise `Refused` and `Unreachable`.

    With a `token`, requests carry it (over TLS, or to this machine). Without one they are signed with the AWS credentials of the
    process if the API is on AWS; emulators and proxies are called unsigned. `timeout_s` is for one request.
    """

    agent = f"noetl-client/{__version__}"
    """The user agent of requests."""

    def __init__(self, url: str, *, token: str | None = None, timeout_s: float = 60.0) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s

    def call(self, request: Request[Answer]) -> Answer:
        import httpx  # 280 ms: an unused client costs nothing

        sent = self._http(request)
        authorize(sent, self._token)
        try:
            with httpx.Client(timeout=self._timeout_s, trust_env=False, verify=_verify(sent.url.scheme)) as client:
                for attempt in range(1, ATTEMPTS + 1):
                    answer = client.send(sent)
                    if answer.status_code != 429 or attempt == ATTEMPTS:
                        break
                    time.sleep(_wait_s(answer.headers.get("retry-after", "")))
        except httpx.HTTPError as error:
            raise Unreachable(f"{sent.url}: {error}") from None
        return cast("Answer", self._answer(request, answer))

    def _http(self, request: Request[Any]) -> httpx.Request:
        """Return the HTTP request with the fields of `request` in their places; those that are None are omitted."""
        import httpx  # 280 ms, as above

        http = request.http
        path, content = http.path, None
        query: dict[str, str] = {}
        body: dict[str, Any] = {}
        headers = {"content-type": JSON, "user-agent": self.agent}
        for spec in specs(type(request)):
            value = getattr(request, spec.attribute)
            if value is None:
                continue
            if spec.place == "path":
                path = re.sub(rf"\{{{spec.name}\}}", quote(str(value), safe=""), path)
                path = re.sub(rf"\{{{spec.name}\+\}}", quote(str(value)), path)
            elif spec.place == "query":
                query[spec.name] = str(value).lower() if isinstance(value, bool) else str(value)
            elif spec.place == "header":
                headers[spec.name.lower()] = f'"{value}"' if spec.field.quoted else str(value)
            elif spec.place == "text":
                headers["content-type"], content = "application/yaml", value
            else:
                body[spec.name] = _without_none(spec, value)
        if content is None and http.method == "POST":
            content = json.dumps(body)
        return httpx.Request(http.method, f"{self.url}{path}", params=query or None, content=content, headers=headers)

    def _answer(self, request: Request[Any], answer: httpx.Response) -> Any:
        """Return the answer in a response. Raises `Refused`, `Unreachable`."""
        if answer.status_code == NOT_MODIFIED:
            return None
        at = answer.url
        media = answer.headers.get("content-type", "")
        if answer.is_success and media != JSON and media in request.http.media:
            return answer.text
        try:
            value = answer.json()
        except ValueError:
            if answer.is_success:
                raise Unreachable(f"{at}: not JSON: {answer.text[:300]}") from None
            value = None
        error = value.get("error") if isinstance(value, dict) else None
        if answer.is_success or (answer.status_code in request.http.also and error is None and value is not None):
            return value
        if not isinstance(error, dict) or "message" not in error:
            raise Unreachable(f"{at}: HTTP {answer.status_code}: {answer.text[:300]}")
        raise Refused(answer.status_code, error)


@cache
def _verify(scheme: str) -> ssl.SSLContext | bool:
    """Return how to check the server. Reading the certificates of all authorities takes 60 ms: only for HTTPS, and once."""
    import httpx  # 280 ms, as above

    return httpx.create_ssl_context(trust_env=False) if scheme == "https" else False


def _without_none(spec: Spec, value: Any) -> Any:
    """Return a value of a body without the keys of a typed dictionary that are None."""
    if hasattr(spec.type, "__required_keys__") and isinstance(value, Mapping):
        return {name: part for name, part in value.items() if part is not None}
    return value


def _wait_s(retry_after: str) -> float:
    """Return the seconds to wait according to `Retry-After`; one second without it."""
    return min(float(retry_after), LONGEST_WAIT_S) if retry_after.isdecimal() else 1.0
