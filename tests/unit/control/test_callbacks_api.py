"""Callbacks over the API: what each answer, heartbeat and forgery is answered."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from noetl_core.views.executions.waiting_callbacks import waiting_callbacks
from tests.api_requests import ask
from tests.unit.control.api_client import ASK, WAITS, Client, client, refusal
from tests.waiting import run_until_it_waits

__all__ = ["client"]


@pytest.fixture
def asked(client: Client) -> tuple[str, str]:
    """An execution that waits, and the token that answers it."""
    execution_id = client.start(playbook=ASK)
    run_until_it_waits(client.local, execution_id)
    status, body = client("GET", f"/api/executions/{execution_id}/callbacks")
    assert status == 200
    (found,) = body["callbacks"]
    assert found["description"] == "Ship it?"
    return execution_id, found["token"]


def test_an_answer_ends_the_wait(client: Client, asked: tuple[str, str]) -> None:
    execution_id, token = asked
    path = f"/api/callbacks/{token}"
    assert client("POST", path, {"heartbeat": True}) == (202, {"execution_id": execution_id, "callback": "alive"})
    assert client("POST", path, {"data": {"ok": True}}) == (202, {"execution_id": execution_id, "callback": "answered"})
    assert client("POST", path, {"data": {"ok": True}}) == (202, {"execution_id": execution_id, "callback": "recorded"})
    assert refusal(client("POST", path, {"data": {"ok": False}})) == (409, "conflict")
    assert client.local.run(execution_id, timeout_s=20)
    status, body = client("GET", f"/api/executions/{execution_id}")
    assert (status, body["status"], body["result"]) == (200, "completed", {"ok": True})


def test_the_token_is_accepted_in_a_header_or_in_the_body(client: Client, asked: tuple[str, str]) -> None:
    execution_id, token = asked
    alive = (202, {"execution_id": execution_id, "callback": "alive"})
    assert client("POST", "/api/callbacks", {"heartbeat": True, "token": token}) == alive
    assert client("POST", "/api/callbacks", {"heartbeat": True}, {"noetl-callback-token": token}) == alive
    assert refusal(client("POST", "/api/callbacks", {"heartbeat": True})) == (400, "malformed")
    assert refusal(client("POST", f"/api/callbacks/{token}", {"heartbeat": True, "token": "other"})) == (400, "malformed")


def test_an_error_answer_fails_the_task(client: Client, asked: tuple[str, str]) -> None:
    execution_id, token = asked
    body = {"status": "error", "error": {"kind": "auth", "message": "no"}}
    assert client("POST", f"/api/callbacks/{token}", body)[0] == 202
    assert client.local.run(execution_id, timeout_s=20)
    assert client("GET", f"/api/executions/{execution_id}")[1]["error"]["kind"] == "auth"


def test_an_invalid_answer_is_refused_with_the_reason_and_the_wait_continues(client: Client, asked: tuple[str, str]) -> None:
    execution_id, token = asked
    answer = client("POST", f"/api/callbacks/{token}", {"data": {}})
    assert refusal(answer) == (422, "unfit_answer")
    assert answer[1]["error"]["details"][0]["message"] == "the answer has no 'ok'"
    assert len(client("GET", f"/api/executions/{execution_id}/callbacks")[1]["callbacks"]) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"heartbeat": False},
        {"heartbeat": True, "data": 1},
        {"status": "maybe"},
        {"status": "ok", "error": "x"},
        {"data": 1, "error": "x"},
        {"error": 7},
        {"error": {"kind": 7}},
        {"error": {"message": ["no"]}},
        {"error": {"why": "x"}},
        {"error": {"code": 1.5}},
        {"result": 1},
        [1],
        "{",
    ],
)
def test_malformed_answers(client: Client, asked: tuple[str, str], body: Any) -> None:
    assert refusal(client("POST", f"/api/callbacks/{asked[1]}", body)) == (400, "malformed")


def test_forged_and_late_answers(client: Client, asked: tuple[str, str]) -> None:
    execution_id, token = asked
    assert refusal(client("POST", f"/api/callbacks/{token[:-1]}", {})) == (403, "forbidden")
    assert refusal(client("POST", "/api/callbacks/x", {})) == (403, "forbidden")
    assert refusal(client("POST", "/api/callbacks/1.2.3.4.ü", {})) == (403, "forbidden")
    client("POST", f"/api/executions/{execution_id}/cancel", {})
    assert refusal(client("POST", f"/api/callbacks/{token}", {"data": {"ok": True}})) == (410, "gone")


def test_a_callback_cannot_be_answered_as_an_event_by_name(client: Client, asked: tuple[str, str]) -> None:
    body = {"execution_id": asked[0], "name": "callback:k1", "data": 1}
    assert refusal(client("POST", "/api/events", body)) == (400, "malformed")


def test_a_service_without_a_key_says_so(client: Client, asked: tuple[str, str]) -> None:
    client.local.control.callback_key = None
    assert refusal(client("POST", f"/api/callbacks/{asked[1]}", {})) == (503, "unavailable")


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"scope": "openid"}, 403),
        ({"scope": "noetl/secrets"}, 403),
        ({}, 403),
        ({"scope": "openid noetl/callbacks"}, 202),
        ({"cognito:groups": "[ops callbacks]"}, 202),
    ],
    ids=str,
)
def test_tokens_are_shown_only_to_callers_with_the_right_to_answer(
    client: Client, asked: tuple[str, str], claims: dict[str, str], status: int
) -> None:
    caller = {"authorizer": {"claims": claims}}
    assert ask(client.api, "GET", f"/api/executions/{asked[0]}/callbacks", caller=caller).status == (
        200 if status == 202 else 403
    )


# --- over all executions, without tokens ------------------------------------------------------------------------------------


def test_waiting_callbacks_of_all_executions_are_listed_without_tokens(client: Client, asked: tuple[str, str]) -> None:
    execution_id, token = asked
    client.run()  # one that has ended
    status, body = client("GET", "/api/callbacks", status="waiting")
    assert (status, body["cursor"]) == (200, None)
    (found,) = body["callbacks"]
    assert (found["execution_id"], found["step"], found["description"]) == (execution_id, "ask", "Ship it?")
    assert found["schema"]["required"] == ["ok"] and found["playbook"]["path"] == "test/ask"
    assert token not in json.dumps(body) and token.rsplit(".", 1)[1] not in json.dumps(body)
    assert client("GET", "/api/callbacks", path="test/other")[1]["callbacks"] == []


def test_a_callback_is_answered_by_its_wait(client: Client, asked: tuple[str, str]) -> None:
    execution_id, _ = asked
    wait = client("GET", "/api/callbacks")[1]["callbacks"][0]["wait_id"]
    path = f"/api/executions/{execution_id}/callbacks/{wait}"
    assert client("POST", path, {"heartbeat": True}) == (202, {"execution_id": execution_id, "callback": "alive"})
    assert refusal(client("POST", path, {"data": {}})) == (422, "unfit_answer")
    assert refusal(client("POST", path, {"token": "x", "data": {"ok": True}})) == (400, "malformed")
    assert refusal(client("POST", path[:-1] + "x", {"data": {"ok": True}})) == (404, "not_found")
    assert client("POST", path, {"data": {"ok": True}}) == (202, {"execution_id": execution_id, "callback": "answered"})
    assert client("GET", "/api/callbacks")[1]["callbacks"] == []
    assert refusal(client("POST", path, {"data": {"ok": True}})) == (404, "not_found")
    assert client.local.run(execution_id, timeout_s=20)


def test_pages_of_waiting_callbacks_continue_after_the_last_execution(client: Client) -> None:
    page_of = partial(waiting_callbacks, client.local.control, lambda: b"key", limit=1, looked_at=2)
    started = [client.start(playbook=playbook) for playbook in (ASK, ASK, ASK, WAITS, WAITS)]
    for execution_id in started:
        run_until_it_waits(client.local, execution_id)
    found: list[str] = []
    page = page_of()
    while True:
        found += [c["execution_id"] for c in page["callbacks"]]
        if page["cursor"] is None:
            break
        page = page_of(cursor=page["cursor"])
    assert found == started[:3][::-1]
