"""Outcomes of earlier answers to a question, as the API tells them."""

from __future__ import annotations

from typing import Any

from noetl_core.views.explain import past_answers
from tests.unit.control.api_client import Client, client, hurry, refusal
from tests.waiting import run_until_it_waits

__all__ = ["client"]

APPROVE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: approve, path: team/approve }
workload: { fails: false }
workflow:
  - step: ask
    tool:
      - name: question
        kind: callback
        schema: { type: object, required: [approved], properties: { approved: { type: boolean } } }
    next: { arcs: [{ step: paid, when: "{{ event.result.approved }}" }, { step: refused }] }
  - step: paid
    tool: { kind: python, args: { fails: "{{ workload.fails }}" }, code: "result = 'paid' if not fails else 1 / 0" }
  - step: refused
    tool: { kind: noop, result: refused }
"""


def waits(client: Client, **payload: Any) -> tuple[str, str]:
    """Start an execution that waits; return its id and that of the wait."""
    execution_id = client.start(playbook=APPROVE, payload=payload)
    run_until_it_waits(client.local, execution_id)
    (wait,) = client("GET", "/api/callbacks", path="team/approve")[1]["callbacks"]
    return execution_id, wait["wait_id"]


def answered(client: Client, body: dict[str, Any], **payload: Any) -> str:
    execution_id, wait_id = waits(client, **payload)
    assert client("POST", f"/api/executions/{execution_id}/callbacks/{wait_id}", body)[0] == 202
    assert client.local.run(execution_id, timeout_s=20)
    return execution_id


def yes(approved: bool) -> dict[str, Any]:
    return {"data": {"approved": approved}}


def test_each_past_answer_is_listed_with_its_outcomes(client: Client) -> None:
    paid = answered(client, yes(True))
    failed = answered(client, yes(True), fails=True)
    refused = answered(client, yes(False))
    broken = answered(client, {"status": "error", "error": "nobody is there"})
    execution_id, wait_id = waits(client)
    status, told = client("GET", f"/api/executions/{execution_id}/past-answers", wait_id=wait_id)
    assert status == 200
    assert (told["path"], told["step"], told["task"], told["read"], told["more"]) == ("team/approve", "ask", "question", 4, False)
    approve, reject, error = told["answers"]
    assert [(a["words"], a["count"]) for a in told["answers"]] == [("Approve", 2), ("Reject", 1), ("Failed or timed out", 1)]
    assert approve["statuses"] == {"failed": 1, "completed": 1}
    assert [one["execution_id"] for one in approve["newest"]] == [failed, paid]
    assert "division by zero" in approve["newest"][0]["error"]
    assert approve["newest"][1]["result"] == client("GET", f"/api/executions/{paid}")[1]["result"]
    assert (reject["newest"][0]["execution_id"], reject["statuses"]) == (refused, {"completed": 1})
    assert error["newest"][0]["execution_id"] == broken
    for answer in told["answers"]:
        assert answer["duration_ms"] > 0
        assert answer["cost"] > 0
        for one in answer["newest"]:
            assert one["cost"] == client("GET", f"/api/executions/{one['execution_id']}/cost")[1]["total"]["cost"]
    assert refusal(client("GET", f"/api/executions/{execution_id}/past-answers", wait_id="other")) == (404, "not_found")


def test_past_answers_read_a_bounded_number_of_executions(client: Client) -> None:
    for _ in range(3):
        answered(client, yes(True))
    execution_id, wait_id = waits(client)
    few = past_answers.past_answers(client.local.control, execution_id, wait_id, most=2)
    assert (few["read"], few["more"], few["answers"][0]["count"]) == (2, True, 2)
    hurry(client.local.control, past_answers.READ_S + 1)
    told = client("GET", f"/api/executions/{execution_id}/past-answers", wait_id=wait_id)[1]
    assert (told["read"], told["more"], told["answers"]) == (0, True, [])
