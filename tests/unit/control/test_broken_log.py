"""An execution whose log does not read: it says so wherever it is asked after, troubles nobody else, and can be cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.control.cached_states import CachedStates
from noetl_core.control.sweeping.sweep import Swept, reconcile_safely, sweep
from noetl_core.ports import Head
from noetl_core.runtime.local import LocalWiring
from tests.unit.control.api_client import Client, refusal

WAITS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: broken/waits}
workflow:
  - step: start
    tool: {name: ask, kind: callback, signal: go}
"""

UNDOES = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: undoes, path: broken/undoes}
workflow:
  - step: start
    tool: {name: book, kind: noop}
    compensate: {name: unbook, kind: noop, set_ctx: {unbooked: 7}}
    next: {arcs: [{step: wait}]}
  - step: wait
    tool: {name: ask, kind: callback, signal: go}
"""


@pytest.fixture
def client() -> Iterator[Client]:
    local = LocalWiring()
    yield Client(local)
    local.close()


def spoiled(client: Client, body: bytes = b"\x00no log") -> str:
    """An execution that waits, and whose first commit does not read any more."""
    local = client.local
    execution_id = local.start(StartRequest(playbook=WAITS)).execution_id
    local.run(execution_id, timeout_s=0.3)
    local.database.write("UPDATE commits SET body=? WHERE execution_id=? AND run_id='' AND seq=0", (body, execution_id))
    local.database.write("DELETE FROM snapshots")
    local.control.states = CachedStates(local.store)
    return execution_id


def due(client: Client) -> list[str]:
    return [row[0] for row in client.local.database.rows("SELECT execution_id FROM due")]


def late(client: Client) -> None:
    client.local.database.write("UPDATE due SET due_at=1")


def test_the_sweep_marks_a_corrupt_log_stuck_and_reconciles_it_no_more(client: Client) -> None:
    execution_id = spoiled(client)
    late(client)
    assert sweep(client.local.control).broken == 1
    status, answer = client("GET", "/api/executions")
    (shown,) = answer["executions"]
    assert (status, shown["execution_id"], shown["status"]) == (200, execution_id, "stuck")
    assert shown["error"]["kind"] == "storage"
    assert "cannot be read" in shown["error"]["message"]
    assert due(client) == [], "nothing changes by looking again: who repairs the log resumes it"


def test_a_wake_of_an_execution_with_a_corrupt_log_marks_it_stuck(client: Client) -> None:
    execution_id = spoiled(client)
    reconcile_safely(client.local.control, execution_id, Swept())
    assert client.local.index.heads()[0].status == "stuck"


def test_the_summary_of_a_corrupt_log_shows_stuck_and_the_reason(client: Client) -> None:
    execution_id = spoiled(client)
    status, summary = client("GET", f"/api/executions/{execution_id}")
    assert status == 200
    assert (summary["status"], summary["playbook"]["path"]) == ("stuck", "broken/waits")
    assert "cannot be read" in summary["reason"]
    assert "noetl cancel" in summary["reason"]
    assert client("GET", "/api/executions")[1]["executions"][0]["status"] == "stuck", "lists say so from now on"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "events", None),
        ("GET", "state", None),
        ("GET", "timeline", None),
        ("GET", "graph", None),
        ("GET", "cost", None),
        ("GET", "logs", None),
        ("POST", "pause", {}),
        ("POST", "resume", {}),
        ("POST", "redrive", {}),
    ],
)
def test_requests_that_read_a_corrupt_log_are_refused_with_the_reason(client: Client, method: str, path: str, body: Any) -> None:
    execution_id = spoiled(client)
    answer = client(method, f"/api/executions/{execution_id}/{path}", body)
    assert refusal(answer) == (409, "corrupt_log")
    assert "cannot be read" in answer[1]["error"]["message"]
    assert f"execution {execution_id}" in answer[1]["error"]["message"]
    assert "noetl cancel" in answer[1]["error"]["details"][0]["hint"]


def test_a_list_of_waiting_executions_leaves_out_those_with_corrupt_logs(client: Client) -> None:
    spoiled(client)
    good = client.local.start(StartRequest(playbook=WAITS)).execution_id
    client.local.run(good, timeout_s=0.3)
    status, answer = client("GET", "/api/executions", status="waiting")
    assert (status, [e["execution_id"] for e in answer["executions"]]) == (200, [good])


def test_cancel_closes_an_execution_with_a_corrupt_log(client: Client) -> None:
    execution_id = spoiled(client)
    status, answer = client("POST", f"/api/executions/{execution_id}/cancel", {"reason": "beyond repair"})
    assert (status, answer["status"]) == (202, "cancelled")
    status, answer = client("GET", f"/api/executions/{execution_id}")
    assert (answer["status"], answer["error"]["message"]) == ("cancelled", "beyond repair")
    assert due(client) == []
    assert client.local.gates.gate(execution_id).mode == "stop", "its workers stop"
    assert client("POST", f"/api/executions/{execution_id}/cancel", {})[1]["status"] == "cancelled", "again does no harm"


def test_a_corrupt_run_stream_makes_its_execution_stuck_until_cancelled(client: Client) -> None:
    local = client.local
    execution_id = local.start(StartRequest(playbook=WAITS)).execution_id
    local.run(execution_id, timeout_s=0.3)
    assert local.database.write("UPDATE commits SET body=x'00' WHERE run_id<>''") > 0
    late(client)
    assert sweep(local.control).broken == 1
    summary = client("GET", f"/api/executions/{execution_id}")[1]
    assert summary["status"] == "stuck"
    assert "cannot be read" in summary["reason"]
    assert local.index.heads()[0].status == "stuck"
    status, answer = client("POST", f"/api/executions/{execution_id}/cancel", {})
    assert (status, answer["status"]) == (202, "cancelled")
    assert client("GET", f"/api/executions/{execution_id}")[1]["status"] == "cancelled"
    assert local.index.heads()[0].status == "cancelled"
    assert due(client) == []


def test_an_execution_with_a_repaired_log_continues_when_resumed(client: Client) -> None:
    local = client.local
    execution_id = local.start(StartRequest(playbook=WAITS)).execution_id
    local.run(execution_id, timeout_s=0.3)
    ((body,),) = local.database.rows("SELECT body FROM commits WHERE run_id='' AND seq=0")
    local.database.write("UPDATE commits SET body=x'00' WHERE run_id='' AND seq=0")
    local.control.states = CachedStates(local.store)
    late(client)
    sweep(local.control)
    local.database.write("UPDATE commits SET body=? WHERE run_id='' AND seq=0", (body,))
    status, answer = client("POST", f"/api/executions/{execution_id}/resume", {})
    assert (status, answer["status"]) == (202, "waiting")
    assert local.index.heads()[0].status == "running"
    assert due(client) == [execution_id]
    assert client("POST", "/api/events", {"execution_id": execution_id, "name": "go", "data": 1})[0] == 202
    assert local.run(execution_id, timeout_s=10)
    assert client("GET", f"/api/executions/{execution_id}")[1]["status"] == "completed"


def test_an_execution_that_ends_while_its_summary_is_read_has_a_log_that_reads(
    client: Client,
) -> None:
    local = client.local
    execution_id = local.start(StartRequest(playbook=UNDOES)).execution_id
    local.run(execution_id, timeout_s=0.3)
    answer = client("POST", f"/api/executions/{execution_id}/cancel", {"compensate": True})[1]
    assert answer["status"] == "cancelling"

    def ends_first(asked: str) -> Head | None:
        local.control.index = local.index
        local.run(execution_id, timeout_s=10)
        return local.index.head(asked)

    local.control.index = Mock(wraps=local.index, head=ends_first)
    status, summary = client("GET", f"/api/executions/{execution_id}")
    assert (status, summary["status"], summary["ctx"]) == (200, "cancelled", {"unbooked": 7})
    assert "reason" not in summary
