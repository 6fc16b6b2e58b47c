"""One exchange of an http task: it sends the request, follows redirects, and turns every failure into an outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws.signing import Signing, signed
from noetl_core.tools.calls.blocking import run_blocking
from noetl_core.tools.calls.event_loop import EventLoop, Stopped
from noetl_core.tools.http.body import (
    EXCERPT_BYTES,
    BodyTooLarge,
    BodyUnreadable,
    excerpt,
    parse_body,
    read_beginning,
    read_body,
    reason_in,
)
from noetl_core.tools.http.client import HttpClient, Response, TimeLimits
from noetl_core.tools.http.options import Options
from noetl_core.tools.http.redirects import BodyElsewhere, is_redirect, redirected_request
from noetl_core.tools.http.request import Prepared, Request, build
from noetl_core.tools.http.statuses import kind_of, waits_of
from noetl_core.tools.http.storing import Target, store_body
from noetl_core.tools.network.addresses import AddressRefused


async def attempt(
    loop: EventLoop, client: HttpClient, prepared: Prepared, options: Options, limits: TimeLimits, target: Target | None = None
) -> Outcome:
    """Make one exchange, following redirects; failures are outcomes. With `target`, the body of the response is stored there.
    Raises port errors of the objects that are sent or stored."""
    try:
        return await _exchange(loop, client, prepared, options, limits, target)
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


async def _exchange(
    loop: EventLoop, client: HttpClient, prepared: Prepared, options: Options, limits: TimeLimits, target: Target | None
) -> Outcome:
    request = first = build(prepared)
    started = time.monotonic()
    for hop in range(options.redirects + 1):
        if prepared.signing is not None and _origin(request) == _origin(first):
            request = await _signed(request, prepared.signing)
        response = await client.send(loop, request, limits, verify=options.verify)
        try:
            if not options.redirects or not is_redirect(response):
                return await _outcome(response, options, prepared, started, target)
            if hop == options.redirects:
                raise httpx.TooManyRedirects(f"more than {options.redirects} redirects")
        finally:
            await response.close()
        request = redirected_request(response, prepared)
    raise AssertionError("a redirect loop ends above")


def _origin(request: Request) -> tuple[str, str, int | None]:
    return request.url.scheme, request.url.host, request.url.port


async def _signed(request: Request, signing: Signing) -> Request:
    assert isinstance(request.content, bytes)  # `prepare` refuses to sign a body that is not in memory
    body = request.content
    headers = await run_blocking(lambda: signed(signing, request.method, str(request.url), request.headers, body))
    return Request(request.method, request.url, headers, body)


async def _outcome(response: Response, options: Options, prepared: Prepared, started: float, target: Target | None) -> Outcome:
    elapsed_ms = round((time.monotonic() - started) * 1000)
    status = response.status
    headers = response.headers
    http = {"status": status, "headers": headers, **waits_of(headers)}
    failed = status >= 400 and options.raise_for_status and status not in options.ok_statuses
    if failed:
        return await _refused(response, headers, prepared, http)
    try:
        data: Any
        if target is not None:
            data = await store_body(response, target, options.max_bytes)
        else:
            body = await read_body(response, options.max_bytes)
            data = parse_body(body, headers.get("content-type", ""), options.form)
    except BodyUnreadable as error:
        return Outcome.failed("parse", f"{prepared.where}: {error}", retryable=False, code=status, http=http)
    except BodyTooLarge as error:
        remedy = "" if target is not None else "; `spec.store: true` stores a body of any size, and gives a reference to it"
        return Outcome.failed("limit", f"{prepared.where}: {error}{remedy}", retryable=False, code=status, http=http)
    result = {"status": status, "headers": headers, "data": data, "url": str(response.request.url), "elapsed_ms": elapsed_ms}
    return Outcome.ok(result, http=http)


async def _refused(response: Response, headers: Mapping[str, str], prepared: Prepared, http: Mapping[str, Any]) -> Outcome:
    status = response.status
    try:
        body = excerpt(await read_beginning(response, EXCERPT_BYTES + 1))
    except BodyUnreadable as error:
        body = f"({error})"  # the status suffices; the body only explains it
    details: dict[str, Any] = {"status": status, "body": body}
    if "retry-after" in headers:
        details["retry_after"] = headers["retry-after"]
    reason = reason_in(body)
    message = f"{prepared.where}: HTTP {status}" + (f": {reason}" if reason else "")
    return Outcome.failed(kind_of(status), message, code=status, details=details, http=http)
