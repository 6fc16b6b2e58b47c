"""How exactly a rate is kept that several processes share, in real time and as the called service sees it: `make rate`, or
`python -m bench.rate [--executions 10] [--calls 40] [--per-second 5] [--burst 1]`.

Each execution is a `noetl run` of its own, all with one store and one key. Prints how many calls came per second over all, and
the most in any second. Ends with 1 when that is more than the rate and the burst, or the whole is off by more than a tenth. A
machine that is busy with other things is part of what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, Final

NOETL: Final = Path(sys.executable).parent / "noetl"
OFF: Final = 0.1
"""The part by which the whole may be off."""
PLAYBOOK: Final = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: rate, path: bench/rate }
workload: { url: "", calls: 1, per_second: 1, burst: 1 }
workflow:
  - step: start
    loop: { in: "{{ range(workload.calls) | list }}", iterator: n, spec: { mode: parallel, max_in_flight: 5 } }
    tool:
      - name: call
        kind: http
        url: "{{ workload.url }}/{{ execution_id }}/{{ iter.n }}"
        spec: { policy: { rate: { key: bench-rate, per_second: "{{ workload.per_second }}", burst: "{{ workload.burst }}" } } }
"""


@dataclass(frozen=True)
class Asked:
    """What is measured."""

    executions: int
    calls: int
    per_second: float
    burst: int


@dataclass(frozen=True)
class Seen:
    """When the service was called (seconds), in order, and for how many different things."""

    at: Sequence[float]
    different: int

    @property
    def per_second(self) -> float:
        """Over the time from the first call to the last."""
        return (len(self.at) - 1) / (self.at[-1] - self.at[0])

    @property
    def most_in_a_second(self) -> int:
        """The most calls of any second, wherever it begins; one that ends a second later is the next second's."""
        return max(bisect_left(self.at, at + 1) - n for n, at in enumerate(self.at))

    @property
    def longest_gap(self) -> float:
        return max(after - before for before, after in pairwise(self.at))

    def misses(self, asked: Asked) -> list[str]:
        """Return what was promised and not kept."""
        wrong = []
        most = ceil(asked.per_second) + asked.burst
        if self.most_in_a_second > most:
            wrong.append(f"{self.most_in_a_second} calls within a second, and {most} are promised at most")
        if self.different != asked.executions * asked.calls:
            wrong.append(f"{self.different} of {asked.executions * asked.calls} calls were made")
        if abs(self.per_second / asked.per_second - 1) > OFF:
            wrong.append(f"{self.per_second:.2f} calls a second over all, and {asked.per_second:g} are promised within {OFF:.0%}")
        return wrong


class Service(ThreadingHTTPServer):
    """Writes down when it is called."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.calls: list[tuple[float, str]] = []

    def seen(self) -> Seen:
        calls = sorted(self.calls)
        return Seen([at for at, _ in calls], len({path for _, path in calls}))


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        at = time.monotonic()
        assert isinstance(self.server, Service)
        self.server.calls.append((at, self.path))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def serving() -> Iterator[Service]:
    with Service() as service:
        thread = threading.Thread(target=service.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()


def measure(asked: Asked) -> Seen:
    """Run the executions side by side until all have completed. Raises `RuntimeError` when one has not."""
    with tempfile.TemporaryDirectory(prefix="noetl-rate-") as folder, serving() as service:
        (Path(folder) / "rate.yaml").write_text(PLAYBOOK)
        payload = json.dumps(
            {
                "url": f"http://127.0.0.1:{service.server_port}",
                "calls": asked.calls,
                "per_second": asked.per_second,
                "burst": asked.burst,
            }
        )

        running = [
            subprocess.Popen(
                [NOETL, "run", "rate.yaml", "--payload", payload, "--output", "json"],
                cwd=folder,
                env={**os.environ, "NOETL_HOME": folder},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(asked.executions)
        ]
        for process in running:
            said, wrong = process.communicate()
            if process.returncode:
                raise RuntimeError(f"noetl run ended with {process.returncode}: {said}{wrong}")
        return service.seen()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.rate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=10)
    parser.add_argument("--calls", type=int, default=40, help="of each execution")
    parser.add_argument("--per-second", type=float, default=5)
    parser.add_argument("--burst", type=int, default=1)
    asked = Asked(**vars(parser.parse_args(arguments)))
    seen = measure(asked)
    print(
        f"{len(seen.at)} calls of {asked.executions} processes in {seen.at[-1] - seen.at[0]:.1f} s: {seen.per_second:.2f}/s of"
        f" {asked.per_second:g}/s, at most {seen.most_in_a_second} in a second, at least one in {seen.longest_gap:.2f} s"
    )
    for wrong in seen.misses(asked):
        print(f"missed: {wrong}")
    return 1 if seen.misses(asked) else 0


if __name__ == "__main__":
    sys.exit(main())
