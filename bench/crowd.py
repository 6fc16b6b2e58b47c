"""Figures of many concurrent executions on the embedded stack: steps a second, the time until all have ended, memory.

    python bench/crowd.py --executions 100 --steps 5 --times 3      # these alone, on a new stack

The clock runs from the first request to the API to the last terminal event, by the log's own times. Whether executions have ended
is read from their heads in the table, because reading summaries would be a part of what is measured.
"""

from __future__ import annotations

import argparse
import time
import urllib.error
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

import boto3
from figures import Figure, print_table
from playbooks import chain
from processes import Peak, peak
from stack import ENDED, Client, running_stack

from noetl_infra.deploy import local_environment
from noetl_infra.stack import Stack

CLIENTS = 8
"""Callers of the API at once."""
STARTS = 200
LOOKS_S = 0.1
PATIENCE_S = 900


@dataclass
class Crowds:
    """Crowds of executions on one stack."""

    stack: Stack

    def __post_init__(self) -> None:
        env = local_environment(self.stack.endpoint)
        session = boto3.Session(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], region_name=env["AWS_DEFAULT_REGION"])
        self._table = session.client("dynamodb", endpoint_url=self.stack.endpoint)
        self._client = Client(self.stack.api_url)

    def run(self, executions: int, steps: int) -> float:
        """Start `executions` chains of `steps` by several clients; the seconds until the last has ended."""
        began = time.time()
        started = self._start(executions, {"playbook": chain(steps)})
        return max(self._ended(execution_id, began + PATIENCE_S) for execution_id in reversed(started)) - began

    def starts(self, executions: int, request: Mapping[str, Any]) -> float:
        """Start `executions` by several clients, and wait for their ends. Return how many were started in a second; they run
        meanwhile."""
        began = time.time()
        started = self._start(executions, request)
        seconds = time.time() - began
        for execution_id in reversed(started):
            self._ended(execution_id, began + PATIENCE_S)
        return executions / seconds

    def _start(self, executions: int, request: Mapping[str, Any]) -> list[str]:
        with ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(lambda _: _start(self._client, request), range(executions)))

    def _ended(self, execution_id: str, until: float) -> float:
        """Return the time at which the execution ended, as seconds since the epoch. Raises `RuntimeError` if it did not
        complete."""
        key = {"pk": {"S": f"x#{execution_id}"}, "sk": {"S": "head"}}
        while time.time() < until:
            head = self._table.get_item(TableName=self.stack.outputs["CatalogTableName"], Key=key)["Item"]
            if head["status"]["S"] in ENDED:
                if head["status"]["S"] != "completed":
                    raise RuntimeError(f"{execution_id} ended {head['status']['S']}: {head.get('error')}")
                return int(head["finished_at"]["N"]) / 1e6
            time.sleep(LOOKS_S)
        raise RuntimeError(f"{execution_id} did not end within {PATIENCE_S} s")

    def first_and_next(self, executions: int, steps: int, times: int) -> tuple[float, list[float], Peak]:
        """The seconds of the first crowd of a stack, those of `times` more, and what the stack took at most."""
        with peak(self.stack) as took:
            first = self.run(executions, steps)
            again = [self.run(executions, steps) for _ in range(times)]
        return first, again, took


def _start(client: Client, request: Mapping[str, Any]) -> str:
    """Start an execution. After a 429, retry when the answer says so."""
    while True:
        try:
            return str(client.call("POST", "/api/executions", request)["execution_id"])
        except urllib.error.HTTPError as refused:
            with refused:
                if refused.code != 429:
                    raise
                time.sleep(float(refused.headers["Retry-After"]))


def figures(times: int) -> list[Figure]:
    """The figures with their goals, on a new stack, because its first crowd is another figure."""
    with running_stack(counted=False) as (stack, _):
        crowds = Crowds(stack)
        first, again, took = crowds.first_and_next(100, 5, times)
        crowded = crowds.run(1000, 3)
        one_step = chain(1)
        crowds.starts(STARTS, {"playbook": one_step})  # registers it
        by_path = [crowds.starts(STARTS, {"path": "bench/chain_1"}) for _ in range(times)]
        by_text = [crowds.starts(STARTS, {"playbook": one_step}) for _ in range(times)]
    note = "one step each; the executions run meanwhile"
    return [
        Figure("stack: 100 executions x 5 steps", "steps/s", tuple(500 / seconds for seconds in again), 400, "higher"),
        Figure("  the same, first time after `noetl up`", "s", (first,), 10),
        Figure("  memory of all its processes at most", "MB", (took.mb,), 1500, note=f"{took.processes} processes"),
        Figure("stack: 1,000 executions x 3 steps", "s", (crowded,), 15),
        Figure("stack: starts of a registered playbook", "starts/s", tuple(by_path), 150, "higher", note=note),
        Figure("stack: starts by text", "starts/s", tuple(by_text), 100, "higher", note=note),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=100)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with running_stack(counted=False) as (stack, _):
        first, again, took = Crowds(stack).first_and_next(options.executions, options.steps, options.times)
    work = options.executions * options.steps
    shape = f"{options.executions} executions x {options.steps} steps"
    table = [Figure(shape, "steps/s", tuple(work / seconds for seconds in again))] if again else []
    table += [
        Figure("first time", "s", (first,)),
        Figure("memory at most", "MB", (took.mb,), note=f"{took.processes} processes"),
    ]
    print_table(f"Many at once: {shape}", table)
    if again:
        print(f"median {median(again):.2f} s")


if __name__ == "__main__":
    main()
