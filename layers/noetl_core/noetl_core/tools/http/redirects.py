"""Redirects: the next request is built by httpx's rules and stricter ones of our own."""

from __future__ import annotations

import logging

import httpx

from noetl_core.tools.http.client import Response
from noetl_core.tools.http.content import Streamed
from noetl_core.tools.http.request import Prepared, Request

logging.getLogger("httpx").setLevel(logging.WARNING)  # at lower levels it logs URLs


class BodyElsewhere(Exception):
    """A redirect asks to send the body to another origin."""


class _Answered(httpx.BaseTransport):
    """Returns a received response head, from which httpx derives the next request."""

    def __init__(self, response: Response) -> None:
        self._response = response

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(self._response.status, headers={"Location": self._response.headers["location"]})


def is_redirect(response: Response) -> bool:
    """Return whether a response is a redirect."""
    return response.status in (301, 302, 303, 307, 308) and "location" in response.headers


def redirected_request(response: Response, prepared: Prepared) -> Request:
    """Return the next request. Private headers of one origin are not sent to another. Raises `BodyElsewhere`, and
    `httpx.RemoteProtocolError` if the location is not a URL."""
    sent = response.request
    with httpx.Client(transport=_Answered(response), trust_env=False, follow_redirects=False) as client:
        content = b"" if isinstance(sent.content, Streamed) else sent.content
        following = client.send(httpx.Request(sent.method, sent.url, headers=sent.headers, content=content)).next_request
    assert following is not None  # checked by `redirects`
    before, after = sent.url, following.url
    if (before.scheme, before.host, before.port) != (after.scheme, after.host, after.port):
        if sent.content and following.method not in ("GET", "HEAD"):
            origin = f"{after.scheme}://{after.netloc.decode('ascii', 'replace')}"
            raise BodyElsewhere(f"the server redirects the body to another origin, {origin}: if that is meant, write it in `url`")
        for name in prepared.private - {"content-type"}:
            following.headers.pop(name, None)
    streamed = isinstance(sent.content, Streamed) and following.method == sent.method
    return Request(following.method, after, following.headers.raw, sent.content if streamed else following.read())
