"""Prefect: flows in this process against a server of its own on 127.0.0.1; results are kept in files, so that a retry skips them.

Arguments: the folder of server and results. Tasks of a map run on Prefect's thread pool.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(sys.argv[1])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


PORT = free_port()
os.environ |= {
    "PREFECT_HOME": str(FOLDER),
    "PREFECT_API_URL": f"http://127.0.0.1:{PORT}/api",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
}

import httpx  # noqa: E402 - all of these stand after the settings, which Prefect reads while it is imported
from prefect import flow, task  # noqa: E402 - see above
from prefect.task_runners import ThreadPoolTaskRunner  # noqa: E402 - see above
from protocol import Ask, expect, serve  # noqa: E402 - see above

client = httpx.Client()


@task
def noop(n: int) -> int:
    return n


@task
def double(n: int) -> int:
    return n * 2


@task
def call(url: str) -> int:
    return int(client.get(url).json()["n"])


@flow
def chain(steps: int) -> int:
    for n in range(steps):
        last = noop(n)
    return last


@flow
def python_chain(steps: int) -> int:
    for n in range(steps):
        last = double(n)
    return last


@flow
def map_items(items: int) -> int:
    return sum(double.map(range(items)).result())


@flow
def map_calls(url: str, items: int) -> int:
    return sum(call.map([f"{url}/{n}" for n in range(items)]).result())


def timed(run, wanted: int) -> float:
    began = time.perf_counter()
    expect(run(), wanted)
    return time.perf_counter() - began


def at_once(flow_, ask: Ask):
    return flow_.with_options(task_runner=ThreadPoolTaskRunner(max_workers=ask["in_flight"]))


def executions(ask: Ask) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(lambda _: chain(ask["steps"]), range(ask["executions"])))
    expect(found, {ask["steps"] - 1})
    return time.perf_counter() - began


def wait_for_server(server: subprocess.Popen[bytes], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/api/health", timeout=5).read()
            return
        except OSError:
            if time.monotonic() > end or server.poll() is not None:
                raise
            time.sleep(0.2)


def main() -> None:
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(PORT)]
    with (FOLDER / "server.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for_server(server)
        chain(1)
        cases = {
            "chain": lambda ask: timed(lambda: chain(ask["steps"]), ask["steps"] - 1),
            "python": lambda ask: timed(lambda: python_chain(ask["steps"]), 2 * (ask["steps"] - 1)),
            "map": lambda ask: timed(lambda: at_once(map_items, ask)(ask["items"]), ask["items"] * (ask["items"] - 1)),
            "each": lambda ask: timed(lambda: at_once(map_items, ask)(ask["items"]), ask["items"] * (ask["items"] - 1)),
            "http": lambda ask: timed(
                lambda: at_once(map_calls, ask)(ask["url"], ask["items"]), ask["items"] * (ask["items"] - 1) // 2
            ),
            "executions": executions,
        }
        serve({"version": version("prefect")}, cases)
    finally:
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    main()
