"""The service that the HTTP cases call: answers at once, in a process of its own that prints its port.

`/N` answers `{"n": N}`; `/seen` answers how many such calls there were since it was last asked.
"""

from __future__ import annotations

import asyncio
import sys


class Answering(asyncio.Protocol):
    """One connection, kept open. Requests have no body, and are read as far as their path."""

    seen = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.unread = b""

    def data_received(self, data: bytes) -> None:
        *requests, self.unread = (self.unread + data).split(b"\r\n\r\n")
        for request in requests:
            path = request.split(b" ", 2)[1].lstrip(b"/")
            if path == b"seen":
                path, Answering.seen = b"%d" % Answering.seen, 0
            else:
                Answering.seen += 1
            body = b'{"n": %s}' % path
            self.transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the one who started it has ended
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
