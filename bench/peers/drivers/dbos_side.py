"""DBOS: workflows in one process, on the system database that the command line names.

Steps that wait are async and started together, as DBOS's guide does it; at most `in_flight` are inside their body at once.
Executions that run at once are workflows on DBOS's own threads.
"""

from __future__ import annotations

import asyncio
import sys
import time
from importlib.metadata import version

import aiohttp
from dbos import DBOS, DBOSConfig
from protocol import Ask, expect, serve

DATABASE = sys.argv[1]
HELLO = len(sys.argv) > 2


@DBOS.step()
def noop(n: int) -> int:
    return n


@DBOS.step()
def double(n: int) -> int:
    return n * 2


@DBOS.workflow()
def chain(steps: int) -> int:
    for n in range(steps):
        last = noop(n)
    return last


@DBOS.workflow()
def python_chain(steps: int) -> int:
    for n in range(steps):
        last = double(n)
    return last


class Shared:
    """The resources that the items of one run of a map share."""

    gate: asyncio.Semaphore
    session: aiohttp.ClientSession


@DBOS.step()
async def item(n: int) -> int:
    async with Shared.gate:
        return n * 2


@DBOS.step()
async def call(url: str) -> int:
    async with Shared.gate, Shared.session.get(url) as answer:
        return int((await answer.json())["n"])


@DBOS.workflow()
async def map_items(items: int) -> int:
    return sum(await asyncio.gather(*(item(n) for n in range(items))))


@DBOS.workflow()
async def map_calls(url: str, items: int) -> int:
    return sum(await asyncio.gather(*(call(f"{url}/{n}") for n in range(items))))


def timed_chain(ask: Ask) -> float:
    began = time.perf_counter()
    expect(chain(ask["steps"]), ask["steps"] - 1)
    return time.perf_counter() - began


def timed_python_chain(ask: Ask) -> float:
    began = time.perf_counter()
    expect(python_chain(ask["steps"]), 2 * (ask["steps"] - 1))
    return time.perf_counter() - began


def timed_map(ask: Ask) -> float:
    async def run() -> float:
        Shared.gate = asyncio.Semaphore(ask["in_flight"])
        began = time.perf_counter()
        expect(await map_items(ask["items"]), ask["items"] * (ask["items"] - 1))
        return time.perf_counter() - began

    return asyncio.run(run())


def timed_calls(ask: Ask) -> float:
    async def run() -> float:
        Shared.gate = asyncio.Semaphore(ask["in_flight"])
        async with aiohttp.ClientSession() as Shared.session:
            began = time.perf_counter()
            expect(await map_calls(ask["url"], ask["items"]), ask["items"] * (ask["items"] - 1) // 2)
            return time.perf_counter() - began

    return asyncio.run(run())


def timed_executions(ask: Ask) -> float:
    began = time.perf_counter()
    handles = [DBOS.start_workflow(chain, ask["steps"]) for _ in range(ask["executions"])]
    expect({handle.get_result() for handle in handles}, {ask["steps"] - 1})
    return time.perf_counter() - began


def main() -> None:
    DBOS(config=DBOSConfig(name="peers", system_database_url=DATABASE, log_level="ERROR"))
    DBOS.launch()
    try:
        if HELLO:
            expect(chain(1), 0)
            return
        about = {"version": version("dbos")}
        cases = {
            "chain": timed_chain,
            "python": timed_python_chain,
            "map": timed_map,
            "each": timed_map,
            "http": timed_calls,
            "executions": timed_executions,
        }
        serve(about, cases)
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    main()
