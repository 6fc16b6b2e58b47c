"""The HTTP server that `bench/http.py` asks, a process of its own: it answers every request after a delay, and counts.

`python bench/http_server.py` prints its port. `/stats` answers how many requests there were, and the most at once, since the
last time it was asked; any other path is `/<milliseconds>/...` and answers a small JSON body after that time. It parses only as
much as its one client needs: the server shares the machine's processors with what is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys

_BODY = b'{"ok":true,"value":42}'
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_SMALL = _ANSWER % len(_BODY) + _BODY


class Seen:
    """What has been asked since the last look."""

    def __init__(self) -> None:
        self.requests = self.now = self.most = self.connections = 0

    def take(self) -> bytes:
        body = json.dumps({"requests": self.requests, "most": self.most, "connections": self.connections}).encode()
        self.requests = self.most = self.connections = 0
        return _ANSWER % len(body) + body


class Asked(asyncio.Protocol):
    """One connection, with one GET without a body at a time."""

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
            self._transport.write(self._seen.take())
            return
        seen = self._seen
        seen.requests += 1
        seen.now += 1
        if seen.now > seen.most:
            seen.most = seen.now
        delay = int(path.split(b"/", 2)[1])
        if delay:
            self._loop.call_later(delay / 1e3, self._answer)
        else:
            self._answer()

    def _answer(self) -> None:
        self._seen.now -= 1
        self._transport.write(_SMALL)


async def serve() -> None:
    seen = Seen()
    server = await asyncio.get_running_loop().create_server(lambda: Asked(seen), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        sys.exit(0)
