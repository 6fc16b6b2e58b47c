"""Builds the request from a task's inputs (URL, parameters, headers, body, credentials) and refuses unsafe ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import httpx

from noetl_core.tools.aws.signing import HEADERS as SIGNED
from noetl_core.tools.aws.signing import Signing
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.grants import Grant
from noetl_core.tools.http.auth import read_auth
from noetl_core.tools.http.content import Content, Streamed, content_of, mapping, spelled
from noetl_core.values.frozen import frozen

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS: Final = SAFE_METHODS | {"POST", "PUT", "PATCH", "DELETE"}
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS: Final = frozenset({"content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
"""Headers that frame the message: a value that differs from the client's would be request smuggling."""
MAX_URL: Final = 64 * 1024
ACCEPT_ENCODING: Final = "gzip, deflate"
"""The encodings that the standard library can decompress in limited steps."""
_DEFAULTS: Final = {
    "accept": (b"Accept", b"*/*"),
    "": (b"Accept-Encoding", ACCEPT_ENCODING.encode()),
    "connection": (b"Connection", b"keep-alive"),
    "user-agent": (b"User-Agent", b"noetl"),
}
"""Headers of every request, by the name under which an author may override them."""
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose requests state the length of their body, even if empty."""
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")


@frozen
class Request:
    """A request as it is sent."""

    method: str
    url: httpx.URL
    headers: list[tuple[bytes, bytes]]
    content: Content


@frozen
class Prepared:
    """A request as written by the author; `private` headers (lower case) are sent to their origin only."""

    method: str
    url: httpx.URL
    headers: dict[str, str]
    content: Content | None
    private: frozenset[str]
    grant: Grant | None = None
    """The grant for its access token, if it needs one."""
    aws: Mapping[str, Any] | None = None
    """The fields of `auth` for its signature."""
    signing: Signing | None = None

    def authorized(self, authorization: str) -> Prepared:
        """Return the request with that `Authorization`. Raises `BadInput`."""
        headers = {name: value for name, value in self.headers.items() if name.lower() != "authorization"}
        return replace(self, headers={**headers, "Authorization": _value("Authorization", authorization)})

    @property
    def where(self) -> str:
        """The name of the request in messages, without anything that may be secret."""
        return f"{self.method} {self.url.copy_with(query=None, userinfo=b'')}"


def prepare(call: ToolCall) -> Prepared:
    """Return the request of `call`. Raises `BadInput`."""
    inputs = call.inputs
    method = str(inputs.get("method") or "GET").upper()
    if method not in METHODS:
        raise BadInput(f"`method` {method[:20]!r} is unknown: {', '.join(sorted(METHODS))}")
    headers = _headers(inputs.get("headers"))
    names = {name.lower() for name in headers}
    content, content_type = content_of(call)
    if content_type and "content-type" not in names:
        headers["Content-Type"] = content_type
    cookies = mapping(inputs, "cookies")
    if cookies and "cookie" not in names:
        headers["Cookie"] = _value("cookie", "; ".join(f"{name}={value}" for name, value in cookies.items()))
    auth = read_auth(call)
    added = auth.headers
    headers |= {name: _value(name, value) for name, value in added.items()}
    if method not in SAFE_METHODS and "idempotency-key" not in names and call.task_run_id:
        headers["Idempotency-Key"] = _value("Idempotency-Key", call.task_run_id)
    url = _url(inputs.get("url"), {**mapping(inputs, "params"), **auth.query})
    own = {"authorization", "cookie", "idempotency-key", *(name.lower() for name in added)}
    private = frozenset(own | (names - {"accept", "user-agent"}))
    if auth.aws is not None:
        if names & {"host", *SIGNED}:
            raise BadInput("`auth` of type aws makes the headers Host, Authorization and X-Amz-...: leave them out")
        if isinstance(content, Streamed):
            raise BadInput("`auth` of type aws signs the whole body, so it cannot send a stored object or `files`")
        private |= SIGNED
    return Prepared(method, url, headers, content, private, auth.grant, auth.aws)


def build(prepared: Prepared) -> Request:
    """Return the request that is sent, with the headers that every request has."""
    own, url = prepared.headers, prepared.url
    names = {name.lower() for name in own}
    headers = [] if "host" in names else [(b"Host", url.netloc)]
    headers += [header for name, header in _DEFAULTS.items() if name not in names]
    headers += [(name.encode(), value.encode("latin-1")) for name, value in own.items() if name.lower() != "accept-encoding"]
    content = prepared.content or b""
    size = content.size if isinstance(content, Streamed) else len(content)
    if size or prepared.method in _WITH_BODY:
        headers.append((b"Content-Length", str(size).encode()))
    return Request(prepared.method, url, headers, content)


def _url(text: Any, params: Mapping[str, Any]) -> httpx.URL:
    if not isinstance(text, str) or not text:
        raise BadInput("`url` must be text")
    if len(text) > MAX_URL:
        raise BadInput(f"`url` has {len(text)} characters, and a URL may have at most {MAX_URL}: send large values as the body")
    if _CONTROL.search(text):
        raise BadInput("`url` has control characters in it")
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise BadInput(f"`url` {text[:200]!r} is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise BadInput(f"`url` {text[:200]!r} must start with http:// or https:// and name a host")
    pairs: list[tuple[str, str]] = []
    for name, value in params.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, Mapping | list | tuple):
                raise BadInput(f"`params.{name}` must be a value or a list of values")
            if one is not None:
                pairs.append((str(name), spelled(one)))
    long = sum(len(name) + len(value) for name, value in pairs)
    if long > MAX_URL:
        raise BadInput(f"`params` have {long} characters, and a URL may have at most {MAX_URL}: send large values as the body")
    try:
        return url.copy_with(params=[*url.params.multi_items(), *pairs]) if pairs else url
    except httpx.InvalidURL as error:
        raise BadInput(f"`params` do not make a valid URL: {error}; send large values as the body") from error


def _headers(headers: Any) -> dict[str, str]:
    if headers is not None and not isinstance(headers, Mapping):
        raise BadInput("`headers` must be a mapping")
    return {str(name): _value(str(name), value) for name, value in (headers or {}).items() if value is not None}


def _value(name: str, value: Any) -> str:
    """Return the value of a header; refuse one that could begin another header."""
    if not HEADER_NAME.fullmatch(name):
        raise BadInput(f"header name {name[:60]!r} is not a token")
    if name.lower() in _OWN_HEADERS:
        raise BadInput(f"header {name!r} is the client's own: leave it out")
    if isinstance(value, Mapping | list | tuple):
        raise BadInput(f"header {name!r} must be text, not {type(value).__name__}")
    text = spelled(value)
    if any((ord(c) < 0x20 and c != "\t") or ord(c) == 0x7F for c in text):
        raise BadInput(f"header {name!r} has a line break or control character in it")
    try:
        text.encode("latin-1")
    except UnicodeEncodeError as error:
        raise BadInput(f"header {name!r} has characters outside Latin-1") from error
    return text
