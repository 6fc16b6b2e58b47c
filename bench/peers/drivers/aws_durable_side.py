"""AWS's durable execution SDK for Python on the local runner of its testing package, whose store is in memory.

The runner runs a function in this process, and skips waits. Maps are flat, as the SDK's own notes have it for many items.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from importlib.metadata import version
from urllib.parse import urlsplit

from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.config import MapConfig, NestingType
from aws_durable_execution_sdk_python_testing.runner import DurableFunctionTestRunner
from protocol import Ask, expect, serve

# the functions
connections = threading.local()


def called(url: str, n: int) -> int:
    """Over a connection that the thread keeps."""
    if getattr(connections, "url", None) != url:
        connections.url, connections.open = url, http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connections.open.request("GET", f"{urlsplit(url).path}/{n}")
    return int(json.loads(connections.open.getresponse().read())["n"])


@durable_execution
def handler(event: dict, context: DurableContext) -> int:
    match event["case"]:
        case "chain":
            for n in range(event["steps"]):
                last = context.step(lambda _, n=n: n, name="noop")
            return last
        case "python":
            for n in range(event["steps"]):
                last = context.step(lambda _, n=n: n * 2, name="double")
            return last
        case "map" | "each":

            def item(inner: DurableContext, n: int, _index: int, _items: object) -> int:
                return inner.step(lambda _: n * 2, name="item")

        case _:

            def item(inner: DurableContext, n: int, _index: int, _items: object) -> int:
                return inner.step(lambda _: called(event["url"], n), name="call")

    config = MapConfig(max_concurrency=event["in_flight"], nesting_type=NestingType.FLAT)
    return sum(context.map(range(event["items"]), item, config=config).get_results())


# end of the functions
class Runner:
    """Executions of `handler`, on a runner that stays."""

    def __init__(self) -> None:
        self.runner = DurableFunctionTestRunner(handler)
        self.count = 0

    def start(self, event: Ask) -> str:
        self.count += 1
        return self.runner.run_async(input=json.dumps(dict(event)), execution_name=f"e{self.count}")

    def result(self, arn: str) -> int:
        found = self.runner.wait_for_result(arn, timeout=120)
        if found.result is None:
            raise RuntimeError(f"ended {found.status}: {found.error}")
        return int(json.loads(found.result))

    def timed(self, ask: Ask, wanted: int) -> float:
        began = time.perf_counter()
        expect(self.result(self.start(ask)), wanted)
        return time.perf_counter() - began

    def executions(self, ask: Ask) -> float:
        event = {"case": "chain", "steps": ask["steps"]}
        began = time.perf_counter()
        started = [self.start(event) for _ in range(ask["executions"])]
        expect({self.result(arn) for arn in started}, {ask["steps"] - 1})
        return time.perf_counter() - began


def main() -> None:
    runner = Runner()
    try:
        if sys.argv[1:] == ["hello"]:
            runner.timed({"case": "chain", "steps": 1}, 0)
            return
        names = ("aws-durable-execution-sdk-python", "aws-durable-execution-sdk-python-testing")
        about = {"version": f"{version(names[0])}, testing {version(names[1])}"}
        cases = {
            "chain": lambda ask: runner.timed(ask, ask["steps"] - 1),
            "python": lambda ask: runner.timed(ask, 2 * (ask["steps"] - 1)),
            "map": lambda ask: runner.timed(ask, ask["items"] * (ask["items"] - 1)),
            "each": lambda ask: runner.timed(ask, ask["items"] * (ask["items"] - 1)),
            "http": lambda ask: runner.timed(ask, ask["items"] * (ask["items"] - 1) // 2),
            "executions": runner.executions,
        }
        serve(about, cases)
    finally:
        runner.runner.close()


if __name__ == "__main__":
    main()
