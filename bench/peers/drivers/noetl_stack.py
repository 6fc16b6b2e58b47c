"""NoETL on the emulated AWS, over its HTTP API; the command line names its address. A single execution's seconds are those of its
log."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from bench.playbooks import chain, map_of_calls, map_over, python
from emulator import by_client
from protocol import Ask, expect, serve

from noetl_core import __version__

API = sys.argv[1]
LIMIT_S = 50
GOING_ON = ("running", "paused", "pending", "accepted")


def call(method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(API + path, data, {"Content-Type": "application/json"}, method=method)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return dict(json.loads(answer.read()))
        except urllib.error.HTTPError as refused:
            if refused.code != 429:
                raise
            time.sleep(float(refused.headers.get("Retry-After", 1)))  # as the command line does


def start(source: str) -> str:
    return str(call("POST", "/api/executions", {"playbook": source})["execution_id"])


def run(source: str, executions: int = 1) -> tuple[float, list[Mapping[str, Any]]]:
    """Wall seconds, and the summaries."""
    started: list[str] = []

    def begin() -> str:
        started.append(start(source))
        return started[-1]

    try:
        seconds, ended = by_client(
            begin, lambda one: call("GET", f"/api/executions/{one}"), GOING_ON, executions, limit_s=LIMIT_S
        )
    except TimeoutError:
        for one in started:  # or the emulator would be busy with them while the next side is measured
            call("POST", f"/api/executions/{one}/cancel", {})
        raise
    expect({one["status"] for one in ended}, {"completed"})
    return seconds, ended


def alone(source: str, key: str = "", wanted: int = 0) -> float:
    """Seconds from the request's first commit to the last one."""
    _, (summary,) = run(source)
    if key:
        expect(summary["result"][key], wanted)
    return float(summary["duration_ms"]) / 1000


def items(ask: Ask, **spec: object) -> float:
    return alone(map_over(ask["items"], "noop", ask["in_flight"], **spec), "sum", ask["items"] * (ask["items"] - 1))


def calls(ask: Ask) -> float:
    return alone(map_of_calls(ask["items"], ask["url"], ask["in_flight"]), "sum", ask["items"] * (ask["items"] - 1) // 2)


if __name__ == "__main__":
    alone(chain(3))  # functions start
    serve(
        {"version": __version__},
        {
            "chain": lambda ask: alone(chain(ask["steps"])),
            "python": lambda ask: alone(chain(ask["steps"], python, last=True), "last", 2 * (ask["steps"] - 1)),
            "client": lambda ask: run(chain(ask["steps"]))[0],
            "map": items,
            "each": lambda ask: items(ask, commit_every=1),
            "http": calls,
            "executions": lambda ask: run(chain(ask["steps"]), ask["executions"])[0],
        },
    )
