"""Limits that executions share, on the stack: rates as the called service sees them, also with workers killed; places in turn."""

from __future__ import annotations

import os
import signal
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from http.server import ThreadingHTTPServer

import pytest

from noetl_infra.stack import Stack
from tests.e2e.support import Api, function_processes
from tests.servers import Handler, serving, url_of

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


LATE_S = 0.5
"""How much later than it was begun a call may arrive here, where everything shares a few processors: within a second, those
of a moment before are counted, too; over ten seconds this plays no part."""


class Service(ThreadingHTTPServer):
    """Says when it was called, and how many calls it had at a time."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.seen: list[tuple[float, str]] = []
        self.now = self.most = 0
        self.lock = threading.Lock()


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


def most_within(service: Service, seconds: float) -> int:
    """The most calls of any such time, wherever it begins."""
    times = sorted(at for at, _ in service.seen)
    return max(n - bisect_left(times, at - seconds + 0.001) + 1 for n, at in enumerate(times))


@pytest.mark.parametrize("deaths", [0, pytest.param(3, marks=pytest.mark.soak)])
def test_a_rate_is_kept_over_executions_and_workers(api: Api, stack: Stack, service: Service, deaths: int) -> None:
    payload = {"url": url_of(service), "calls": 25}
    ids = [api.start(RATE, payload) for _ in range(4)]
    for _ in range(deaths):
        time.sleep(3)
        for pid in function_processes(stack, stack.outputs["WorkerFunctionName"])[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for execution_id in ids:
        assert api.wait(execution_id, 300)["status"] == "completed"
    assert len({path for _, path in service.seen}) == 100
    assert most_within(service, 10) <= 10 * 5 + 1
    assert most_within(service, 1) <= (1 + LATE_S) * 5 + 1
    if not deaths:
        took = max(at for at, _ in service.seen) - min(at for at, _ in service.seen)
        assert took >= 99 / 5, "no faster than the rate"


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
