"""Tools that end when they are to: a step with nothing else to do calls them without a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.control.lifecycle import operate
from noetl_core.engine.outcome import Outcome
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.python.tool import PythonTool
from noetl_core.tools.registry import ToolRegistry
from noetl_core.tools.sandbox.pool import MAX_RUNNING
from noetl_core.values.instants import SECOND
from noetl_core.views.executions import executions
from noetl_core.worker.claiming.journal import HEARTBEAT_S
from tests.running import events_of

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p, path: test/punctual}\nexecutor: {spec: {extensions: true}}\n"
PLAIN = HEAD + "workflow:\n  - step: start\n    tool: {kind: punctual}\n"
LOOP = HEAD + (
    "workflow:\n  - step: start\n    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: 3}}\n"
    "    tool: {kind: punctual}\n"
)


class Punctual:
    """Continues until `release` is set, or the call is cancelled."""

    kind = "punctual"
    inline = False
    punctual = True

    def __init__(self) -> None:
        self.release = threading.Event()
        self.begun = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []

    def run(self, call: ToolCall) -> Outcome:
        self.threads.append(threading.current_thread())
        self.begun.release()
        while not self.release.wait(0.01):
            if call.cancelled.is_set():
                return Outcome.failed("cancelled", "it was cancelled", retryable=False)
        return Outcome.ok("done")


@pytest.fixture
def tool() -> Iterator[Punctual]:
    tool = Punctual()
    yield tool
    tool.release.set()


@pytest.fixture
def local(tool: Punctual) -> Iterator[LocalWiring]:
    local = LocalWiring(tools=ToolRegistry({"punctual": tool}))
    yield local
    local.close()


def test_a_plain_step_calls_it_on_the_thread_that_drives_it(tool: Punctual, local: LocalWiring) -> None:
    tool.release.set()
    started = local.start(StartRequest(playbook=PLAIN))
    local.run(started.execution_id)
    assert tool.threads == [threading.current_thread()]
    assert executions.summary(local.control, started.execution_id)["result"] == "done"


def test_iterations_call_it_side_by_side(tool: Punctual, local: LocalWiring) -> None:
    started = local.start(StartRequest(playbook=LOOP))
    carrier = threading.Thread(target=local.run, args=(started.execution_id,))
    carrier.start()
    for _ in range(3):
        assert tool.begun.acquire(timeout=10)
    tool.release.set()
    carrier.join(10)
    assert not carrier.is_alive() and len({*tool.threads, carrier}) == 4


def test_a_cancel_reaches_a_punctual_tool_and_leaves_no_outcome(tool: Punctual, local: LocalWiring) -> None:
    started = local.start(StartRequest(playbook=PLAIN))
    carrier = threading.Thread(target=local.run, args=(started.execution_id,))
    carrier.start()
    assert tool.begun.acquire(timeout=10)
    operate.cancel(local.control, started.execution_id, "enough")
    local.clock.not_before(local.clock.now() + HEARTBEAT_S * SECOND)  # the lease is renewed now, and the gate is read with it
    carrier.join(20)
    assert not carrier.is_alive() and not tool.release.is_set()
    summary = executions.summary(local.control, started.execution_id)
    assert summary["status"] == "cancelled"
    names = [event["name"] for event in events_of(local.control, started.execution_id)[0]]
    assert "TaskProcessed" not in names and "StepFailed" in names


def test_a_call_that_waits_for_a_place_is_cancelled() -> None:
    tool, cancelled = PythonTool(), threading.Event()
    pool = tool.pool()
    assert all(pool.take_place(time.monotonic() + 1, cancelled) for _ in range(MAX_RUNNING))
    cancelled.set()
    outcome = tool.run(ToolCall("python", {"code": "result = 1"}, cancelled=cancelled, timeout_s=600))
    assert outcome.error is not None and outcome.error.kind == "cancelled"
    tool.close()
