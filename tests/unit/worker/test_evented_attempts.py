"""Tools that wait on the driver's event loop: as many at once as a loop asks for, recorded as those on threads are."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.control.lifecycle import operate
from noetl_core.engine.outcome import Outcome
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.calls.event_loop import MOST, EventLoop, Stopped
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.registry import ToolRegistry
from noetl_core.views.executions import executions
from noetl_core.worker.service import Worker
from tests.servers import serving, url_of
from tests.sim.ports import Crash

from .one_run import OneRun, Script, loop

CALL = {"name": "a", "kind": "http", "url": "http://x", "params": {"i": "{{ iter.i }}"}}


class Evented:
    """Asks `script` after one turn of the event loop; `heard` notes who was stopped, `begun` the calls in order."""

    kind = "http"
    inline = False

    def __init__(self, script: Script) -> None:
        self.script = script
        self.begun: list[ToolCall] = []
        self.heard: list[int] = []
        self.now = self.peak = 0

    def run(self, call: ToolCall) -> Outcome:
        raise AssertionError("it needs no thread")

    async def answer(self, call: ToolCall, loop: EventLoop) -> Outcome:
        self.begun.append(call)
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            await asyncio.sleep(0.001)
            return self.script(call)
        except Stopped:
            self.heard.append(call.inputs["params"]["i"])
            raise
        finally:
            self.now -= 1


class Forever(Evented):
    """Ends only when it is stopped."""

    async def answer(self, call: ToolCall, loop: EventLoop) -> Outcome:
        self.script(call)
        while True:
            await super().answer(call, loop)


def echo(call: ToolCall) -> Outcome:
    return Outcome.ok(call.inputs["params"]["i"])


def evented(run: OneRun, tool: Evented) -> Worker:
    """The worker of `run` with `tool` for its kind http."""
    worker = run.worker()
    worker.tools = ToolRegistry({"http": tool, "noop": worker.tools.get("noop"), "python": worker.tools.get("python")})
    return worker


@pytest.mark.parametrize("limit", [1, 16, 100])
def test_a_loop_has_exactly_max_in_flight_calls_at_once(limit: int) -> None:
    run = OneRun({"loop": loop("{{ range(250) | list }}", max_in_flight=limit), "tool": CALL})
    tool = Evented(echo)
    evented(run, tool).handle(run.command())
    assert run.last.data["result"] == list(range(250))
    assert tool.peak == limit
    assert [c.inputs["params"]["i"] for c in tool.begun] == list(range(250))


def test_the_event_loop_postpones_calls_beyond_its_limit() -> None:
    calls = MOST + 50
    run = OneRun({"loop": loop(f"{{{{ range({calls}) | list }}}}", max_in_flight=calls), "tool": CALL})
    tool = Evented(echo)
    evented(run, tool).handle(run.command())
    assert run.last.data["result"] == list(range(calls)) and tool.peak == MOST


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_the_same_events_are_recorded_as_of_a_tool_on_threads(mode: str) -> None:
    def failing(call: ToolCall) -> Outcome:
        return echo(call) if call.inputs["params"]["i"] % 3 else Outcome.failed("server_error", "no")

    step = {
        "loop": loop("{{ range(12) | list }}", mode, max_in_flight=1, policy={"failure": {"mode": "best_effort"}}),
        "tool": CALL,
    }
    threaded, other = OneRun(step, failing), OneRun(step)
    threaded.handle()
    evented(other, Evented(failing)).handle(other.command())
    assert other.names == threaded.names

    def told(run: OneRun) -> list[Any]:
        return [{k: v for k, v in e.data.items() if k not in ("started", "outcome")} for e in run.events]

    assert told(other) == told(threaded)
    for ours, theirs in zip(other.named("TaskProcessed"), threaded.named("TaskProcessed"), strict=True):
        assert (
            ours["outcome"].keys() == theirs["outcome"].keys()
            and ours["outcome"]["meta"].keys() == theirs["outcome"]["meta"].keys()
        )


def test_an_attempt_on_a_thread_ends_the_wait_for_those_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wake the driver would look at what the thread brought after a tick, here of a minute."""
    monkeypatch.setattr("noetl_core.worker.runner.TICK_S", 60.0)
    turning, went_on, slept = threading.Event(), threading.Event(), threading.Event()
    turn = EventLoop.turn

    def turned(self: EventLoop, timeout: float) -> None:
        turning.set()
        turn(self, timeout)

    monkeypatch.setattr(EventLoop, "turn", turned)

    class Waits(Evented):
        async def answer(self, call: ToolCall, loop: EventLoop) -> Outcome:
            if call.inputs["params"]["i"] == 1:  # the other pass is on its thread
                return echo(call)
            await asyncio.sleep(20)
            slept.set()
            return Outcome.failed("timeout", "nobody went on")

    def script(call: ToolCall) -> Outcome:
        if call.kind == "python":
            turning.wait(10)
            return Outcome.ok(1)
        went_on.set()
        run.fence()
        run.wait(2)
        return Outcome.ok(2)

    step = {
        "loop": loop("{{ range(2) | list }}", max_in_flight=2),
        "tool": [CALL, {"name": "b", "kind": "python", "code": "result = 1"}, {"name": "c", "kind": "noop"}],
    }
    run = OneRun(step, script)
    handled = evented(run, Waits(echo)).handle(run.command())
    assert handled.kind == "dropped" and went_on.is_set() and not slept.is_set()


def test_an_attempt_that_goes_on_after_its_timeout_is_stopped_and_its_task_times_out() -> None:
    step = {
        "loop": loop("{{ range(9) | list }}", max_in_flight=3, policy={"failure": {"mode": "best_effort"}}),
        "tool": {**CALL, "spec": {"timeout_s": 5}},
    }
    run = OneRun(step)

    def slow(call: ToolCall) -> Outcome:
        run.wait(2)
        return echo(call)

    tool = Forever(slow)
    evented(run, tool).handle(run.command())
    kinds = [data["outcome"]["error"]["kind"] for data in run.named("TaskProcessed")]
    assert kinds == ["timeout"] * 9 and sorted(tool.heard) == list(range(9))
    assert tool.peak == 3, "it is stopped before another takes its place"
    assert all(call.cancelled.is_set() for call in tool.begun)


def test_a_fenced_worker_stops_calls_in_flight_and_commits_nothing() -> None:
    run = OneRun({"loop": loop("{{ range(9) | list }}", max_in_flight=4), "tool": CALL})

    def fenced(call: ToolCall) -> Outcome:
        if call.inputs["params"]["i"] == 3:
            run.fence("timeout")
            run.wait(2)
        return echo(call)

    class Last(Evented):
        async def answer(self, call: ToolCall, loop: EventLoop) -> Outcome:
            if call.inputs["params"]["i"] != 3:
                await super().answer(call, loop)
                while True:
                    await super().answer(call, loop)
            return await super().answer(call, loop)

    tool = Last(fenced)
    handled = evented(run, tool).handle(run.command())
    assert handled.kind == "dropped" and "fenced" in handled.reason
    assert run.names[-1] == "StepFailed" and "TaskProcessed" not in run.names
    assert sorted(tool.heard) == [0, 1, 2] and all(
        call.cancelled.is_set() for call in tool.begun if call.inputs["params"]["i"] < 3
    )


def test_a_crash_in_a_call_is_the_workers() -> None:
    def dies(call: ToolCall) -> Outcome:
        raise Crash

    run = OneRun({"loop": loop("{{ range(3) | list }}", max_in_flight=3), "tool": CALL})
    with pytest.raises(Crash):
        evented(run, Evented(dies)).handle(run.command())


# --- with a server ------------------------------------------------------------------------------------------------------------


class Together(ThreadingHTTPServer):
    """Answers once `many` requests are there at the same time."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, many: int) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.barrier = threading.Barrier(many, timeout=30)
        self.arrived = threading.Event()
        self.asked = self.connections = 0

    def get_request(self) -> tuple[Any, Any]:
        self.connections += 1
        return super().get_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A barrier that breaks shows as a connection that fails."""


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Together

    def do_GET(self) -> None:
        self.server.asked += 1
        self.server.arrived.set()
        self.server.barrier.wait()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def local() -> Iterator[LocalWiring]:
    wiring = LocalWiring(tools=ToolRegistry({"http": HttpTool(AddressPolicy(allow_private=True))}))
    try:
        yield wiring
    finally:
        wiring.close()


def source(server: Together, items: int, in_flight: int) -> str:
    return (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: h, path: test/h}\nworkflow:\n  - step: start\n"
        f"    loop: {{in: '{{{{ range({items}) | list }}}}', iterator: n, spec: {{mode: parallel, max_in_flight: {in_flight}}}}}\n"
        f"    tool: {{kind: http, url: '{url_of(server)}/{{{{ iter.n }}}}', spec: {{retry: 1}}}}\n"
    )


@pytest.mark.nightly
def test_a_loop_of_a_hundred_calls_has_a_hundred_at_the_server() -> None:
    with serving(Together(100)) as server, local() as wiring:
        execution_id = wiring.start(StartRequest(playbook=source(server, 300, 100))).execution_id
        assert wiring.run(execution_id, timeout_s=60)
        assert executions.summary(wiring.control, execution_id)["status"] == "completed"


def test_a_cancel_reaches_calls_that_wait_for_an_answer() -> None:
    with serving(Together(4)) as server, local() as wiring:
        execution_id = wiring.start(StartRequest(playbook=source(server, 3, 3))).execution_id

        def cancel() -> None:
            server.arrived.wait(20)
            operate.cancel(wiring.control, execution_id)

        thread = threading.Thread(target=cancel)
        thread.start()
        assert wiring.run(execution_id, timeout_s=20)
        thread.join()
        server.barrier.abort()
        assert wiring.control.load(execution_id).status == "cancelled"


def test_a_chain_of_calls_uses_one_connection_from_step_to_step_and_from_run_to_run() -> None:
    steps = "".join(
        f"  - step: {name}\n    tool: {{kind: http, url: '{{{{ workload.url }}}}', spec: {{retry: 1}}}}\n{following}"
        for name, following in (("start", "    next: {arcs: [{step: b}]}\n"), ("b", "    next: {arcs: [{step: c}]}\n"), ("c", ""))
    )
    with serving(Together(1)) as server, local() as wiring:
        for _ in range(2):
            playbook = (
                "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: h, path: test/h}\n"
                f"workload: {{url: '{url_of(server)}'}}\nworkflow:\n{steps}"
            )
            execution_id = wiring.start(StartRequest(playbook=playbook)).execution_id
            assert wiring.run(execution_id, timeout_s=20)
            assert executions.summary(wiring.control, execution_id)["status"] == "completed"
        assert (server.asked, server.connections) == (6, 1)


@pytest.mark.nightly
def test_a_process_that_made_calls_exits_without_output() -> None:
    program = (
        "import sys, threading\n"
        "from noetl_core.tools.base import ToolCall\n"
        "from noetl_core.tools.http.tool import HttpTool\n"
        "from noetl_core.tools.network.addresses import AddressPolicy\n"
        "tool = HttpTool(AddressPolicy(allow_private=True))\n"
        "def ask(): assert tool.run(ToolCall('http', {'url': sys.argv[1]}, {'retry': 1})).status == 'ok'\n"
        "ask()\n"
        "threads = [threading.Thread(target=ask) for _ in range(2)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
    )
    with serving(Together(1)) as server:
        ended = subprocess.run([sys.executable, "-W", "always", "-c", program, url_of(server)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
