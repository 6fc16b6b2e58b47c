"""The HTTP service that measured playbooks call, a process of its own: it answers every request after a delay, and counts.

`python bench/http_server.py` prints its port and ends with its standard input. `/<milliseconds>/<n>` answers `{"n": n}` after
that time; `/stats` answers how many such requests there were, the most at once, and the connections opened, since it was last
asked. It parses only as much as its clients need: it shares the machine's processors with what is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"


class Seen:
    """Requests since the last query."""

    def __init__(self) -> None:
        self.requests = self.now = self.most = self.connections = 0

    def take(self) -> bytes:
        body = json.dumps({"requests": self.requests, "most": self.most, "connections": self.connections}).encode()
        self.requests = self.most = self.connections = 0
        return body


class Asked(asyncio.Protocol):
    """One connection, with GETs without a body, one at a time."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._loop = asyncio.get_running_loop()
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._seen.connections += 1

    def data_received(self, data: bytes) -> None:
        self._held += data
        if not self._held.endswith(b"\r\n\r\n"):
            return
        path = self._held.split(b" ", 2)[1]
        self._held = b""
        if path == b"/stats":
            self._send(self._seen.take())
            return
        seen = self._seen
        seen.requests += 1
        seen.now += 1
        if seen.now > seen.most:
            seen.most = seen.now
        _, delay, n = path.split(b"/", 2)
        if int(delay):
            self._loop.call_later(int(delay) / 1e3, self._answer, n)
        else:
            self._answer(n)

    def _answer(self, n: bytes) -> None:
        self._seen.now -= 1
        self._send(b'{"n": %s}' % n)

    def _send(self, body: bytes) -> None:
        self._transport.write(_ANSWER % (len(body), body))


async def serve() -> None:
    seen, loop = Seen(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Asked(seen), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until its parent has ended
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
