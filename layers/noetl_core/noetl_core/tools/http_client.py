"""The HTTP client of the process: it keeps connections, checks and pins addresses when it connects, and limits time.

Its connections are shared by all event loops, whichever thread drives them. It keeps no cookies and reads no proxy settings, so
that executions cannot affect each other through it. The check is where connections are opened, so redirects, and names that
change their address, pass it too. httpx's own pool is not used: its cost of a request grows with the connections that are open.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

import httpx

from noetl_core.tools.event_loop import EventLoop, Signal
from noetl_core.tools.http_connection import Connection, Origin, TimeLimits
from noetl_core.tools.http_request import Request
from noetl_core.tools.lookups import Lookups
from noetl_core.tools.net import AddressPolicy

IDLE_S: Final = 30.0
MAX_CONNECTIONS: Final = 512
"""Half of the files that a Lambda function may have open."""
PORTS: Final = {"http": 80, "https": 443}


def texts_of(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers of a response as texts: all of them ASCII, or UTF-8, or Latin-1, which every byte is."""
    for encoding in ("ascii", "utf-8", "latin-1"):
        texts: dict[str, str] = {}
        try:
            for name, value in headers:
                key, text = name.decode(encoding).lower(), value.decode(encoding)
                texts[key] = f"{texts[key]}, {text}" if key in texts else text
        except UnicodeDecodeError:
            continue
        break
    return texts


class Response:
    """A response whose head has arrived. Its body is read piece by piece; `close` gives the connection back."""

    def __init__(self, client: HttpClient, connection: Connection, request: Request, limits: TimeLimits) -> None:
        self._client, self._connection, self._limits = client, connection, limits
        self.request = request
        self.status = 0
        self.headers: dict[str, str] = {}
        """By lower-case name; of a header that came several times, all values, with commas between."""

    async def arrive(self, loop: EventLoop) -> None:
        """Send the request, and read the head of the response."""
        connection, limits = self._connection, self._limits
        await connection.send(loop, self.request, limits)
        self.status, headers = await connection.response(loop, limits)
        self.headers = texts_of(headers)

    async def piece(self, loop: EventLoop) -> bytes:
        """Return the next bytes of the body, as they were sent; none at its end."""
        return await self._connection.piece(loop, self._limits)

    def close(self) -> None:
        self._client.give_back(self._connection)


class HttpClient:
    """Sends requests to what `policy` allows, over at most `most` connections. Thread-safe."""

    def __init__(self, policy: AddressPolicy, most: int = MAX_CONNECTIONS) -> None:
        self._lookups, self._most = Lookups(policy), most
        self._contexts: dict[bool, ssl.SSLContext] = {}
        self._idle: dict[Origin, list[Connection]] = {}
        self._open = 0
        """Connections that are in use, idle, or being opened."""
        self._expire_at = 0.0
        """When idle connections are next looked through (monotonic seconds)."""
        self._queue: deque[Signal] = deque()
        """Wakes those who wait for a connection."""
        self._lock = threading.Lock()
        self._closed = False

    async def send(self, loop: EventLoop, request: Request, limits: TimeLimits, *, verify: bool) -> Response:
        """Send a request and return its response; its body is still to be read, and it must be closed."""
        url = request.url
        if url.scheme not in PORTS:
            raise httpx.UnsupportedProtocol(f"{url.scheme}:// is no protocol that can be asked")
        origin = Origin(url.scheme, url.raw_host.decode("ascii"), url.port or PORTS[url.scheme], verify)
        response = Response(self, await self._connection(loop, origin, limits), request, limits)
        try:
            await response.arrive(loop)
        except BaseException:
            response.close()
            raise
        return response

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for another request, or close it when its exchange did not come to its end."""
        kept = connection.finished()
        with self._lock:
            if kept and not self._closed:
                connection.idle_since = time.monotonic()
                self._idle.setdefault(connection.origin, []).append(connection)
            else:
                kept = False
                self._open -= 1
        if not kept:
            connection.close()
        self._wake_next()

    def close(self) -> None:
        """Close the idle connections, and those in use once they are given back."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, {}, True
            self._open -= sum(map(len, idle.values()))
        for connections in idle.values():
            for connection in connections:
                connection.close()

    # --- connections ----------------------------------------------------------------------------------------------------

    async def _connection(self, loop: EventLoop, origin: Origin, limits: TimeLimits) -> Connection:
        """Return an idle connection, or a new one as soon as there may be one more. Raises `httpx.PoolTimeout`."""
        until = limits.until(limits.pool)
        while True:
            found, closing, may_open = self._take(origin)
            for connection in closing:
                connection.close()
            if found is not None:
                return found
            if may_open:
                return await self._opened(loop, origin, limits)
            signal = Signal(loop)
            with self._lock:
                self._queue.append(signal)
            try:
                in_time = await signal.wait(until)
            except BaseException:
                self._leave_queue(signal)
                raise
            if not in_time:
                self._leave_queue(signal)
                raise httpx.PoolTimeout("no connection became free in time")

    def _take(self, origin: Origin) -> tuple[Connection | None, list[Connection], bool]:
        """Return an idle connection to `origin`, if there is one, those to close, and whether a new one may be opened instead."""
        closing: list[Connection] = []
        with self._lock:
            self._expire(closing)
            idle = self._idle.get(origin, [])
            while idle:  # the newest first: it is the least likely to have been closed
                connection = idle.pop()
                if connection.reusable():
                    return connection, closing, False
                closing.append(connection)
                self._open -= 1
            if self._open >= self._most and (oldest := self._oldest()) is not None:
                self._idle[oldest.origin].remove(oldest)
                closing.append(oldest)
                self._open -= 1
            if self._open < self._most:
                self._open += 1
                return None, closing, True
        return None, closing, False

    def _expire(self, closing: list[Connection]) -> None:
        """Move the connections that have been idle for long to `closing`, looking once a second. In each list the oldest come
        first."""
        now = time.monotonic()
        if now < self._expire_at:
            return
        self._expire_at = now + 1
        for origin, idle in list(self._idle.items()):
            while idle and idle[0].idle_since < now - IDLE_S:
                closing.append(idle.pop(0))
                self._open -= 1
            if not idle:
                del self._idle[origin]

    def _oldest(self) -> Connection | None:
        return min((idle[0] for idle in self._idle.values() if idle), key=lambda c: c.idle_since, default=None)

    async def _opened(self, loop: EventLoop, origin: Origin, limits: TimeLimits) -> Connection:
        try:
            addresses = await self._lookups.addresses(loop, origin.host, origin.port, limits.until(limits.connect))
            return await Connection.open(loop, origin, addresses, lambda: self._context(origin.verify), limits)
        except BaseException:
            with self._lock:
                self._open -= 1
            self._wake_next()
            raise

    def _wake_next(self) -> None:
        with self._lock:
            signal = self._queue.popleft() if self._queue else None
        if signal is not None:
            signal.set()

    def _leave_queue(self, signal: Signal) -> None:
        """Wait no longer. Whoever was woken and does not go on wakes the next."""
        with self._lock:
            waiting = signal in self._queue
            if waiting:
                self._queue.remove(signal)
        if not waiting:
            self._wake_next()

    def _context(self, verify: bool) -> ssl.SSLContext:
        with self._lock:
            if verify not in self._contexts:
                context = httpx.create_ssl_context(verify=verify)
                context.set_alpn_protocols(["http/1.1"])
                self._contexts[verify] = context
            return self._contexts[verify]
