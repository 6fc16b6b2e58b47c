"""A service for playbooks: it records every call in a file, by idempotency key, and counts concurrent calls."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.servers import Handler, serving, url_of


@dataclass
class Ledger:
    """`POST /?delay=S&fail_first=1`: appends the call's `Idempotency-Key` and body to a file, waits, returns the body.

    With `fail_first` the first call of a key is answered 503, later ones 200.
    """

    file: Path
    url: str = ""
    observed: Counter[int] = field(default_factory=Counter)
    """The number of calls that began as the n-th of the concurrent ones, by n."""
    _serving: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, key: str, body: Any) -> int:
        """Record the call; return how many calls of this key there have been, including this one."""
        with self._lock:
            self._serving += 1
            self.observed[self._serving] += 1
            with self.file.open("a") as lines:
                lines.write(json.dumps([key, body]) + "\n")
            return self.keys()[key]

    def leave(self) -> None:
        with self._lock:
            self._serving -= 1

    def calls(self) -> list[tuple[str, Any]]:
        """Return idempotency key and body of every call, in order."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [(str(key), body) for key, body in map(json.loads, lines)]

    def keys(self) -> Counter[str]:
        return Counter(key for key, _ in self.calls())


@contextmanager
def ledger(file: Path) -> Iterator[Ledger]:
    """Run a ledger on a free port of this machine."""
    book = Ledger(file)

    class Calls(Handler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes

        def do_POST(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
            times = book.enter(self.headers.get("Idempotency-Key", ""), body)
            try:
                time.sleep(float(query.get("delay", ["0"])[0]))
            finally:
                book.leave()
            answer = json.dumps(body).encode()
            try:
                self.send_response(503 if "fail_first" in query and times == 1 else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the caller was killed

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    with serving(Server(("127.0.0.1", 0), Calls)) as server:
        book.url = url_of(server)
        yield book
