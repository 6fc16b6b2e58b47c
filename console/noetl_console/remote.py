"""An API elsewhere: requests are passed on with the credentials of this process."""

from __future__ import annotations

import threading

import httpx

from noetl_console.answering import Answered, Asked, refused
from noetl_core import __version__
from noetl_core.api.authorization import authorize
from noetl_core.api.errors import TokenInTheClear, Unreachable

PASSED = ("content-type", "idempotency-key", "if-none-match")
RETURNED = ("content-type", "etag", "retry-after")
TIMEOUT_S = 60.0
AGENT = f"noetl-console/{__version__}"


class RemoteApi:
    """The API at `url`, which ends before `/api`. Requests carry `token`, or are signed as `Client` does."""

    def __init__(self, url: str, token: str | None) -> None:
        self.name = self._url = url.rstrip("/")
        self._token = token
        self._client = httpx.Client(timeout=TIMEOUT_S, trust_env=False)
        self._signing = threading.Lock()

    def answer(self, asked: Asked) -> Answered:
        url = f"{self._url}{asked.path}" + (f"?{asked.query}" if asked.query else "")
        browser_headers = {name.lower(): value for name, value in asked.headers.items()}
        headers = {"content-type": "application/json", "user-agent": AGENT} | {
            name: browser_headers[name] for name in PASSED if name in browser_headers
        }
        try:
            request = self._client.build_request(asked.method, url, content=asked.body or None, headers=headers)
            with self._signing:  # expired credentials are fetched only once
                authorize(request, self._token)
            answer = self._client.send(request)
        except (httpx.HTTPError, httpx.InvalidURL, Unreachable, TokenInTheClear) as error:
            return refused(502, "unreachable", f"{self._url} does not answer: {error}")
        return Answered(answer.status_code, answer.content, {n: answer.headers[n] for n in RETURNED if n in answer.headers})

    def close(self) -> None:
        self._client.close()
