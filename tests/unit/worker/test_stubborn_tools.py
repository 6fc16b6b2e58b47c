"""Tools that go on after their timeout: their tasks end with kind timeout, what they bring later counts for nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.control.lifecycle import operate
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_core.views.executions import executions
from noetl_core.worker.tasks.running_attempts import GRACE_S
from noetl_core.worker.tasks.threads import TaskThreads
from tests.running import events_of

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: s, path: test/stubborn}\nexecutor: {spec: {extensions: true}}\n"
ALONE = (
    HEAD
    + """
workflow:
  - step: start
    tool:
      - name: stuck
        kind: stubborn
        spec:
          timeout_s: 0.05
          policy: {rules: [{when: "{{ outcome.error.kind == 'timeout' }}", then: {do: retry, attempts: 2}}, {else: {then: {do: continue}}}]}
    next:
      arcs:
        - {step: after, when: "{{ event.error.kind == 'timeout' }}"}
  - step: after
    tool: {kind: noop, result: "went on"}
"""
)
LOOP = (
    HEAD
    + """
workflow:
  - step: start
    loop: {in: "{{ range(6) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 3, policy: {failure: {mode: best_effort}}}}
    tool: {name: stuck, kind: stubborn, args: {n: "{{ iter.n }}"}, spec: {timeout_s: 0.5}}
"""
)
FOREVER = HEAD + "workflow:\n  - step: start\n    tool: {kind: stubborn}\n"


class Stubborn:
    """Looks neither at its timeout nor at `cancelled`."""

    kind = "stubborn"
    inline = False

    def __init__(self) -> None:
        self.release = threading.Event()
        self.ended = threading.Semaphore(0)
        self.calls: list[ToolCall] = []

    def run(self, call: ToolCall) -> Outcome:
        self.calls.append(call)
        n = (call.inputs.get("args") or {}).get("n", 0)
        if n % 2 == 0:
            self.release.wait()
        self.ended.release()
        return Outcome.ok(f"late {n}" if n % 2 == 0 else n)


@pytest.fixture
def tool() -> Iterator[Stubborn]:
    tool = Stubborn()
    yield tool
    tool.release.set()


@pytest.fixture
def local(tool: Stubborn) -> Iterator[LocalWiring]:
    local = LocalWiring(tools=ToolRegistry({"stubborn": tool}))
    yield local
    local.close()


def started(local: LocalWiring, source: str) -> str:
    return local.start(StartRequest(playbook=source)).execution_id


def test_the_task_times_out_and_the_pipeline_goes_on(local: LocalWiring, tool: Stubborn) -> None:
    execution_id = started(local, ALONE)
    assert local.run(execution_id, timeout_s=20)
    summary = executions.summary(local.control, execution_id)
    assert (summary["status"], summary["result"]) == ("completed", "went on")
    assert [c.attempt for c in tool.calls] == [1, 2]
    assert all(c.cancelled.is_set() for c in tool.calls), "it is told that nobody waits"


def test_a_late_result_of_an_abandoned_call_is_never_recorded(local: LocalWiring, tool: Stubborn) -> None:
    execution_id = started(local, LOOP)

    def let_go() -> None:
        deadline = time.monotonic() + 10
        while len(tool.calls) < 6 and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.5 + GRACE_S + 0.2)  # two calls are abandoned meanwhile
        tool.release.set()

    helper = threading.Thread(target=let_go)
    helper.start()
    assert local.run(execution_id, timeout_s=20)
    helper.join()
    for _ in range(6):
        assert tool.ended.acquire(timeout=5)
    events = events_of(local.control, execution_id)[0]
    done = [e for e in events if e["name"] == "TaskProcessed"]
    kinds = {tuple(e["iteration"]): e["data"]["outcome"].get("error", {}).get("kind") for e in done}
    assert len(done) == 6
    assert all(kinds[(n,)] is None for n in (1, 3, 5))
    assert all(kinds[(n,)] == "timeout" for n in (0, 2))
    assert "late 0" not in repr(events)


def test_a_cancel_does_not_wait_for_a_stubborn_tool(local: LocalWiring, tool: Stubborn) -> None:
    execution_id = started(local, FOREVER)

    def cancel() -> None:
        while not tool.calls:
            time.sleep(0.005)
        operate.cancel(local.control, execution_id)

    helper = threading.Thread(target=cancel)
    helper.start()
    assert local.run(execution_id, timeout_s=20)
    helper.join()
    assert local.control.load(execution_id).status == "cancelled"
    assert not tool.release.is_set(), "it goes on for as long as it is let"
    (run,) = _runs(local, execution_id)
    assert [e.name for c in local.store.read(run) for e in c.events if e.name.startswith("Step")][-1] == "StepFailed"


def _runs(local: LocalWiring, execution_id: str) -> list[StreamId]:
    commits = local.store.read(StreamId(execution_id))
    return [StreamId(execution_id, e.data["run"]) for c in commits for e in c.events if e.name == "StepScheduled"]


def test_a_lost_thread_leaves_its_place_to_another() -> None:
    threads, release, done = TaskThreads(1), threading.Event(), threading.Event()
    threads.submit(lambda: (release.wait(10), None)[1])
    threads.submit(done.set)
    assert not done.wait(0.05), "one thread, and it is busy"
    threads.lose()
    threads.submit(lambda: None)
    assert done.wait(5)
    release.set()
    threads.close()
