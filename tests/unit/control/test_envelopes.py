"""The public envelope: a golden history, and where each field comes from."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from noetl_core.engine.records import Commit, StreamId
from noetl_core.events.table import event_named
from noetl_core.views.reading.envelopes import expand
from tests.raw_events import stored
from tests.running import events_of, run_text

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: two, path: test/two }
workflow:
  - step: first
    loop: { in: [1, 2], iterator: n }
    tool: { kind: noop, result: "{{ iter.n * 10 }}" }
    next: { arcs: [{ step: second, args: { all: "{{ steps.first.result }}" } }] }
  - step: second
    tool: { name: sum, kind: noop, result: "{{ args.all | sum }}" }
"""


def history_of(source: str) -> list[dict[str, Any]]:
    local, state = run_text(source)
    try:
        return events_of(local.control, state.execution_id)[0]
    finally:
        local.close()


def test_a_history_in_causal_order() -> None:
    lines = [
        f"{e['source']} {e['entity']} {e['name']} {e['status']}"
        + "".join(f" {e[k]}" for k in ("step", "task", "iteration", "attempt") if k in e)
        for e in history_of(PLAYBOOK)
    ]
    assert lines == [
        "server playbook PlaybookExecutionRequested in_progress",
        "server playbook PlaybookRequestEvaluated success",
        "server workflow WorkflowStarted in_progress",
        "server step TokenEnqueued in_progress first",
        "server step TokenClaimed success",
        "server step StepScheduled in_progress first",
        "server loop LoopStarted in_progress first",
        "worker step StepStarted in_progress first",
        "worker loop LoopCollected success first",
        "worker loop LoopIterationStarted in_progress first [0]",
        "worker task TaskStarted in_progress first first_task [0] 1",
        "worker task TaskProcessed success first first_task [0] 1",
        "worker loop LoopIterationCompleted success first [0]",
        "worker loop LoopIterationStarted in_progress first [1]",
        "worker task TaskStarted in_progress first first_task [1] 1",
        "worker task TaskProcessed success first first_task [1] 1",
        "worker loop LoopIterationCompleted success first [1]",
        "worker loop LoopChunkDone success first",
        "server step BoundaryRouted success first",
        "server loop LoopDone success first",
        "server next NextEvaluated success first",
        "server step TokenEnqueued in_progress second",
        "server step TokenClaimed success",
        "server step StepScheduled in_progress second",
        "worker step StepStarted in_progress second",
        "worker task TaskStarted in_progress second sum 1",
        "worker task TaskProcessed success second sum 1",
        "worker step StepDone success second",
        "server step BoundaryRouted success second",
        "server next NextEvaluated success second",
        "server workflow WorkflowFinished success",
        "server playbook PlaybookProcessed success",
    ]


def test_ids_are_unique_and_stable_and_times_are_rfc_3339() -> None:
    local, state = run_text(PLAYBOOK)
    once, _ = events_of(local.control, state.execution_id)
    twice, _ = events_of(local.control, state.execution_id)
    local.close()
    assert once == twice
    assert len({e["event_id"] for e in once}) == len(once)
    for e in once:
        assert e["execution_id"] == state.execution_id
        assert e["timestamp"].endswith("Z")
        assert len(e["timestamp"]) == len("2026-11-21T08:00:00.000000Z")
        datetime.fromisoformat(e["timestamp"])


def test_a_task_carries_its_key_and_its_outcome() -> None:
    task = next(e for e in history_of(PLAYBOOK) if e["name"] == "TaskProcessed")
    assert task["entity_id"] == task["task_run_id"] != task["step_run_id"]
    assert task["data"]["outcome"]["result"] == 10
    assert task["data"]["directive"]["do"] == "continue"


@pytest.mark.parametrize(
    ("name", "dotted"),
    [
        ("StepDone", "step.done"),
        ("LoopIterationStarted", "loop.iteration.started"),
        ("PlaybookExecutionRequested", "playbook.execution.requested"),
        ("LoopDone", "loop.done"),
    ],
)
def test_event_types_are_dotted(name: str, dotted: str) -> None:
    assert event_named(name).event_type == dotted


def test_a_failure_says_so_in_every_status() -> None:
    failing = PLAYBOOK.replace('result: "{{ args.all | sum }}"', 'result: "{{ 1 / 0 }}"')
    found = {e["name"]: e["status"] for e in history_of(failing)}
    assert found["TaskProcessed"] == found["StepFailed"] == found["WorkflowFinished"] == found["PlaybookProcessed"] == "error"


def test_an_event_that_only_newer_code_knows_is_shown() -> None:
    commit = Commit(StreamId("1", "r1"), 0, 1, "w", (stored("StepTeleported", 1, {"where": "far"}),))
    (envelope,) = expand([commit], "1")
    assert (envelope["name"], envelope["event_type"], envelope["status"]) == ("StepTeleported", "step.teleported", "success")
    assert envelope["data"] == {"where": "far"}
