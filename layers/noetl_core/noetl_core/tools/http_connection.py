"""One HTTP/1.1 connection: opened to a checked address, written and read on an event loop. h11 speaks the protocol.

Errors are those of httpx, as its own transport raises them.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

import h11
import httpx

from noetl_core.tools.event_loop import EventLoop
from noetl_core.tools.http_request import Request

READ_BYTES: Final = 64 * 1024
MAX_HEAD_BYTES: Final = 100 * 1024
"""The longest status line with headers that is read."""

_WAITS_TO_READ: Final = (BlockingIOError, ssl.SSLWantReadError)


class Origin(NamedTuple):
    """What a connection is to. Connections with different settings of `verify` are not exchanged for each other."""

    scheme: str
    host: str
    port: int
    verify: bool


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds for each operation, all of them before `deadline` (monotonic seconds)."""

    connect: float
    read: float
    write: float
    pool: float
    deadline: float

    def until(self, seconds: float) -> float:
        """Return when an operation that begins now must have ended."""
        return min(time.monotonic() + seconds, self.deadline)


class Connection:
    """A connection, with the state of the exchange on it. `idle_since` (monotonic seconds) says since when it is not used."""

    def __init__(self, origin: Origin, sock: socket.socket) -> None:
        self.origin, self.idle_since = origin, 0.0
        self._sock = sock
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)

    @classmethod
    async def open(
        cls, loop: EventLoop, origin: Origin, addresses: list[str], context: Callable[[], ssl.SSLContext], limits: TimeLimits
    ) -> Connection:
        """Connect to the first of `addresses` that answers; `context` gives the settings of TLS. Raises `httpx.ConnectError`,
        `httpx.ConnectTimeout`."""
        sock = await _connected(loop, origin, addresses, limits)
        if origin.scheme == "https":
            sock = await _secured(loop, sock, origin.host, context(), limits.until(limits.connect))
        return cls(origin, sock)

    def reusable(self) -> bool:
        """Return whether an idle connection can carry another request: what can be read now is its end, or answers nothing that
        was asked."""
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return False
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return not poll.poll(0)

    def finished(self) -> bool:
        """Return whether the exchange is over and another may begin, and prepare for that."""
        state = self._state
        done = state.our_state is h11.DONE and state.their_state is h11.DONE
        if not done or state.trailing_data[0]:  # what came after the answer would be taken for the answer to another call
            return False
        state.start_next_cycle()
        return True

    def close(self) -> None:
        self._sock.close()

    # --- the exchange ---------------------------------------------------------------------------------------------------

    async def send(self, loop: EventLoop, request: Request, limits: TimeLimits) -> None:
        """Send a request with its body."""
        state, head = self._state, h11.Request
        try:
            data = state.send(head(method=request.method, target=request.url.raw_path, headers=request.headers)) or b""
            if request.content:
                data += state.send(h11.Data(data=request.content)) or b""
            data += state.send(h11.EndOfMessage()) or b""
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from error
        with suppress(httpx.WriteError):  # a server may answer, and close, before it has read all: what it says is worth reading
            await self._write(loop, data, limits)

    async def response(self, loop: EventLoop, limits: TimeLimits) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Return status and headers of the response."""
        while True:
            event = await self._event(loop, limits)
            if isinstance(event, h11.Response) or (isinstance(event, h11.InformationalResponse) and event.status_code == 101):
                return event.status_code, event.headers.raw_items()

    async def piece(self, loop: EventLoop, limits: TimeLimits) -> bytes:
        """Return the next bytes of the body, as they were sent; none at its end."""
        while True:
            event = await self._event(loop, limits)
            if isinstance(event, h11.Data):
                if event.data:
                    return bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) or event is h11.PAUSED:
                return b""

    async def _event(self, loop: EventLoop, limits: TimeLimits) -> h11.Event | type[h11.PAUSED]:
        state = self._state
        while True:
            try:
                event = state.next_event()
                if event is not h11.NEED_DATA:
                    return event  # type: ignore[return-value]
                data = await self._read(loop, limits)
                if not data and state.their_state is h11.SEND_RESPONSE:
                    raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
                state.receive_data(data)
            except h11.RemoteProtocolError as error:
                raise httpx.RemoteProtocolError(str(error)) from error

    # --- the socket -----------------------------------------------------------------------------------------------------

    async def _read(self, loop: EventLoop, limits: TimeLimits) -> bytes:
        until = limits.until(limits.read)
        while True:
            try:
                return self._sock.recv(READ_BYTES)
            except _WAITS_TO_READ:
                ready = await loop.readable(self._sock, until)
            except ssl.SSLWantWriteError:
                ready = await loop.writable(self._sock, until)
            except OSError as error:
                raise httpx.ReadError(str(error)) from error
            if not ready:
                raise httpx.ReadTimeout("timed out")

    async def _write(self, loop: EventLoop, data: bytes, limits: TimeLimits) -> None:
        left = memoryview(data)
        while left:
            until = limits.until(limits.write)
            try:
                left = left[self._sock.send(left) :]
                continue
            except (BlockingIOError, ssl.SSLWantWriteError):
                ready = await loop.writable(self._sock, until)
            except ssl.SSLWantReadError:
                ready = await loop.readable(self._sock, until)
            except OSError as error:
                raise httpx.WriteError(str(error)) from error
            if not ready:
                raise httpx.WriteTimeout("timed out")


async def _connected(loop: EventLoop, origin: Origin, addresses: list[str], limits: TimeLimits) -> socket.socket:
    """Return a socket that is connected to the first address that answers."""
    failure: OSError | None = None
    for address in addresses:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await _connect(loop, sock, (address, origin.port), limits.until(limits.connect))
            return sock
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
    raise httpx.ConnectError(str(failure or f"{origin.host} has no address")) from failure


async def _connect(loop: EventLoop, sock: socket.socket, address: tuple[str, int], until: float) -> None:
    try:
        sock.connect(address)
        return
    except BlockingIOError:
        pass
    if not await loop.writable(sock, until):
        raise httpx.ConnectTimeout("timed out")
    if number := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(number, os.strerror(number))


async def _secured(loop: EventLoop, sock: socket.socket, host: str, context: ssl.SSLContext, until: float) -> ssl.SSLSocket:
    """Return the socket with TLS on it, after the handshake."""
    try:
        sock = secure = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        while True:
            try:
                secure.do_handshake()
                return secure
            except ssl.SSLWantReadError:
                ready = await loop.readable(secure, until)
            except ssl.SSLWantWriteError:
                ready = await loop.writable(secure, until)
            if not ready:
                raise httpx.ConnectTimeout("timed out")
    except OSError as error:
        sock.close()
        raise httpx.ConnectError(str(error)) from error
    except BaseException:
        sock.close()
        raise
