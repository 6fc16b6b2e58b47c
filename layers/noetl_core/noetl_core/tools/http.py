"""`kind: http`: one request, one response (formal specification 5; docs/access.md says which addresses it refuses).

Result: `{status, headers, data, url, elapsed_ms}`; `data` is the parsed body (`http_body.parse_body`), header names are lower
case. A status of 400 or more is an error whose kind follows from the number. `outcome.http {status, headers}` is present in
either case, and `outcome.error.details` has the beginning of the body. Requests that change something send the task run id as
`Idempotency-Key`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.event_loop import EventLoop, Stopped
from noetl_core.tools.http_body import (
    EXCERPT_BYTES,
    BodyTooLarge,
    BodyUnreadable,
    excerpt,
    parse_body,
    read_beginning,
    read_body,
)
from noetl_core.tools.http_client import HttpClient, Response, TimeLimits
from noetl_core.tools.http_redirects import BodyElsewhere, redirected, redirects
from noetl_core.tools.http_request import Prepared, build, prepare
from noetl_core.tools.net import AddressPolicy, AddressRefused

DEFAULT_TIMEOUTS: Final = {"connect": 10.0, "read": 30.0, "write": 30.0, "pool": 30.0}
DEFAULT_TOTAL_S: Final = 300.0
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
MAX_REDIRECTS: Final = 5
RETRY_STATUSES: Final = frozenset({429, 502, 503, 504})
RETRY_KEYS: Final = frozenset({"attempts", "delay", "statuses"})
LONGEST_PAUSE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Options:
    """`spec`, read and checked."""

    timeouts: Mapping[str, float]
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
        self._client: HttpClient | None = None
        self._lock = threading.Lock()

    def run(self, call: ToolCall) -> Outcome:
        with EventLoop() as loop:
            return loop.run(self.answer(call, loop), call.cancelled)

    async def answer(self, call: ToolCall, loop: EventLoop) -> Outcome:
        """Do the work of `run` beside others on `loop`."""
        options = _options(call)
        request = prepare(call)
        client = self._kept_client()
        deadline = time.monotonic() + options.total_s
        limits = TimeLimits(**options.timeouts, deadline=deadline)
        for attempt in range(1, options.attempts + 1):
            outcome = await _attempt(loop, client, request, options, limits)
            if attempt == options.attempts or not _worth_another(outcome, options):
                break
            pause = min(_pause(outcome, options), LONGEST_PAUSE_S)
            if time.monotonic() + pause >= deadline:
                break
            try:
                await asyncio.sleep(pause)
            except Stopped:
                break
        return outcome

    def close(self) -> None:
        """Close kept connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _kept_client(self) -> HttpClient:
        with self._lock:
            if self._client is None:
                self._policy = self._policy or AddressPolicy.from_environment()
                self._client = HttpClient(self._policy)
            return self._client


async def _attempt(loop: EventLoop, client: HttpClient, prepared: Prepared, options: _Options, limits: TimeLimits) -> Outcome:
    """Make one exchange and follow redirects; every failure is an outcome."""
    try:
        return await _exchange(loop, client, prepared, options, limits)
    except Stopped:
        return Outcome.failed("cancelled", f"{prepared.where}: cancelled", retryable=False)
    except AddressRefused as error:
        return Outcome.failed("client_error", f"{prepared.where}: {error}", retryable=False, code="address_refused")
    except BodyElsewhere as error:
        return Outcome.failed("client_error", f"{prepared.where}: {error}", retryable=False, code="body_redirected")
    except BodyTooLarge as error:
        return Outcome.failed("limit", f"{prepared.where}: {error}", retryable=False)
    except httpx.TimeoutException as error:
        return Outcome.failed("timeout", f"{prepared.where}: {_words(error)}", code=type(error).__name__)
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects) as error:
        return Outcome.failed("client_error", f"{prepared.where}: {error}", retryable=False)
    except (httpx.TransportError, OSError) as error:
        return Outcome.failed("connection", f"{prepared.where}: {error or type(error).__name__}", code=type(error).__name__)


def _words(error: httpx.TimeoutException) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return "no connection in time"
    return "could not send in time" if isinstance(error, httpx.WriteTimeout) else "no answer in time"


async def _exchange(loop: EventLoop, client: HttpClient, prepared: Prepared, options: _Options, limits: TimeLimits) -> Outcome:
    request = build(prepared)
    started = time.monotonic()
    for hop in range(options.redirects + 1):
        response = await client.send(loop, request, limits, verify=options.verify)
        try:
            if not options.redirects or not redirects(response):
                return await _outcome(response, options, prepared, started)
            if hop == options.redirects:
                raise httpx.TooManyRedirects(f"more than {options.redirects} redirects")
        finally:
            await response.close()
        request = redirected(response, prepared)
    raise AssertionError("a redirect loop ends above")


async def _outcome(response: Response, options: _Options, prepared: Prepared, started: float) -> Outcome:
    elapsed_ms = round((time.monotonic() - started) * 1000)
    status = response.status
    headers = response.headers
    http = {"status": status, "headers": headers}
    failed = status >= 400 and options.raise_for_status and status not in options.ok_statuses
    if failed:
        return await _refused(response, headers, prepared, http)
    try:
        body = await read_body(response, options.max_bytes)
        data = parse_body(body, headers.get("content-type", ""), options.form)
    except BodyUnreadable as error:
        return Outcome.failed("parse", f"{prepared.where}: {error}", retryable=False, code=status, http=http)
    except BodyTooLarge as error:
        return Outcome.failed("limit", f"{prepared.where}: {error}", retryable=False, code=status, http=http)
    result = {"status": status, "headers": headers, "data": data, "url": str(response.request.url), "elapsed_ms": elapsed_ms}
    return Outcome.ok(result, http=http)


async def _refused(response: Response, headers: Mapping[str, str], prepared: Prepared, http: Mapping[str, Any]) -> Outcome:
    status = response.status
    try:
        said = excerpt(await read_beginning(response, EXCERPT_BYTES + 1))
    except BodyUnreadable as error:
        said = f"({error})"  # the status says what happened; the body only explains it
    details: dict[str, Any] = {"status": status, "body": said}
    if "retry-after" in headers:
        details["retry_after"] = headers["retry-after"]
    return Outcome.failed(kind_of(status), f"{prepared.where}: HTTP {status}", code=status, details=details, http=http)


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
        timeouts=timeout,
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
