"""The HTTP client of the process: aiohttp, with checked addresses and limited times.

Each asyncio loop keeps its connections in a session. It stores no cookies and reads no proxy settings, so that executions cannot
affect each other through it. Addresses are checked twice: when names are resolved, and when a socket is created, however the
address was written. This covers redirects and DNS rebinding too.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

import aiohttp
import httpx
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from yarl import URL

from noetl_core.ports import Unavailable
from noetl_core.tools.calls.blocking import run_blocking
from noetl_core.tools.calls.event_loop import EventLoop, drop
from noetl_core.tools.http.content import Content, Streamed
from noetl_core.tools.http.errors import ERRORS, as_httpx_error
from noetl_core.tools.http.request import Request
from noetl_core.tools.network.addresses import AddressPolicy, AddressRefused
from noetl_core.tools.network.lookups import Resolver
from noetl_core.values.frozen import frozen

IDLE_S: Final = 30.0
MAX_CONNECTIONS: Final = 512
"""Half of the files that a Lambda function may have open."""
MAX_HEAD_BYTES: Final = 100 * 1024
"""The longest line of a response's header that is read."""
MAX_HEADERS: Final = 1_000
PORTS: Final = {"http": 80, "https": 443}
PIECE_BYTES: Final = 64 * 1024
LEAST_PIECE: Final = 1 << 20
_OWN_HEADERS: Final = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
"""Headers that aiohttp would add."""
_NUMERIC: Final = re.compile(r"[0-9.]+")
_LEAST_S: Final = 0.001
"""aiohttp takes 0 for no limit."""


@frozen
class TimeLimits:
    """Seconds for each operation, all of them before `deadline` (monotonic seconds)."""

    connect: float
    read: float
    write: float
    pool: float
    deadline: float

    @classmethod
    def within(cls, seconds: float, each: Mapping[str, float]) -> TimeLimits:
        """Return limits that end `seconds` from now; `each` are those of the operations."""
        return cls(**each, deadline=time.monotonic() + seconds)

    def of_aiohttp(self) -> aiohttp.ClientTimeout:
        left = max(self.deadline - time.monotonic(), _LEAST_S)
        return aiohttp.ClientTimeout(total=left, connect=max(self.connect, _LEAST_S), sock_read=max(self.read, _LEAST_S))


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


class _Connector(aiohttp.TCPConnector):
    """Closes connections on which more has arrived than was requested: further bytes may not be the answer to a request."""

    async def connect(self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout) -> Any:
        while True:
            connection = await super().connect(req, traces, timeout)
            if connection.protocol is None or not connection.protocol.should_close:
                return connection
            connection.close()


class _Body(Payload):
    """A body that is written within `seconds` for each piece."""

    def __init__(self, content: bytes, seconds: float) -> None:
        super().__init__(content, headers={})
        self._size, self._seconds = len(content), seconds

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return cast(bytes, self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        content = memoryview(cast(bytes, self._value))
        for start in range(0, len(content), PIECE_BYTES):
            try:
                async with asyncio.timeout(self._seconds):
                    await writer.write(bytes(content[start : start + PIECE_BYTES]))
                    await writer.drain()
            except TimeoutError as error:
                raise httpx.WriteTimeout("timed out") from error

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        await self.write(writer)


class _StreamedBody(Payload):
    """A body that is read piece by piece on threads, and written as `_Body` is."""

    def __init__(self, content: Streamed, seconds: float) -> None:
        super().__init__(content, headers={})
        self._size, self._seconds = content.size, seconds

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        raise TypeError("a stream is not text")

    async def write(self, writer: AbstractStreamWriter) -> None:
        content = cast(Streamed, self._value)
        rest = await run_blocking(content.open)
        sent = 0
        while piece := await run_blocking(lambda: _next(rest)):
            sent += len(piece)
            if sent > content.size:
                break
            await _Body(piece, self._seconds).write(writer)
        if sent != content.size:
            raise Unavailable(f"the body was to be {content.size} bytes, and the stored object has another size")

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        await self.write(writer)


def _next(rest: Iterator[bytes]) -> bytes:
    """Return the next piece, a megabyte or more of small ones; nothing at the end."""
    held = bytearray()
    for piece in rest:
        held += piece
        if len(held) >= LEAST_PIECE:
            break
    return bytes(held)


def _body_of(content: Content, seconds: float) -> Payload | None:
    if isinstance(content, Streamed):
        return _StreamedBody(content, seconds)
    return _Body(content, seconds) if content else None


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a request once: aiohttp would send some that got no answer again, and only `retry` does that."""
    try:
        return await handler(request)
    except ERRORS as error:
        raise as_httpx_error(error) from error


class Response:
    """A response whose head has arrived. Its body is read piece by piece; `close` returns the connection."""

    def __init__(self, answer: aiohttp.ClientResponse, request: Request, done: Callable[[], Any]) -> None:
        self._answer, self._done = answer, done
        self.request = request
        self.status = answer.status
        self.headers = texts_of(answer.raw_headers)
        """Headers by lower-case name. The values of a repeated header are joined with commas."""

    async def piece(self) -> bytes:
        """Return the next raw bytes of the body; none at its end."""
        try:
            return await self._answer.content.readany()
        except ERRORS as error:
            raise as_httpx_error(error) from error

    async def close(self) -> None:
        """Return the connection to the pool, or close it if the response was not read to its end."""
        self._answer.release()
        await self._done()


class Connections:
    """The connections of one asyncio loop. At the limit, idle connections are closed to make room."""

    def __init__(self, policy: AddressPolicy, most: int, idle_s: float) -> None:
        self._policy, self._most, self._idle_s = policy, most, idle_s
        self.resolver = Resolver(policy)
        self.places = asyncio.Semaphore(most)
        self._sockets: list[socket.socket] = []
        self._crowded = False
        self._current: aiohttp.ClientSession | None = None
        self._in_use: dict[aiohttp.ClientSession, int] = {}

    async def close(self) -> None:
        for session in list(self._in_use):
            await session.close()
        self._in_use.clear()
        self._current = None

    async def place(self, limits: TimeLimits) -> None:
        """Wait until one more connection may be used. Raises `httpx.PoolTimeout`."""
        if not self.places.locked():
            await self.places.acquire()
            return
        try:
            async with asyncio.timeout(max(min(limits.pool, limits.deadline - time.monotonic()), 0.0)):
                await self.places.acquire()
        except TimeoutError as error:
            raise httpx.PoolTimeout("no connection became free in time") from error

    async def take(self) -> aiohttp.ClientSession:
        """Return the session to send a request with."""
        if self._crowded:
            self._crowded = False
            await self._retire()
        if self._current is None:
            self._current = self._opened()
            self._in_use[self._current] = 0
        self._in_use[self._current] += 1
        return self._current

    async def give_back(self, session: aiohttp.ClientSession) -> None:
        self.places.release()
        self._in_use[session] -= 1
        if session is not self._current and not self._in_use[session]:
            await self._close(session)

    async def _retire(self) -> None:
        """Use another session for further requests, and close this one as soon as nobody uses it."""
        session, self._current = self._current, None
        if session is not None and not self._in_use[session]:
            await self._close(session)

    async def _close(self, session: aiohttp.ClientSession) -> None:
        del self._in_use[session]
        await session.close()
        await asyncio.sleep(0)  # the sockets are closed one turn later

    def open_sockets(self) -> list[socket.socket]:
        """Return the sockets of all connections, idle ones included."""
        self._sockets = [sock for sock in self._sockets if sock.fileno() >= 0]
        return self._sockets

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """Return a socket for an address, if the policy allows it. Every connection is made through this method."""
        host, port = address[4][:2]
        try:
            self._policy.check(ipaddress.ip_address(str(host).partition("%")[0]), int(port))
        except ValueError as error:
            raise AddressRefused(f"{host} is not an address") from error
        self._crowded = self._crowded or (len(self._sockets) >= self._most and len(self.open_sockets()) >= self._most)
        made = socket.socket(*address[:3])
        self._sockets.append(made)
        return made

    def _opened(self) -> aiohttp.ClientSession:
        connector = _Connector(
            limit=0,  # `places` limits their number, and how long to wait for one
            resolver=self.resolver,
            use_dns_cache=False,
            keepalive_timeout=self._idle_s,
            happy_eyeballs_delay=None,
            socket_factory=self._socket,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(_once,),
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=_OWN_HEADERS,
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=MAX_HEAD_BYTES,
            max_headers=MAX_HEADERS,
        )


class HttpClient:
    """Sends requests to addresses that `policy` allows, over at most `most` connections of each event loop. Thread-safe."""

    def __init__(self, policy: AddressPolicy, most: int = MAX_CONNECTIONS, idle_s: float = IDLE_S) -> None:
        self._policy, self._most, self._idle_s = policy, most, idle_s
        self._contexts: dict[bool, ssl.SSLContext] = {}
        self._lock = threading.Lock()

    async def send(self, loop: EventLoop, request: Request, limits: TimeLimits, *, verify: bool) -> Response:
        """Send a request and return its response; its body is still to be read, and it must be closed."""
        if request.url.scheme not in PORTS:
            raise httpx.UnsupportedProtocol(f"{request.url.scheme}:// is not a supported protocol")
        kept = cast(Connections, loop.kept(self, lambda: Connections(self._policy, self._most, self._idle_s)))
        await kept.place(limits)
        session = None
        try:
            await asyncio.sleep(0)  # data that has arrived on idle connections is examined before one of them is used
            session = await kept.take()
            try:
                url = await self._url(kept, request.url)
                answer = await self._answer(session, url, request, limits, verify)
            except ERRORS as error:
                raise as_httpx_error(error) from error
            used = session
            return Response(answer, request, lambda: kept.give_back(used))
        except BaseException:
            if session is None:
                kept.places.release()
            else:
                await kept.give_back(session)
            raise

    def close(self) -> None:
        """Close the connections: those of idle loops at once, others when their run ends."""
        drop(self)

    async def _answer(
        self, session: aiohttp.ClientSession, url: URL, request: Request, limits: TimeLimits, verify: bool
    ) -> aiohttp.ClientResponse:
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers]
        context = self._context(verify) if url.scheme == "https" else True
        return await session.request(
            request.method,
            url,
            headers=headers,
            data=_body_of(request.content, limits.write),
            allow_redirects=False,
            timeout=limits.of_aiohttp(),
            ssl=context,
        )

    async def _url(self, kept: Connections, url: httpx.URL) -> URL:
        """Return the URL for aiohttp: not normalized, and without credentials, which are sent as headers."""
        host, port = url.raw_host.decode("ascii"), url.port or PORTS[url.scheme]
        if _NUMERIC.fullmatch(host) and not _is_address(host):  # aiohttp would neither resolve nor accept it
            host = (await kept.resolver.addresses(host, port))[0]
        where = f"[{host}]" if ":" in host else host
        return URL(f"{url.scheme}://{where}:{port}{url.raw_path.decode('ascii')}", encoded=True)

    def _context(self, verify: bool) -> ssl.SSLContext:
        with self._lock:
            if verify not in self._contexts:
                context = httpx.create_ssl_context(verify=verify)
                context.set_alpn_protocols(["http/1.1"])
                self._contexts[verify] = context
            return self._contexts[verify]


@lru_cache(maxsize=256)
def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
