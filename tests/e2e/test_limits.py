"""Limits that executions share, on the stack: rates as the called service sees them, also with workers killed; places in turn."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bench.meter import Functions

from noetl_infra.stack import Stack
from tests import commands
from tests.commands import ENV
from tests.e2e.support import Api, function_processes
from tests.servers import Handler, serving, url_of
from tests.waiting import eventually

RATE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: rate, path: e2e/rate }
workload: { url: "", calls: 25 }
workflow:
  - step: start
    loop: { in: "{{ range(workload.calls) | list }}", iterator: n, spec: { mode: parallel, max_in_flight: 5 } }
    tool:
      - name: call
        kind: http
        url: "{{ workload.url }}/{{ execution_id }}/{{ iter.n }}"
        spec: { policy: { rate: { key: e2e-rate, per_second: 5 } } }
"""
PLACES = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: places, path: e2e/places }
workload: { url: "" }
executor: { spec: { policy: { concurrency: { key: e2e/places, max: 2 } } } }
workflow:
  - step: start
    tool: [{ name: work, kind: http, url: "{{ workload.url }}/slow/{{ execution_id }}" }]
"""
NEWEST = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: newest, path: e2e/newest }
workload: { seconds: 0 }
workflow:
  - step: start
    spec: { policy: { concurrency: { key: e2e/newest, max: 1, on_limit: cancel_oldest } } }
    tool:
      - { name: think, kind: wait, duration: "{{ workload.seconds }}" }
      - { name: quote, kind: noop, result: quoted }
    next: { arcs: [{ step: outdated, when: "{{ event.error.code | default('') == 'displaced' }}", args: { why: "{{ event.error.message }}" } }] }
  - step: outdated
    tool: [{ name: note, kind: noop, result: "{{ args.why }}" }]
"""
QUEUED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: queued, path: e2e/queued }
workload: { url: "", holds: false }
executor: { spec: { policy: { concurrency: { key: e2e/queued, max: 5 } } } }
workflow:
  - step: start
    next: { arcs: [{ step: hold, when: "{{ workload.holds }}" }, { step: work }] }
  - step: hold
    tool: [{ name: go, kind: callback, signal: go }]
  - step: work
    tool: [{ name: work, kind: http, url: "{{ workload.url }}/{{ execution_id }}" }]
"""

DEAD_S = 150
"""After the death of a worker, alone with all that call: its lease of a minute, the sweep each minute, and the way there."""
LATE_S = 1.0
"""Seconds by which a call may arrive late here, where everything shares a few processors with other tests. Within a second, calls
of the moment before count, too; over ten seconds this does not matter. `make rate` measures without it."""


class Service(ThreadingHTTPServer):
    """Says when it was called, and how many calls it had at a time."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.seen: list[tuple[float, str]] = []
        self.now = self.most = 0
        self.lock = threading.Lock()

    def await_calls(self, count: int) -> None:
        eventually(lambda: len(self.seen) >= count, timeout_s=2 * DEAD_S)


class Answer(Handler):
    def do_GET(self) -> None:
        service = self.server
        assert isinstance(service, Service)
        with service.lock:
            service.seen.append((time.monotonic(), self.path))
            service.now += 1
            service.most = max(service.most, service.now)
        if self.path.startswith("/slow"):
            time.sleep(1)
        with service.lock:
            service.now -= 1
        self.say(200, b"{}")


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service()) as served:
        yield served


def say(line: str) -> None:
    """Print a figure for the caller of `make soak`."""
    sys.stdout.write(f"\n{line}\n")


def most_within(service: Service, seconds: float) -> int:
    """The most calls of any such time, wherever it begins."""
    times = sorted(at for at, _ in service.seen)
    return max(n - bisect_left(times, at - seconds + 0.001) + 1 for n, at in enumerate(times))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("executions", "calls", "deaths"), [(4, 25, 0), pytest.param(10, 40, 4, marks=pytest.mark.soak)], ids=["calm", "deaths"]
)
def test_a_rate_is_kept_over_executions_and_workers(
    api: Api, stack: Stack, service: Service, executions: int, calls: int, deaths: int
) -> None:
    payload = {"url": url_of(service), "calls": calls}
    ids = [api.start(RATE, payload) for _ in range(executions)]
    choose = random.Random(deaths)
    for n in range(deaths):
        service.await_calls((n + 1) * executions * calls // (deaths + 2))
        os.kill(choose.choice(function_processes(stack, stack.outputs["WorkerFunctionName"])), signal.SIGKILL)
    for execution_id in ids:
        assert api.wait(execution_id, 300)["status"] == "completed"
    assert len({path for _, path in service.seen}) == executions * calls
    assert most_within(service, 10) <= 10 * 5 + 1
    assert most_within(service, 1) <= (1 + LATE_S) * 5 + 1
    times = sorted(at for at, _ in service.seen)
    took, gap = times[-1] - times[0], max(after - before for before, after in pairwise(times))
    say(
        f"{len(times)} calls in {took:.1f} s, {deaths} workers killed: at most {most_within(service, 1)} in a second,"
        f" once none for {gap:.1f} s"
    )
    assert gap < DEAD_S, "permits are lost for longer than the lease of who had them"
    if not deaths:
        assert took >= (executions * calls - 1) / 5, "no faster than the rate"


@pytest.mark.soak
def test_five_hundred_wait_for_five_places_in_order_and_none_of_them_asks(
    api: Api, stack: Stack, service: Service, tmp_path: Path
) -> None:
    """They are started one after the other: their order is that of `ids`."""
    status, registered = api.call("POST", "/api/playbooks", QUEUED)
    assert status == 201, registered
    began = time.monotonic()
    holders = [by_path(api, holds=True) for _ in range(5)]
    for execution_id in holders:
        api.wait(execution_id, until={"waiting"})
    ids = [by_path(api, url=url_of(service)) for _ in range(500)]
    started_s = time.monotonic() - began
    (limit,) = api.call("GET", "/api/limits?key=e2e/queued")[1]["limits"]
    assert {one["execution_id"] for one in limit["holders"]} == set(holders)
    assert [one["execution_id"] for one in limit["waiters"]] == ids[:100]
    assert (limit["held"], limit["max"], limit["more"]) == (5, 5, True)
    (wait,) = api.summary(ids[-1])["waiting_for"]
    assert (wait["limit"], wait["position"], set(wait["held_by"])) == ("e2e/queued", 500, set(holders))
    asked = commands.run("show", ids[11], cwd=tmp_path, env={**ENV, "NOETL_API_URL": api.url})
    assert "limit e2e/queued 5/5, 12th; held by " in asked.stdout, asked.stderr
    asked = commands.run("limits", "e2e/queued", "--on", "stack", cwd=tmp_path, env={**ENV, "NOETL_API_URL": api.url})
    (row,) = [line for line in asked.stdout.splitlines() if line.startswith(ids[11])]
    assert "waits, 12th" in row
    idle_s, functions = 130, Functions(stack)
    time.sleep(30)  # the effects of their starts are over
    before = functions.take()
    time.sleep(idle_s)
    during = functions.take()
    spent = {name: during[name].invocations - before[name].invocations for name in during}
    assert service.seen == []
    released = time.monotonic()
    for execution_id in holders:
        status, answer = api.call("POST", "/api/events", {"execution_id": execution_id, "name": "go", "data": {}})
        assert status == 202, answer
    for execution_id in reversed(ids):
        assert api.wait(execution_id, 1200)["status"] == "completed"
    say(
        f"500 began to wait in {started_s:.0f} s; invocations in {idle_s} s of it: {spent};"
        f" all ended {time.monotonic() - released:.0f} s after the first place was free"
    )
    assert (spent["worker"], spent["admit"]) == (0, 0), "somebody asks while it waits"
    assert spent["router"] <= 20, "a sweep may hand it the first looks at what has just begun to wait, many at a time"
    assert before["admit"].invocations >= 505 or "NOETL_E2E_ENDPOINT" in os.environ, "invocations are not counted"
    assert service.most <= 5
    order = list(dict.fromkeys(path.rsplit("/", 1)[1] for _, path in sorted(service.seen)))
    assert sorted(order) == sorted(ids)
    assert all(ids.index(x) <= n + 4 for n, x in enumerate(order)), "nobody has a place before those that came first"
    eventually(lambda: api.call("GET", "/api/limits?key=e2e/queued")[1]["limits"] == [])


def by_path(api: Api, **payload: Any) -> str:
    status, answer = api.call("POST", "/api/executions", {"path": "e2e/queued", "payload": payload})
    assert status == 202, answer
    return str(answer["execution_id"])


@pytest.mark.nightly
def test_places_are_taken_in_turn_and_shown(api: Api, service: Service) -> None:
    ids = [api.start(PLACES, {"url": url_of(service)}) for _ in range(8)]
    status, shown = api.call("GET", "/api/limits?key=e2e/places")
    assert status == 200, shown
    (limit,) = shown["limits"]
    assert (limit["held"], limit["max"], limit["waiting"]) == (2, 2, True)
    waiting = [waiter["execution_id"] for waiter in limit["waiters"]]
    assert waiting == [x for x in ids if x in waiting]
    last = api.summary(ids[-1])
    assert last["status"] == "waiting"
    (wait,) = last["waiting_for"]
    assert (wait["kind"], wait["limit"], wait["max"]) == ("limit", "e2e/places", 2)
    assert wait["position"] >= 2
    for execution_id in ids:
        assert api.wait(execution_id)["status"] == "completed"
    assert service.most <= 2
    began = [path.rsplit("/", 1)[1] for _, path in sorted(service.seen)]
    assert all(ids.index(x) <= n + 1 for n, x in enumerate(began)), "nobody has a place before those that came first"
    assert api.call("GET", "/api/limits?key=e2e/places")[1]["limits"] == []


@pytest.mark.nightly
def test_the_newest_run_takes_the_place_of_the_oldest(api: Api) -> None:
    first = api.start(NEWEST, {"seconds": 3600})
    eventually(lambda: api.call("GET", "/api/limits?key=e2e/newest")[1]["limits"] != [])
    ids = [first, *(api.start(NEWEST, {"seconds": seconds}) for seconds in (3600, 0))]
    ended = [api.wait(execution_id) for execution_id in ids]
    assert [e["status"] for e in ended] == ["completed"] * 3
    assert ended[2]["result"] == "quoted"
    for n, execution in enumerate(ended[:2]):
        assert execution["result"] == f"limit e2e/newest: execution {ids[n + 1]} takes its place"
    assert api.call("GET", "/api/limits?key=e2e/newest")[1]["limits"] == []
