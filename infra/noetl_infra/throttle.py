"""Limits concurrent requests to the API of the embedded stack to as many as the machine can handle; others wait, and then get
429.

The emulator starts a process for every request that finds none idle. Fifty clients would make it start fifty at the same time,
and all requests would time out. AWS has its own limit (`MethodSettings` of the template) and answers in the same form.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

API = "/_aws/execute-api/"
AT_ONCE = max(3, 1 + (os.cpu_count() or 1))
"""Concurrent requests of the API: more would not be faster on this many cores, and each occupies a process."""
WAIT_S = 5.0
"""Seconds for which a request waits for its turn. Clients wait longer."""
RETRY_AFTER_S = 1


class Throttled:
    """An ASGI application whose API serves `at_once` requests at a time. A request that waits longer than `wait_s` is answered
    429 with `Retry-After`, and has no effect."""

    def __init__(self, app: App, at_once: int = AT_ONCE, wait_s: float = WAIT_S) -> None:
        self._app, self._wait_s = app, wait_s
        self._turns = asyncio.Semaphore(at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(API):
            await self._app(scope, receive, send)
            return
        try:
            await asyncio.wait_for(self._turns.acquire(), self._wait_s)
        except TimeoutError:
            await _refuse(send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._turns.release()


async def _refuse(send: Send) -> None:
    error = {"code": "throttled", "message": "the embedded stack is at work on as many requests as it can carry", "details": []}
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", str(RETRY_AFTER_S).encode()),
    ]
    await send({"type": "http.response.start", "status": 429, "headers": headers})
    await send({"type": "http.response.body", "body": body})
