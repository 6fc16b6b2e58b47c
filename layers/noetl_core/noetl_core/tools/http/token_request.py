"""Requests access tokens with the code of http tasks (`http_exchange`), so that the same address policy and errors apply."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from noetl_core.engine.outcome import ErrorInfo, Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.calls.event_loop import EventLoop
from noetl_core.tools.grants import Grant, Token, TokenRefused
from noetl_core.tools.http.client import HttpClient, TimeLimits
from noetl_core.tools.http.exchange import attempt
from noetl_core.tools.http.options import read_options
from noetl_core.tools.http.request import prepare
from noetl_core.tools.oauth2 import token_of

REQUEST_S: Final = 30.0
"""Seconds that a token request may take."""
MAX_ANSWER_BYTES: Final = 1 << 20


async def request_token(loop: EventLoop, client: HttpClient, grant: Grant, last: Token | None, now: int) -> Token:
    """Request a token; `last` is the one that it replaces. Raises `BadInput`, `TokenRefused`."""
    newer = last.refresh_token if last is not None else None
    outcome = await _outcome(loop, client, grant, newer)
    if newer is not None and outcome.error is not None and outcome.error.code == 400:  # the stored credential is even newer
        outcome = await _outcome(loop, client, grant, None)
    if outcome.error is not None:
        raise TokenRefused(_explained(outcome.error, grant))
    return token_of(outcome.result["data"], grant, newer, now)


async def _outcome(loop: EventLoop, client: HttpClient, grant: Grant, refresh_token: str | None) -> Outcome:
    call = replace(
        _request(grant, refresh_token),
        spec={"follow_redirects": False, "response": "json", "max_response_bytes": MAX_ANSWER_BYTES},
    )
    options = read_options(call)
    limits = TimeLimits(connect=10.0, read=REQUEST_S, write=10.0, pool=10.0, deadline=time.monotonic() + REQUEST_S)
    return await attempt(loop, client, prepare(call), options, limits)


def _request(grant: Grant, refresh_token: str | None) -> ToolCall:
    """Return the request as a call of kind `http`. `refresh_token` is the one that the last answer gave in place of the
    grant's own."""
    inputs: dict[str, Any] = {"method": grant.method, "url": grant.url, "params": grant.params}
    inputs["headers"] = {"Accept": "application/json", **grant.headers}
    if grant.body is not None:
        newer = {"refresh_token": refresh_token} if refresh_token is not None and "refresh_token" in grant.body else {}
        inputs["json" if grant.as_json else "form"] = {**grant.body, **newer}
    return ToolCall("http", inputs)


def _explained(error: ErrorInfo, grant: Grant) -> ErrorInfo:
    """Return the error of a task whose token request failed. Of the answer's body only the fields that the standard intends for
    people are shown."""
    details = error.details if isinstance(error.details, Mapping) else {}
    try:
        body = json.loads(str(details.get("body", "")))
    except (ValueError, RecursionError):
        body = None
    body = body if isinstance(body, dict) else {}
    reason = ": ".join(str(body[name])[:300] for name in ("error", "error_description") if isinstance(body.get(name), str))
    failure = error.message
    if isinstance(error.code, int):
        failure = f"{failure.partition(': HTTP ')[0]}: HTTP {error.code}"  # without the reason that any field of the body gives
    message = f"no access token: {failure}{f' ({reason})' if reason else ''}"
    public_details = {"status": error.code, "error": reason} if isinstance(error.code, int) else None
    if error.code in (400, 401, 403):
        return ErrorInfo("auth", message, False, error.code, public_details)
    return ErrorInfo(error.kind, message, error.retryable, error.code, public_details)
