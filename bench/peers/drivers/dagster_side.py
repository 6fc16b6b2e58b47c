"""Dagster: jobs in this process, on an instance in the folder that the command line names; a `hello` behind it runs one job.

Steps are ops of Dagster's executor for one process, which runs them one after the other: a map has one item in flight. Executions
that run at once are jobs on threads of this process. Annotations are not postponed, because Dagster reads them.
"""

import http.client
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from dagster import (
    DagsterInstance,
    DynamicOut,
    DynamicOutput,
    Field,
    In,
    JobDefinition,
    Nothing,
    OpExecutionContext,
    Out,
    job,
    op,
)
from protocol import Ask, expect, serve

FOLDER = sys.argv[1]
HELLO = len(sys.argv) > 2
connections = threading.local()


def called(url: str, n: int) -> int:
    """Over a connection that the thread keeps."""
    if getattr(connections, "url", None) != url:
        connections.url, connections.open = url, http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connections.open.request("GET", f"{urlsplit(url).path}/{n}")
    return int(json.loads(connections.open.getresponse().read())["n"])


@op(ins={"before": In(Nothing)}, out=Out(int), config_schema={"n": Field(int, default_value=0)})
def noop(context: OpExecutionContext) -> int:
    return int(context.op_config["n"])


@op(ins={"before": In(Nothing)}, out=Out(int), config_schema={"n": Field(int, default_value=0)})
def double(context: OpExecutionContext) -> int:
    return 2 * int(context.op_config["n"])


@op(out=DynamicOut(int), config_schema={"items": int})
def numbers(context: OpExecutionContext) -> Any:
    for n in range(context.op_config["items"]):
        yield DynamicOutput(n, mapping_key=str(n))


@op
def item(n: int) -> int:
    return n * 2


@op(config_schema={"url": str})
def call(context: OpExecutionContext, n: int) -> int:
    return called(context.op_config["url"], n)


@op
def total(found: list[int]) -> int:
    return sum(found)


@cache
def chain(steps: int, kind: str) -> JobDefinition:
    """A job of a chain. Each step has its number as its configuration."""
    work = {"noop": noop, "double": double}[kind]
    config = {"ops": {f"s{n:04}": {"config": {"n": n}} for n in range(steps)}}

    @job(name=f"{kind}_{steps}", config=config)
    def built() -> None:
        last = None
        for n in range(steps):
            step = work.alias(f"s{n:04}")
            last = step() if last is None else step(before=last)

    return built


@job
def map_items() -> None:
    total(numbers().map(item).collect())


@job
def map_calls() -> None:
    total(numbers().map(call).collect())


def main() -> None:
    instance = DagsterInstance.local_temp(FOLDER)

    def run(work: JobDefinition, last: str, config: dict[str, Any] | None = None) -> Any:
        return work.execute_in_process(run_config=config, instance=instance).output_for_node(last)

    def timed(wanted: int, *arguments: Any) -> float:
        began = time.perf_counter()
        expect(run(*arguments), wanted)
        return time.perf_counter() - began

    def timed_chain(ask: Ask, kind: str, factor: int) -> float:
        work = chain(ask["steps"], kind)
        return timed(factor * (ask["steps"] - 1), work, f"s{ask['steps'] - 1:04}")

    def items(ask: Ask) -> float:
        config = {"ops": {"numbers": {"config": {"items": ask["items"]}}}}
        return timed(ask["items"] * (ask["items"] - 1), map_items, "total", config)

    def calls(ask: Ask) -> float:
        config = {"ops": {"numbers": {"config": {"items": ask["items"]}}, "call": {"config": {"url": ask["url"]}}}}
        return timed(ask["items"] * (ask["items"] - 1) // 2, map_calls, "total", config)

    def executions(ask: Ask) -> float:
        work, last = chain(ask["steps"], "noop"), f"s{ask['steps'] - 1:04}"
        began = time.perf_counter()
        with ThreadPoolExecutor(16) as pool:
            found = set(pool.map(lambda _: run(work, last), range(ask["executions"])))
        expect(found, {ask["steps"] - 1})
        return time.perf_counter() - began

    with instance:
        if HELLO:
            timed_chain({"steps": 1}, "noop", 1)
            return
        cases = {
            "chain": lambda ask: timed_chain(ask, "noop", 1),
            "python": lambda ask: timed_chain(ask, "double", 2),
            "map": items,
            "each": items,
            "http": calls,
            "executions": executions,
        }
        serve({"version": version("dagster")}, cases)


if __name__ == "__main__":
    main()
