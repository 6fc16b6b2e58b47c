"""Access tokens of the process: each is requested once, used by every call with the same grant, and renewed before it expires.

A token is identified by its whole request, including secrets: a caller that cannot make the request cannot get its token. Workers
share tokens through `ports.TokenCache`, encrypted, by a digest under a key that only workers have. Requests run on threads of
their own, so that a cancelled caller does not abort the request for the others, and templates, which cannot await, get tokens in
the same way.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from cachetools import LRUCache, TTLCache

from noetl_core.engine.outcome import ErrorInfo
from noetl_core.ports import CorruptLog, PortError, Sealer, StoredToken, TokenCache
from noetl_core.tools.base import BadInput
from noetl_core.tools.calls.event_loop import EventLoop
from noetl_core.tools.grants import Grant, Token, TokenRefused
from noetl_core.tools.http.client import HttpClient
from noetl_core.tools.http.token_request import REQUEST_S, request_token
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.values.instants import SECOND

KEPT: Final = 256
REFUSED_S: Final = 10
"""Seconds for which a rejection is cached, so that a loop with a wrong secret does not lock the client out."""
KEPT_ON_S: Final = 30 * 24 * 3600
"""Seconds for which an expired token is stored for its refresh token."""
POLL_S: Final = 0.2


class Tokens:
    """Provides access tokens. Thread-safe."""

    def __init__(
        self,
        policy: AddressPolicy | None = None,
        cache: TokenCache | None = None,
        sealer: Sealer | None = None,
        key: Callable[[], bytes] | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        """`policy` None: read from the environment. Tokens are shared with other workers if there are a cache, a sealer and a
        key."""
        self._policy, self._now = policy, now
        self._shared = _Shared(cache, sealer, key, now) if cache is not None and sealer is not None and key is not None else None
        self._lock = threading.Lock()
        self._held: LRUCache[bytes, Token] = LRUCache(KEPT)
        self._refused: TTLCache[bytes, TokenRefused, int] = TTLCache(KEPT, REFUSED_S * SECOND, timer=now)
        self._under_way: dict[bytes, Future[Token]] = {}
        self._client: HttpClient | None = None

    async def token(self, grant: Grant, owner: str, refused: Token | None = None) -> Token:
        """Return a token other than `refused`, which a service did not accept. Raises `BadInput`, `TokenRefused`, `PortError`."""
        future = self._begun(grant, owner, refused)
        if future.done():
            return future.result()
        waiting = asyncio.wrap_future(future)
        waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # the caller may have been cancelled
        return await asyncio.shield(waiting)

    def wait(self, grant: Grant, owner: str) -> Token:
        """Return a token, blocking this thread. Raises as `token`."""
        try:
            return self._begun(grant, owner, None).result(4 * REQUEST_S)
        except TimeoutError as error:
            raise TokenRefused(ErrorInfo("timeout", f"no access token: {grant.url} did not answer in time")) from error

    def close(self) -> None:
        """Close kept connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _begun(self, grant: Grant, owner: str, refused: Token | None) -> Future[Token]:
        name = _name(grant, owner)
        with self._lock:
            held = self._held.get(name)
            if held is not None and held is not refused and self._fresh(held, grant):
                return _done(held)
            under_way = self._under_way.get(name)
            if under_way is not None:
                return under_way
            refusal = self._refused.get(name)
            future: Future[Token] = Future()
            if refusal is not None:
                future.set_exception(refusal)
                return future
            self._under_way[name] = future
        work = threading.Thread(target=self._obtain, args=(name, grant, held, refused, future), name="token", daemon=True)
        work.start()
        return future

    def _fresh(self, token: Token, grant: Grant) -> bool:
        return self._now() < (token.renew_at() if grant.renew else token.until)

    def _obtain(self, name: bytes, grant: Grant, held: Token | None, refused: Token | None, future: Future[Token]) -> None:
        """Find or request the token, and complete `future`."""
        token: Token | None = None
        error: Exception | None = None
        try:
            token = self._found(name, grant, held, refused)
        except Exception as raised:  # raised in the waiting callers
            error = raised
            if held is not None and held is not refused and self._now() < held.until and not isinstance(raised, BadInput):
                token, error = held, None  # a token that could not be renewed early is still valid
        with self._lock:
            del self._under_way[name]
            if token is not None:
                self._refused.pop(name, None)
                self._held[name] = token
            elif isinstance(error, TokenRefused) and error.error.retryable is False:
                self._refused[name] = error
        if token is not None:
            future.set_result(token)
        else:
            future.set_exception(error)

    def _found(self, name: bytes, grant: Grant, held: Token | None, refused: Token | None) -> Token:
        if self._shared is None:
            return self._requested(grant, held)

        def serves(token: Token) -> bool:
            return self._fresh(token, grant) and (refused is None or token.value != refused.value)

        return self._shared.token(name, serves, lambda last: self._requested(grant, last or held))

    def _requested(self, grant: Grant, last: Token | None) -> Token:
        with self._lock:
            if self._client is None:
                self._client = HttpClient(self._policy or AddressPolicy.from_environment())
            client = self._client
        with EventLoop() as loop:
            return loop.run(request_token(loop, client, grant, last, self._now()), threading.Event())


class _Shared:
    """The tokens that the workers of a store share."""

    def __init__(self, cache: TokenCache, sealer: Sealer, key: Callable[[], bytes], now: Callable[[], int]) -> None:
        self._cache, self._sealer, self._key, self._now = cache, sealer, key, now

    def token(self, name: bytes, serves: Callable[[Token], bool], request: Callable[[Token | None], Token]) -> Token:
        """Return the stored token if it serves, otherwise request and store one. While another worker renews it, wait for the
        result."""
        key = hmac.new(self._key(), b"access token\0" + name, "sha256").hexdigest()
        until = time.monotonic() + REQUEST_S
        while True:
            stored = self._cache.read(key, self._now())
            last = self._opened(key, stored)
            if last is not None and serves(last):
                return last
            seen = stored.version if stored is not None else None
            now = self._now()
            if self._cache.begin_renewal(key, seen, now, now + int(REQUEST_S * SECOND)) or time.monotonic() > until:
                break
            time.sleep(POLL_S)
        try:
            token = request(last)
        except BaseException:
            with suppress(PortError):
                self._cache.end_renewal(key, seen)
            raise
        with suppress(PortError):  # others then request one of their own
            kept_on = KEPT_ON_S if token.refresh_token else 0
            sealed = self._sealer.seal(json.dumps([dict(token.fields), token.since, token.until]).encode(), {"token": key})
            self._cache.write(key, StoredToken(sealed, token.until, token.until // SECOND + kept_on), seen)
        return token

    def _opened(self, key: str, stored: StoredToken | None) -> Token | None:
        """Return the token of a stored item; None if it cannot be decrypted any more: then one is requested."""
        if stored is None:
            return None
        try:
            fields, since, until = json.loads(self._sealer.open(stored.sealed, {"token": key}))
        except CorruptLog:
            return None
        return Token(fields, since, until)


def _name(grant: Grant, owner: str) -> bytes:
    return grant.material() + b"\0" + owner.encode()


def _done(token: Token) -> Future[Token]:
    future: Future[Token] = Future()
    future.set_result(token)
    return future
