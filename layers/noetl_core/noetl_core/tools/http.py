"""`kind: http`: one request, one response (formal specification 5; docs/access.md says which addresses it refuses).

Result: `{status, headers, data, url, elapsed_ms}`; `data` is the parsed body (`http_body.parse_body`), header names are lower
case. A status of 400 or more is an error whose kind follows from the number. `outcome.http {status, headers}` is present in
either case, and `outcome.error.details` has the beginning of the body. Requests that change something send the task run id as
`Idempotency-Key`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.http_body import (
    ACCEPT_ENCODING,
    EXCERPT_BYTES,
    BodyTooLarge,
    BodyUnreadable,
    excerpt,
    parse_body,
    read_beginning,
    read_body,
)
from noetl_core.tools.http_client import Stopped, budget, new_client
from noetl_core.tools.http_request import Prepared, prepare
from noetl_core.tools.net import AddressPolicy, AddressRefused

DEFAULT_TIMEOUTS: Final = {"connect": 10.0, "read": 30.0, "write": 30.0, "pool": 30.0}
DEFAULT_TOTAL_S: Final = 300.0
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
MAX_REDIRECTS: Final = 5
RETRY_STATUSES: Final = frozenset({429, 502, 503, 504})
RETRY_KEYS: Final = frozenset({"attempts", "delay", "statuses"})
LONGEST_PAUSE_S: Final = 30.0
USER_AGENT: Final = "noetl"


@dataclass(frozen=True, slots=True)
class _Options:
    """`spec`, read and checked."""

    timeout: httpx.Timeout
    total_s: float
    max_bytes: int
    redirects: int
    verify: bool
    form: str
    ok_statuses: frozenset[int]
    raise_for_status: bool
    attempts: int
    pause_s: float
    retry_statuses: frozenset[int]


class HttpTool:
    """Inputs `method`, `url`, `params`, `headers`, one of `json` (`payload`), `body` (`data`), `form`, and `cookies`, `auth`."""

    kind = "http"
    inline = False

    def __init__(self, policy: AddressPolicy | None = None) -> None:
        """`policy` None: as the environment says, read at the first call."""
        self._policy = policy
        self._clients: dict[bool, httpx.Client] = {}
        self._lock = threading.Lock()

    def run(self, call: ToolCall) -> Outcome:
        options = _options(call)
        request = prepare(call)
        client = self._client(verify=options.verify)
        deadline = time.monotonic() + options.total_s
        for attempt in range(1, options.attempts + 1):
            outcome = _attempt(client, request, options, deadline, call)
            if attempt == options.attempts or not _worth_another(outcome, options):
                break
            pause = min(_pause(outcome, options), LONGEST_PAUSE_S)
            if time.monotonic() + pause >= deadline or call.cancelled.wait(pause):
                break
        return outcome

    def close(self) -> None:
        """Close kept connections."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _client(self, *, verify: bool) -> httpx.Client:
        with self._lock:
            if verify not in self._clients:
                self._policy = self._policy or AddressPolicy.from_environment()
                self._clients[verify] = new_client(self._policy, verify=verify)
            return self._clients[verify]


def _attempt(client: httpx.Client, prepared: Prepared, options: _Options, deadline: float, call: ToolCall) -> Outcome:
    """Make one exchange and follow redirects; every failure is an outcome."""
    where = f"{prepared.method} {prepared.url.copy_with(query=None, userinfo=b'')}"
    try:
        with budget(deadline, call.cancelled):
            return _exchange(client, prepared, options, where)
    except Stopped:
        return Outcome.failed("cancelled", f"{where}: cancelled", retryable=False)
    except AddressRefused as error:
        return Outcome.failed("client_error", f"{where}: {error}", retryable=False, code="address_refused")
    except _BodyElsewhere as error:
        return Outcome.failed("client_error", f"{where}: {error}", retryable=False, code="body_redirected")
    except BodyTooLarge as error:
        return Outcome.failed("limit", f"{where}: {error}", retryable=False)
    except httpx.TimeoutException as error:
        return Outcome.failed("timeout", f"{where}: {_words(error)}", code=type(error).__name__)
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects) as error:
        return Outcome.failed("client_error", f"{where}: {error}", retryable=False)
    except (httpx.TransportError, OSError) as error:
        return Outcome.failed("connection", f"{where}: {error or type(error).__name__}", code=type(error).__name__)


def _words(error: httpx.TimeoutException) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return "no connection in time"
    return "could not send in time" if isinstance(error, httpx.WriteTimeout) else "no answer in time"


def _exchange(client: httpx.Client, prepared: Prepared, options: _Options, where: str) -> Outcome:
    defaults = {"Accept": "*/*", "Accept-Encoding": ACCEPT_ENCODING, "User-Agent": USER_AGENT}
    request = client.build_request(
        prepared.method, prepared.url, headers={**defaults, **prepared.headers}, content=prepared.content, timeout=options.timeout
    )
    request.headers["Accept-Encoding"] = ACCEPT_ENCODING
    started = time.monotonic()
    for hop in range(options.redirects + 1):
        response = client.send(request, stream=True)
        try:
            following = response.next_request if options.redirects else None
            if following is None:
                return _outcome(response, options, where, round((time.monotonic() - started) * 1000))
            if hop == options.redirects:
                raise httpx.TooManyRedirects(f"more than {options.redirects} redirects", request=request)
        finally:
            response.close()
        request = _redirected(request, following, prepared, options.timeout)
    raise AssertionError("a redirect loop ends above")


class _BodyElsewhere(Exception):
    """A redirect asks to send the body to another origin."""


def _redirected(request: httpx.Request, following: httpx.Request, prepared: Prepared, timeout: httpx.Timeout) -> httpx.Request:
    """Return the next request. Headers that were meant for one origin are not sent to another. Raises `_BodyElsewhere`."""
    before, after = request.url, following.url
    if (before.scheme, before.host, before.port) != (after.scheme, after.host, after.port):
        if prepared.content and following.method not in ("GET", "HEAD"):
            origin = f"{after.scheme}://{after.netloc.decode('ascii', 'replace')}"
            raise _BodyElsewhere(f"it redirects the body to another origin, {origin}: if that is meant, name it in `url`")
        for name in prepared.private - {"content-type"}:
            following.headers.pop(name, None)
    following.extensions = {**following.extensions, "timeout": timeout.as_dict()}
    return following


def _outcome(response: httpx.Response, options: _Options, where: str, elapsed_ms: int) -> Outcome:
    status = response.status_code
    headers = {name.lower(): value for name, value in response.headers.items()}
    http = {"status": status, "headers": headers}
    failed = status >= 400 and options.raise_for_status and status not in options.ok_statuses
    if failed:
        return _refused(response, headers, where, http)
    try:
        body = read_body(response, options.max_bytes)
        data = parse_body(body, headers.get("content-type", ""), options.form)
    except BodyUnreadable as error:
        return Outcome.failed("parse", f"{where}: {error}", retryable=False, code=status, http=http)
    except BodyTooLarge as error:
        return Outcome.failed("limit", f"{where}: {error}", retryable=False, code=status, http=http)
    result = {"status": status, "headers": headers, "data": data, "url": str(response.url), "elapsed_ms": elapsed_ms}
    return Outcome.ok(result, http=http)


def _refused(response: httpx.Response, headers: Mapping[str, str], where: str, http: Mapping[str, Any]) -> Outcome:
    status = response.status_code
    try:
        said = excerpt(read_beginning(response, EXCERPT_BYTES + 1))
    except BodyUnreadable as error:
        said = f"({error})"  # the status says what happened; the body only explains it
    details: dict[str, Any] = {"status": status, "body": said}
    if "retry-after" in headers:
        details["retry_after"] = headers["retry-after"]
    return Outcome.failed(kind_of(status), f"{where}: HTTP {status}", code=status, details=details, http=http)


_KINDS: Final[dict[int, ErrorKind]] = {
    401: "auth",
    403: "auth",
    404: "not_found",
    408: "timeout",
    410: "not_found",
    429: "rate_limit",
}


def kind_of(status: int) -> ErrorKind:
    """Return the error kind of an HTTP status of 400 or more (resolution 24)."""
    return _KINDS.get(status) or ("client_error" if status < 500 else "server_error")


def _worth_another(outcome: Outcome, options: _Options) -> bool:
    error = outcome.error
    return error is not None and (error.kind == "connection" or error.code in options.retry_statuses)


def _pause(outcome: Outcome, options: _Options) -> float:
    after = str(outcome.helpers.get("http", {}).get("headers", {}).get("retry-after", ""))
    return float(after) if after.isdigit() else options.pause_s


def _options(call: ToolCall) -> _Options:
    spec = call.spec
    timeout = dict(DEFAULT_TIMEOUTS)
    total = DEFAULT_TOTAL_S if call.timeout_s is None else call.timeout_s
    said = spec.get("timeout")
    if isinstance(said, Mapping):
        timeout |= {name: _number(f"timeout.{name}", value) for name, value in said.items() if name in timeout}
        total = min(total, _number("timeout.total", said.get("total", total)))
    elif said is not None:
        seconds = _number("timeout", said)
        timeout, total = dict.fromkeys(timeout, seconds), min(total, seconds)
    retry = spec.get("retry")
    retry = retry if isinstance(retry, Mapping) else {"attempts": 1 if retry in (None, False) else retry}
    if unknown := retry.keys() - RETRY_KEYS:
        raise BadInput(f"`spec.retry` has an unknown key {sorted(unknown)[0]!r}; known are {', '.join(sorted(RETRY_KEYS))}")
    follow = spec.get("follow_redirects", True)
    form = str(spec.get("response", "auto"))
    if form not in ("auto", "json", "text", "base64"):
        raise BadInput(f"`spec.response` {form!r} is unknown: auto, json, text or base64")
    return _Options(
        timeout=httpx.Timeout(**timeout),
        total_s=total,
        max_bytes=int(_number("max_response_bytes", spec.get("max_response_bytes", MAX_BODY_BYTES))),
        redirects=int(_number("max_redirects", spec.get("max_redirects", MAX_REDIRECTS))) if follow is not False else 0,
        verify=spec.get("verify", True) is not False,
        form=form,
        ok_statuses=_statuses("ok_statuses", spec.get("ok_statuses", [])),
        raise_for_status=spec.get("raise_for_status", True) is not False,
        attempts=max(1, min(10, int(_number("retry.attempts", retry.get("attempts", 3))))),
        pause_s=_number("retry.delay", retry.get("delay", 0.5)),
        retry_statuses=_statuses("retry.statuses", retry.get("statuses", list(RETRY_STATUSES))),
    )


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not 0 <= number < 1e12:
        raise BadInput(f"`spec.{name}` must be a number of 0 or more, not {str(value)[:40]!r}")
    return number


def _statuses(name: str, value: Any) -> frozenset[int]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, int) for v in value):
        raise BadInput(f"`spec.{name}` must be a list of HTTP statuses")
    return frozenset(value)
