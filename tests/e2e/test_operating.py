"""Operating executions on the stack: redrive of one iteration, compensation, pause and cancel."""

from __future__ import annotations

import time

import pytest

from tests.e2e.support import Api

LOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: redrive, path: e2e/redrive }
workflow:
  - step: start
    loop:
      in: "{{ range(200) | list }}"
      iterator: i
      spec: { mode: parallel, max_in_flight: 20, policy: { exec: distributed, failure: { mode: best_effort } } }
    tool: [{ name: half, kind: noop, result: "{{ iter.i // (0 if iter.i == 117 and ctx.ready is not defined else 1) }}" }]
    next: { arcs: [{ step: check, when: "{{ event.loop.failed == 0 }}" }, { step: give_up }] }
  - step: check
    tool: [{ name: sum, kind: noop, result: "{{ steps.start.result | sum }}" }]
  - step: give_up
    tool: [{ name: stop, kind: http, url: "not a url" }]
"""
TRIP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: trip, path: e2e/trip }
workflow:
  - step: start
    tool: [{ name: book, kind: noop, result: { id: 7 } }]
    compensate: [{ name: unbook, kind: noop, result: "{{ steps.start.result.id }}", set_ctx: { unbooked: "{{ steps.start.result.id }}" } }]
    next: { arcs: [{ step: ask }] }
  - step: ask
    tool: [{ name: question, kind: callback, signal: answer }]
"""

LONG = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: long, path: e2e/long }
workflow:
  - step: start
    tool:
      - name: work
        kind: python
        timeout: 300
        code: |
          import time
          print("begun", flush=True)
          time.sleep(280)
"""


@pytest.mark.nightly
def test_the_output_of_a_running_task_is_shown(api: Api) -> None:
    execution_id = api.start(LONG)
    path, until = f"/api/executions/{execution_id}", time.monotonic() + 60
    while not (running := api.call("GET", path + "/logs")[1]["running"]):
        assert time.monotonic() < until, "nothing is shown"
        time.sleep(0.5)
    assert [(task["task"], task["stdout"]) for task in running] == [("work", "begun\n")]
    assert api.call("POST", path + "/cancel")[0] == 202
    assert api.wait(execution_id)["status"] == "cancelled"


@pytest.mark.nightly
def test_one_failed_iteration_is_redriven_and_nothing_else(api: Api) -> None:
    execution_id = api.start(LOOP)
    path = f"/api/executions/{execution_id}"
    assert api.wait(execution_id)["status"] == "failed"
    status, answer = api.call("POST", path + "/redrive", {"preview": True, "from": "start@117"})
    assert status == 200
    assert answer["redrive"]["again"][0]["iterations"] == ["117"]
    status, answer = api.call("POST", path + "/redrive", {"from": "start@117", "ctx": {"ready": True}})
    assert status == 202, answer
    summary = api.wait(execution_id)
    assert (summary["status"], summary["result"]) == ("completed", sum(range(200)))
    events = api.call("GET", path + "/events?limit=1000")[1]["events"]
    redriven = next(n for n, e in enumerate(events) if e["name"] == "ExecutionRedriven")
    tasks = [(e["task"], e.get("iteration")) for e in events[redriven:] if e["name"] == "TaskProcessed"]
    assert tasks == [("half", [117]), ("sum", None)]
    assert api.call("GET", path + "/replay")[1]["differences"] == []


def test_a_cancelled_execution_is_undone(api: Api) -> None:
    execution_id = api.start(TRIP)
    path = f"/api/executions/{execution_id}"
    api.wait(execution_id, until={"waiting"})  # else there may be nothing to undo yet
    for _ in range(2):
        assert api.call("POST", path + "/pause")[1]["status"] == "paused"
    for _ in range(2):
        assert api.call("POST", path + "/resume")[1]["status"] in ("running", "waiting")
    assert api.call("POST", path + "/cancel", {"compensate": True, "reason": "rain"})[0] == 202
    summary = api.wait(execution_id)
    assert (summary["status"], summary["ctx"]) == ("cancelled", {"unbooked": 7})
    assert api.call("POST", path + "/cancel")[1]["status"] == "cancelled", "asked again"
