"""Figures of the embedded stack: requests and units per step by service, time per step, items per second.

Two stacks are started, one after the other, each with a folder and a port of its own: one whose functions reach AWS through the
counting proxy, and one without it for times. Nothing of a stack that is already running is touched.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from statistics import mean
from typing import Any

from figures import Figure
from meter import Functions
from playbooks import chain, map_over
from proxy import Proxy

from noetl_infra.stack import Stack, down
from noetl_infra.up import free_port, up

CHAIN = 20
ENDED = {"completed", "failed", "cancelled", "stuck"}


@contextmanager
def running_stack(*, counted: bool, **parameters: str) -> Iterator[tuple[Stack, Proxy | None]]:
    """A stack of its own, with these parameters; with `counted`, functions call AWS through the proxy."""
    port = free_port()
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        proxy = stack.enter_context(Proxy(port)) if counted else None
        if proxy is not None:
            os.environ["NOETL_FUNCTIONS_ENDPOINT"] = proxy.url
        try:
            started = up(folder, port=port, parameters=parameters)
        finally:
            os.environ.pop("NOETL_FUNCTIONS_ENDPOINT", None)
        try:
            yield started, proxy
        finally:
            down(folder)


@dataclass(frozen=True)
class Client:
    """The HTTP API of a stack."""

    url: str

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(json.loads(answer.read()))

    def run(self, source: str, timeout_s: float = 300) -> dict[str, Any]:
        """Start `source`, wait for its end, return the summary; raises when it did not complete."""
        execution_id = self.call("POST", "/api/executions", {"playbook": source})["execution_id"]
        until = time.monotonic() + timeout_s
        pause = 0.02
        while time.monotonic() < until:
            time.sleep(pause)
            pause = min(1.0, pause * 1.5)
            summary = self.call("GET", f"/api/executions/{execution_id}")
            if summary["status"] in ENDED:
                if summary["status"] != "completed":
                    raise RuntimeError(f"{execution_id} ended {summary['status']}: {summary.get('error')}")
                return summary
        raise RuntimeError(f"{execution_id} did not end within {timeout_s} s")


def seconds_of(summary: Mapping[str, Any]) -> float:
    """From the request's first commit to the terminal event, by the log's own times."""
    return float(summary["duration_ms"]) / 1000


def figures(times: int) -> list[Figure]:
    """Everything about the stack; some two minutes."""
    import crowd

    return requests_per_step() + latencies(times) + crowd.figures(times)


def latencies(times: int) -> list[Figure]:
    with running_stack(counted=False) as (stack, _):
        client = Client(stack.api_url)
        client.run(chain(3))  # functions start, playbooks parse
        chains = [client.run(chain(CHAIN)) for _ in range(times)]
        steps = [seconds_of(summary) / CHAIN * 1e3 for summary in chains]
        parts = [where_time_goes(client, summary["execution_id"]) for summary in chains]
        items = [1000 / seconds_of(client.run(map_over(1000, "noop"))) for _ in range(times)]
    with running_stack(counted=False, Asks="yes") as (stack, _):
        client = Client(stack.api_url)
        client.run(chain(3))
        asked = [seconds_of(client.run(chain(CHAIN))) / CHAIN * 1e3 for _ in range(times)]
    return [
        Figure(f"stack: chain of {CHAIN}, time per step", "ms", tuple(steps), 15),
        Figure(f"stack: chain of {CHAIN}, time per step with Asks", "ms", tuple(asked), 6),
        *(Figure(f"  of which {name}", "ms", tuple(part[name] for part in parts)) for name in parts[0]),
        Figure("stack: local-exec map of 1,000 noop items", "items/s", tuple(items), 1760, "higher"),
    ]


def where_time_goes(client: Client, execution_id: str) -> dict[str, float]:
    """Mean milliseconds of a step's three legs, from the times of its events."""
    events = client.call("GET", f"/api/executions/{execution_id}/events?limit=1000")["events"]
    at: dict[str, list[float]] = {"StepScheduled": [], "StepStarted": [], "StepDone": []}
    for event in events:
        if event["name"] in at:
            at[event["name"]].append(datetime.fromisoformat(event["timestamp"]).timestamp() * 1e3)
    scheduled, started, done = (sorted(times) for times in at.values())
    return {
        "command to claim (SQS, worker start)": mean(b - a for a, b in zip(scheduled, started, strict=True)),
        "claim to end (worker)": mean(b - a for a, b in zip(started, done, strict=True)),
        "end to next command (stream, router)": mean(b - a for a, b in zip(done, scheduled[1:], strict=False)),
    }


def requests_per_step() -> list[Figure]:
    """Return the requests of one more step: a chain of 20 less a chain of 1, divided by 19; and beside it the whole run's
    requests over 20."""
    with running_stack(counted=True) as (stack, proxy):
        assert proxy is not None
        client = Client(stack.api_url)
        functions = Functions(stack)
        counted = {}
        for steps in (1, CHAIN):
            client.run(chain(steps))  # right before counting: admission caches the catalog for seconds
            counted[steps] = _counted(client, proxy, functions, chain(steps))
        items = _counted(client, proxy, functions, map_over(1000, "noop"))
    one, many = counted[1], counted[CHAIN]

    def per_step(key: str) -> float:
        return (many.get(key, 0) - one.get(key, 0)) / (CHAIN - 1)

    def share(key: str) -> str:
        return f"{many.get(key, 0) / CHAIN:.3g} if start and end are spread over {CHAIN} steps"

    budgets = [
        ("DynamoDB write units per step", "write_units", "units", 3.0),
        ("DynamoDB strongly consistent reads per step", "strong_reads", "reads", 1.0),
        ("SQS requests per step (send, receive, delete)", "sqs_requests", "requests", 3.0),
        ("Lambda invocations per step", "invocations", "invocations", 2.0),
    ]
    out = [Figure(name, unit, (per_step(key),), budget, note=share(key)) for name, key, unit, budget in budgets]
    rest = sorted(key for key in many if "." in key and per_step(key) > 0.01)
    out += [Figure(f"  {key} per step", "requests", (per_step(key),), note=share(key)) for key in rest]
    out += [Figure(f"  {key} per step", key, (per_step(key),), note=share(key)) for key in ("read_units", "write_bytes")]
    asked = sum(n for key, n in items.items() if "." in key) + 2 * items["deliveries"]
    out.append(Figure("AWS requests per iteration of a local-exec map of 1,000", "requests", (asked / 1000,), 0.1))
    return out


def _counted(client: Client, proxy: Proxy, functions: Functions, source: str) -> dict[str, float]:
    time.sleep(2)  # the previous run may still be working
    proxy.counts.take()
    before = functions.take()
    execution_id = client.call("POST", "/api/executions", {"playbook": source})["execution_id"]
    time.sleep(6)  # no polling: reads of the summary would be counted
    counts = proxy.counts.take()
    after = functions.take()
    summary = client.call("GET", f"/api/executions/{execution_id}")
    if summary["status"] != "completed":
        raise RuntimeError(f"the counted run is {summary['status']} after 6 s")
    invocations = {name: float((after[name] - before[name]).invocations) for name in after}
    counts["invocations"] = invocations["worker"] + invocations["router"]
    counts["deliveries"] = invocations["worker"]
    sent = counts.get("sqs.SendMessage", 0) + counts.get("sqs.SendMessageBatch", 0)
    counts["sqs_requests"] = sent + 2 * invocations["worker"]  # Lambda receives and deletes: one message each (BatchSize 1)
    return counts
