"""Temporal: the development server of its command line, with a SQLite file, and a worker with this client in one process.

Arguments: the command, and the folder of the file. Steps are activities. Those of a map are started together; at most `in_flight`
are inside their body at once.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
from protocol import Ask, expect, serve
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

COMMAND, FOLDER = sys.argv[1], Path(sys.argv[2])
QUEUE = "peers"
LIMIT = timedelta(seconds=60)
START_S = 60


class Shared:
    """Resources that the items of one run of a map share."""

    gate: asyncio.Semaphore
    session: aiohttp.ClientSession


@activity.defn
async def noop(n: int) -> int:
    return n


@activity.defn
async def double(n: int) -> int:
    return n * 2


@activity.defn
async def item(n: int) -> int:
    async with Shared.gate:
        return n * 2


@activity.defn
async def call(url: str) -> int:
    async with Shared.gate, Shared.session.get(url) as answer:
        return int((await answer.json())["n"])


@workflow.defn
class Chain:
    @workflow.run
    async def run(self, steps: int) -> int:
        for n in range(steps):
            last = await workflow.execute_activity(noop, n, start_to_close_timeout=LIMIT)
        return last


@workflow.defn
class PythonChain:
    @workflow.run
    async def run(self, steps: int) -> int:
        for n in range(steps):
            last = await workflow.execute_activity(double, n, start_to_close_timeout=LIMIT)
        return last


@workflow.defn
class MapItems:
    @workflow.run
    async def run(self, items: int) -> int:
        started = [workflow.execute_activity(item, n, start_to_close_timeout=LIMIT) for n in range(items)]
        return sum(await asyncio.gather(*started))


@workflow.defn
class MapCalls:
    @workflow.run
    async def run(self, url: str, items: int) -> int:
        urls = [f"{url}/{n}" for n in range(items)]
        started = [workflow.execute_activity(call, each, start_to_close_timeout=LIMIT) for each in urls]
        return sum(await asyncio.gather(*started))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def connected(address: str) -> Client:
    end = time.monotonic() + START_S
    while True:
        try:
            return await Client.connect(address)
        except RuntimeError:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.2)


async def execute(client: Client, work: Callable[..., Any], arguments: list[object], wanted: int) -> float:
    began = time.perf_counter()
    expect(await client.execute_workflow(work, args=arguments, id=str(uuid4()), task_queue=QUEUE), wanted)
    return time.perf_counter() - began


async def items(client: Client, ask: Ask) -> float:
    Shared.gate = asyncio.Semaphore(ask["in_flight"])
    return await execute(client, MapItems.run, [ask["items"]], ask["items"] * (ask["items"] - 1))


async def calls(client: Client, ask: Ask) -> float:
    Shared.gate = asyncio.Semaphore(ask["in_flight"])
    async with aiohttp.ClientSession() as Shared.session:
        return await execute(client, MapCalls.run, [ask["url"], ask["items"]], ask["items"] * (ask["items"] - 1) // 2)


async def executions(client: Client, ask: Ask) -> float:
    began = time.perf_counter()
    work = [client.execute_workflow(Chain.run, ask["steps"], id=str(uuid4()), task_queue=QUEUE) for _ in range(ask["executions"])]
    expect(set(await asyncio.gather(*work)), {ask["steps"] - 1})
    return time.perf_counter() - began


def main() -> None:
    port = free_port()
    pragmas = [part for value in ("journal_mode=wal", "synchronous=full") for part in ("--sqlite-pragma", value)]
    command = [COMMAND, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    command += ["--db-filename", str(FOLDER / "temporal.sqlite"), "--log-level", "error", *pragmas]
    with (FOLDER / "server.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    def wait(work: Awaitable[Any]) -> Any:
        async def whole() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(whole(), loop).result()

    try:
        client: Client = wait(connected(f"127.0.0.1:{port}"))

        async def started() -> Worker:
            worker = Worker(
                client,
                task_queue=QUEUE,
                workflows=[Chain, PythonChain, MapItems, MapCalls],
                activities=[noop, double, item, call],
                workflow_runner=UnsandboxedWorkflowRunner(),
            )
            await worker.__aenter__()
            return worker

        worker: Worker = wait(started())
        wait(execute(client, Chain.run, [1], 0))
        words = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True).stdout.split()
        about = f"CLI {words[2]}, server {words[4].rstrip(',)')}, SDK {version('temporalio')}"
        cases = {
            "chain": lambda ask: wait(execute(client, Chain.run, [ask["steps"]], ask["steps"] - 1)),
            "python": lambda ask: wait(execute(client, PythonChain.run, [ask["steps"]], 2 * (ask["steps"] - 1))),
            "map": lambda ask: wait(items(client, ask)),
            "each": lambda ask: wait(items(client, ask)),
            "http": lambda ask: wait(calls(client, ask)),
            "executions": lambda ask: wait(executions(client, ask)),
        }
        serve({"version": about}, cases)
        wait(worker.shutdown())
    finally:
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    main()
