"""Loops of HTTP calls on the local runner, against a server in a process of its own (`http_server.py`)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from figures import Figure
from local import timed_run
from playbooks import map_of_calls

ITEMS = 1_000


@contextmanager
def server() -> Iterator[str]:
    """The base URL of a server that is started, and ended with the block."""
    script = Path(__file__).with_name("http_server.py")
    with subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.communicate()


def stats(base: str) -> dict[str, int]:
    """Return the server's counts since the last query: `requests`, the `most` at once, `connections` opened."""
    with urllib.request.urlopen(f"{base}/stats") as answer:
        seen: dict[str, int] = json.load(answer)
    return seen


def run(base: str, delay_ms: int, in_flight: int, **spec: object) -> tuple[float, float, int]:
    """One map of `ITEMS` calls: items a second, milliseconds of processor time an item, the most that the server saw at once."""
    stats(base)
    spent = time.process_time()
    seconds = timed_run(map_of_calls(ITEMS, f"{base}/{delay_ms}", in_flight, **spec))
    spent = time.process_time() - spent
    seen = stats(base)
    if seen["requests"] != ITEMS:
        raise RuntimeError(f"the server saw {seen['requests']} requests for {ITEMS} items")
    return ITEMS / seconds, spent / ITEMS * 1e3, seen["most"]


def bare(base: str, delay_ms: int, in_flight: int) -> float:
    """The same calls over bare sockets, the maximum for the server and the machine: calls a second."""
    host, port = base.removeprefix("http://").split(":")
    calls = iter(range(ITEMS))

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        for n in calls:
            writer.write(b"GET /%d/%d HTTP/1.1\r\nHost: bench\r\n\r\n" % (delay_ms, n))
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
        writer.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(connection() for _ in range(in_flight)))

    began = time.perf_counter()
    asyncio.run(all_of_them())
    return ITEMS / (time.perf_counter() - began)


def figures(times: int) -> list[Figure]:
    """Return figures by the server's delay and `max_in_flight`: items a second, processor time an item, and the most concurrent
    calls that the server saw."""
    os.environ["NOETL_HTTP_ALLOW_PRIVATE"] = "1"
    out = []
    with server() as base:
        run(base, 0, 16)  # imports and compiles
        for delay, in_flight, budget in ((0, 1, None), (0, 16, 1_500), (0, 100, 1_500), (20, 16, 720), (20, 100, 2_500)):
            rows, alone = [], []
            for _ in range(times):
                rows.append(run(base, delay, in_flight))
                alone.append(bare(base, delay, in_flight))
            name = f"map of {ITEMS:,} HTTP calls, {delay} ms server, {in_flight} in flight"
            out.append(Figure(name, "items/s", tuple(r[0] for r in rows), budget, "higher"))
            if delay:
                out.append(Figure("  the same by sockets alone", "calls/s", tuple(alone)))
            out.append(Figure("  processor time of an item", "ms", tuple(r[1] for r in rows)))
            seen = tuple(float(r[2]) for r in rows)
            name = f"  the most calls that the server saw at once, {delay} ms server, {in_flight} in flight"
            out.append(Figure(name, "calls", seen, in_flight if delay else None, "higher"))
        each = tuple(run(base, 20, 100, commit_every=1)[0] for _ in range(times))
        out.append(Figure("  the same, each iteration committed (commit_every: 1)", "items/s", each))
    return out
