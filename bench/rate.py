"""Measures how exactly several processes keep a shared rate, in real time and as the called service sees it: `make rate`, or
`python -m bench.rate [--executions 10] [--calls 40] [--per-second 5] [--burst 1] [--kills 0]`.

Each execution is a `noetl run` of its own, all with one store and one key. Prints how many calls came per second over all, and
the most in any second. Ends with 1 when that is more than the rate and the burst, or the whole is off by more than a tenth. With
`--kills N`, N processes are killed meanwhile (SIGKILL, one after the other, at random) and another process resumes each
execution. Then the permits that a killed process had reserved may be missing, and no process may wait for a lease. The
measurement includes the other load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
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

from noetl_core.engine.limits.rates import RESERVED_S
from noetl_core.worker.claiming.journal import LEASE_S

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
    """The parameters of a measurement."""

    executions: int
    calls: int
    per_second: float
    burst: int
    kills: int = 0

    def deaths(self) -> Iterator[float]:
        """Return the times at which processes are killed, in seconds from the start: evenly over the time that all calls take."""
        whole = self.executions * self.calls / self.per_second
        return (whole * (n + 1) / (self.kills + 1) for n in range(self.kills))


@dataclass(frozen=True)
class Seen:
    """The observations of the called service: the times of its calls (seconds), in order, and the number of different ones.
    `deaths` is the number of processes killed meanwhile."""

    at: Sequence[float]
    different: int
    deaths: int = 0

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
        """Return the violated promises."""
        wrong = []
        most = ceil(asked.per_second) + asked.burst
        if self.most_in_a_second > most:
            wrong.append(f"{self.most_in_a_second} calls within a second, and {most} are promised at most")
        if self.different != asked.executions * asked.calls:
            wrong.append(f"{self.different} of {asked.executions * asked.calls} calls were made")
        if self.deaths != asked.kills:
            wrong.append(f"{self.deaths} of {asked.kills} processes were killed")
        served = (len(self.at) - 1) / (self.at[-1] - self.at[0] - self.deaths * RESERVED_S)
        if self.per_second > asked.per_second * (1 + OFF) or served < asked.per_second * (1 - OFF):
            wrong.append(f"{self.per_second:.2f} calls a second over all, and {asked.per_second:g} are promised within {OFF:.0%}")
        if self.longest_gap > LEASE_S:
            wrong.append(f"nobody called for {self.longest_gap:.2f} s, and a lease is {LEASE_S} s")
        return wrong


class Service(ThreadingHTTPServer):
    """Records when it is called."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.calls: list[tuple[float, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def seen(self, deaths: int) -> Seen:
        calls = sorted(self.calls)
        return Seen([at for at, _ in calls], len({path for _, path in calls}), deaths)

    def execution(self, number: int) -> str | None:
        """Return the id of an execution, by its number among those that run; None before it has called."""
        begins = f"/{number}/"
        return next((path.split("/")[2] for _, path in self.calls if path.startswith(begins)), None)


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


class Processes:
    """`noetl` processes, one for each execution, until all executions have completed."""

    def __init__(self, asked: Asked, folder: Path, service: Service) -> None:
        self._folder, self._service = folder, service
        (folder / "rate.yaml").write_text(PLAYBOOK)
        shared = {"calls": asked.calls, "per_second": asked.per_second, "burst": asked.burst}
        self._running = {
            number: self._begun(number, "run", "rate.yaml", "--payload", json.dumps({**shared, "url": f"{service.url}/{number}"}))
            for number in range(asked.executions)
        }

    def _begun(self, number: int, *arguments: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, "NOETL_HOME": str(self._folder)}
        with self._log_path(number).open("ab") as log:
            return subprocess.Popen(
                [NOETL, *arguments, "--output", "json"], cwd=self._folder, env=env, stdout=log, stderr=subprocess.STDOUT
            )

    def _log_path(self, number: int) -> Path:
        return self._folder / f"{number}.log"

    def some_run(self) -> bool:
        """Return whether an execution is still running. Raises `RuntimeError` if one has not completed."""
        for number, process in list(self._running.items()):
            code = process.poll()
            if code:
                raise RuntimeError(f"noetl ended with {code}: {self._log_path(number).read_text()}")
            if code == 0:
                del self._running[number]
        return bool(self._running)

    def kill_one(self, choose: random.Random) -> bool:
        """Kill one of the processes that have called, and continue its execution in another process. Return False if there is
        none."""
        known = {number: execution for number in self._running if (execution := self._service.execution(number))}
        if not known:
            return False
        number = choose.choice(sorted(known))
        self._running[number].kill()
        if self._running[number].wait() == 0:
            return False  # it had just ended
        self._running[number] = self._begun(number, "resume", known[number])
        return True

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


def measure(asked: Asked) -> Seen:
    """Run the executions side by side until all have completed. Raises `RuntimeError` when one has not."""
    choose, deaths, began = random.Random(asked.kills), 0, time.monotonic()
    due = list(asked.deaths())
    with tempfile.TemporaryDirectory(prefix="noetl-rate-") as folder, serving() as service:
        processes = Processes(asked, Path(folder), service)
        try:
            while processes.some_run():
                time.sleep(0.05)
                if deaths < len(due) and time.monotonic() - began > due[deaths]:
                    deaths += processes.kill_one(choose)
        finally:
            processes.end()
        return service.seen(deaths)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.rate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=10)
    parser.add_argument("--calls", type=int, default=40, help="of each execution")
    parser.add_argument("--per-second", type=float, default=5)
    parser.add_argument("--burst", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0, help="processes that are killed meanwhile")
    asked = Asked(**vars(parser.parse_args(arguments)))
    seen = measure(asked)
    print(
        f"{len(seen.at)} calls of {asked.executions} processes in {seen.at[-1] - seen.at[0]:.1f} s: {seen.per_second:.2f}/s of"
        f" {asked.per_second:g}/s, at most {seen.most_in_a_second} in a second, at least one in {seen.longest_gap:.2f} s"
        + (f"; {seen.deaths} killed" if asked.kills else "")
    )
    for wrong in seen.misses(asked):
        print(f"missed: {wrong}")
    return 1 if seen.misses(asked) else 0


if __name__ == "__main__":
    sys.exit(main())
