"""`kind: http`: one request, one response (formal specification 5; docs/access.md says which addresses it refuses).

Result: `{status, headers, data, url, elapsed_ms}`; `data` is the parsed body (`http_body.parse_body`), or with `spec.store` the
reference to the stored body (`http_storing`); header names are lower case. A status of 400 or more is an error whose kind follows
from the number. `outcome.http {status, headers, retry_after?}` is present in either case, and `outcome.error.details` has the
beginning of the body. Unsafe methods send the task run id as `Idempotency-Key`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import Final

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws.signing import signing_of
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.calls.blocking import run_blocking
from noetl_core.tools.calls.event_loop import EventLoop, Stopped
from noetl_core.tools.grants import Grant, Token, TokenRefused
from noetl_core.tools.http.access_tokens import Tokens
from noetl_core.tools.http.client import HttpClient, TimeLimits
from noetl_core.tools.http.exchange import attempt
from noetl_core.tools.http.execution_tokens import ExecutionTokens
from noetl_core.tools.http.options import Options, read_options
from noetl_core.tools.http.request import Prepared, prepare
from noetl_core.tools.http.storing import Target
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.values.frozen import frozen

LONGEST_PAUSE_S: Final = 30.0


class HttpTool:
    """Inputs `method`, `url`, `params`, `headers`, one of `json` (`payload`), `body` (`data`), `form`, and `cookies`, `auth`."""

    kind = "http"
    inline = False

    def __init__(self, policy: AddressPolicy | None = None, client: HttpClient | None = None) -> None:
        """`policy` None: read from the environment at the first call. `client` None: one for this policy, made at that call."""
        self._policy = policy
        self._client = client
        self._tokens: Tokens | None = None
        """The tokens for calls without `ToolCall.tokens`."""
        self._lock = threading.Lock()

    def run(self, call: ToolCall) -> Outcome:
        with EventLoop() as loop:
            return loop.run(self.answer(call, loop), call.cancelled)

    async def answer(self, call: ToolCall, loop: EventLoop) -> Outcome:
        """Do the work of `run` beside others on `loop`."""
        options = read_options(call)
        request = prepare(call)
        limits = TimeLimits.within(options.total_s, options.timeouts)
        exchange = _Exchange(loop, self._kept_client(), options, limits, _target(call, options, loop))
        if request.aws is not None:
            fields, url = request.aws, str(request.url)
            signing = await run_blocking(lambda: signing_of(fields, url))
            call.conceal(signing.secrets())
            request = replace(request, signing=signing)
        if request.grant is None:
            return await exchange.tried(request)
        try:
            return await self._with_token(call, exchange, request, request.grant)
        except TokenRefused as refused:
            return Outcome("error", error=refused.error)
        except Stopped:
            return Outcome.failed("cancelled", f"{request.where}: cancelled", retryable=False)

    def close(self) -> None:
        """Close kept connections."""
        with self._lock:
            client, self._client = self._client, None
            tokens, self._tokens = self._tokens, None
        if client is not None:
            client.close()
        if tokens is not None:
            tokens.close()

    async def _with_token(self, call: ToolCall, exchange: _Exchange, request: Prepared, grant: Grant) -> Outcome:
        """Send a request with an access token; once more with another token if the service no longer accepts this one."""
        tokens = call.tokens or ExecutionTokens(self._own_tokens, call.execution_id, lambda: None)
        token = await tokens.token(grant)
        outcome = await exchange.authorized(call, request, token)
        if _status(outcome) != 401 or not grant.renew or (token.own and not token.accepted):
            return outcome  # another new token would be refused as well
        return await exchange.authorized(call, request, await tokens.token(grant, token))

    def _own_tokens(self) -> Tokens:
        with self._lock:
            if self._tokens is None:
                self._tokens = Tokens(self._policy)
            return self._tokens

    def _kept_client(self) -> HttpClient:
        with self._lock:
            if self._client is None:
                self._policy = self._policy or AddressPolicy.from_environment()
                self._client = HttpClient(self._policy)
            return self._client


@frozen
class _Exchange:
    """Shared by the requests of one call."""

    loop: EventLoop
    client: HttpClient
    options: Options
    limits: TimeLimits
    target: Target | None

    async def authorized(self, call: ToolCall, request: Prepared, token: Token) -> Outcome:
        """Send a request with an access token."""
        call.conceal(token.secrets())
        outcome = await self.tried(request.authorized(token.header))
        if _status(outcome) not in (None, 401):
            token.accepted = True
        return outcome

    async def tried(self, request: Prepared) -> Outcome:
        """Send a request, and repeat it according to `spec.retry`."""
        options, limits = self.options, self.limits
        for number in range(1, options.attempts + 1):
            outcome = await attempt(self.loop, self.client, request, options, limits, self.target)
            if number == options.attempts or not _worth_another(outcome, options):
                break
            pause = min(_pause(outcome, options), LONGEST_PAUSE_S)
            if time.monotonic() + pause >= limits.deadline:
                break
            try:
                await asyncio.sleep(pause)
            except Stopped:
                break
        return outcome


def _target(call: ToolCall, options: Options, loop: EventLoop) -> Target | None:
    """Return where to store the body of the response. Every attempt of a task run writes the same object."""
    if options.store is None:
        return None
    if call.results is None:
        raise BadInput("`spec.store`: this worker has no result store")
    key = f"{call.execution_id}/http/{call.task_run_id}"
    return Target(call.results, key, None if options.store == "true" else options.store, loop)


def _worth_another(outcome: Outcome, options: Options) -> bool:
    error = outcome.error
    return error is not None and (error.kind == "connection" or error.code in options.retry_statuses)


def _pause(outcome: Outcome, options: Options) -> float:
    after = outcome.helpers.get("http", {}).get("retry_after")
    return options.pause_s if after is None else float(after)


def _status(outcome: Outcome) -> int | None:
    status = outcome.helpers.get("http", {}).get("status")
    return status if isinstance(status, int) else None
