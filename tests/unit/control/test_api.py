"""The HTTP API over a local control plane: what each request is answered."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from noetl_core.api.reading import MAX_BODY
from noetl_core.control import refusals
from noetl_core.ports import NotFound, Unavailable
from tests.api_requests import Context
from tests.unit.control.api_client import HELLO, WAITS, Client, client, failing_store, refusal
from tests.waiting import run_until_it_waits

__all__ = ["client"]


# --- playbooks ------------------------------------------------------------------------------------------------------------


def test_health(client: Client) -> None:
    status, body = client("GET", "/api/health")
    assert status == 200
    assert body["status"] == "ok"


def test_a_playbook_is_registered_listed_and_read(client: Client) -> None:
    status, body = client("POST", "/api/playbooks", HELLO)
    assert status == 201
    assert (body["path"], body["version"], body["name"]) == ("test/hello", 1, "hello")
    assert client("POST", "/api/playbooks", HELLO)[1]["version"] == 1
    assert client("POST", "/api/playbooks", HELLO + "\n")[1]["version"] == 2
    assert [p["version"] for p in client("GET", "/api/playbooks", prefix="test/")[1]["playbooks"]] == [2]
    assert client("GET", "/api/playbooks", prefix="other")[1]["playbooks"] == []
    assert [p["version"] for p in client("GET", "/api/playbooks/test/hello/versions")[1]["versions"]] == [1, 2]
    assert client("GET", "/api/playbooks/test/hello", version="1")[1]["source"] == HELLO
    assert client("GET", "/api/playbooks/test/hello")[1]["version"] == 2


def test_a_playbook_as_json_or_base64_is_the_same(client: Client) -> None:
    assert client("POST", "/api/playbooks", HELLO, encoded=True)[0] == 201
    assert client("POST", "/api/playbooks", {"playbook": HELLO})[1]["version"] == 1
    document = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "j", "path": "test/json"},
        "workflow": [{"step": "start", "tool": {"kind": "noop"}}],
    }
    assert client("POST", "/api/playbooks", document)[1]["path"] == "test/json"


def test_validation_answers_with_positions_and_leaves_nothing(client: Client) -> None:
    wrong = HELLO.replace("kind: noop", "kind: nope")
    status, body = client("POST", "/api/playbooks/validate", wrong)
    assert status == 422
    assert body["valid"] is False
    found = next(d for d in body["diagnostics"] if d["severity"] == "error")
    assert found["line"] == 7
    assert found["code"] == "E118"
    assert client("POST", "/api/playbooks/validate", HELLO) == (
        200,
        {
            "valid": True,
            "diagnostics": [],
            "warnings": [],
            "playbook": {"path": "test/hello", "workload": {"name": "world"}, "inputs": None},
        },
    )
    assert client("GET", "/api/playbooks")[1]["playbooks"] == []


@pytest.mark.parametrize("path", ["/api/playbooks", "/api/executions"])
def test_an_invalid_playbook_is_422_with_diagnostics_and_leaves_nothing(client: Client, path: str) -> None:
    wrong = HELLO.replace("kind: noop", "kind: nope")
    answer = client("POST", path, {"playbook": wrong})
    assert refusal(answer) == (422, "invalid_playbook")
    (detail,) = [d for d in answer[1]["error"]["details"] if d["severity"] == "error"]
    assert (detail["line"], detail["code"]) == (7, "E118")
    assert detail["hint"]
    assert client("GET", "/api/playbooks")[1]["playbooks"] == []
    assert client("GET", "/api/executions")[1]["executions"] == []


# --- executions -----------------------------------------------------------------------------------------------------------


def test_an_execution_is_accepted_and_shown(client: Client) -> None:
    execution_id = client.run(payload={"name": "Ada"})
    status, body = client("GET", f"/api/executions/{execution_id}")
    assert status == 200
    assert (body["status"], body["result"]) == ("completed", "Hello, Ada!")
    (listed,) = client("GET", "/api/executions", status="completed", path="test/hello")[1]["executions"]
    assert listed["execution_id"] == execution_id
    assert client("GET", "/api/executions", status="failed")[1]["executions"] == []
    assert client("GET", f"/api/vars/{execution_id}")[1]["ctx"] == {}


def test_it_may_start_by_path_version_and_digest(client: Client) -> None:
    registered = client("POST", "/api/playbooks", HELLO)[1]
    for body in ({"path": "test/hello"}, {"path": "test/hello", "version": 1}, {"playbook_id": registered["digest"]}):
        status, answer = client("POST", "/api/executions", body)
        assert (status, answer["playbook"]["version"]) == (202, 1)
    assert refusal(client("POST", "/api/executions", {"path": "test/hello", "version": 9})) == (404, "not_found")
    assert refusal(client("POST", "/api/executions", {"path": "test/none"})) == (404, "not_found")


def test_the_same_key_starts_once_and_another_body_conflicts(client: Client) -> None:
    body = {"playbook": HELLO, "payload": {"name": "Ada"}}
    first = client("POST", "/api/executions", body, {"Idempotency-Key": "k1"})
    again = client("POST", "/api/executions", {**body, "idempotency_key": "k1"})
    assert first[0] == again[0] == 202
    assert first[1]["execution_id"] == again[1]["execution_id"]
    assert (first[1]["created"], again[1]["created"]) == (True, False)
    other = client("POST", "/api/executions", {**body, "payload": {"name": "Eve"}}, {"idempotency-key": "k1"})
    assert refusal(other) == (409, "conflict")
    assert len(client("GET", "/api/executions")[1]["executions"]) == 1


def test_lists_are_paged_newest_first(client: Client) -> None:
    started = [client.start() for _ in range(5)]
    first = client("GET", "/api/executions", limit="2")[1]
    second = client("GET", "/api/executions", limit="2", cursor=first["cursor"])[1]
    third = client("GET", "/api/executions", limit="2", cursor=second["cursor"])[1]
    found = [e["execution_id"] for page in (first, second, third) for e in page["executions"]]
    assert found == started[::-1]
    assert third["cursor"] is None
    events = client("GET", f"/api/executions/{started[0]}/events", limit="1")[1]["cursor"]
    for cursor in (started[0], "c" + first["cursor"][:-4], events):
        assert refusal(client("GET", "/api/executions", cursor=cursor)) == (400, "malformed")
    assert refusal(client("GET", f"/api/executions/{started[0]}/events", after=first["cursor"])) == (400, "malformed")


def test_events_are_filtered_and_paged(client: Client) -> None:
    execution_id = client.run()
    path = f"/api/executions/{execution_id}/events"
    assert [e["name"] for e in client("GET", path, name="step.done")[1]["events"]] == ["StepDone"]
    whole = client("GET", path)[1]
    assert whole["cursor"] is None
    first = client("GET", path, limit="4")[1]
    rest = client("GET", path, after=first["cursor"])[1]
    assert first["events"] + rest["events"] == whole["events"]
    assert refusal(client("GET", path, after="c" + first["cursor"][:-4])) == (400, "malformed")


def test_pause_resume_cancel_and_signals(client: Client) -> None:
    execution_id = client.start(playbook=WAITS)
    path = f"/api/executions/{execution_id}"
    run_until_it_waits(client.local, execution_id)
    waiting = client("GET", path)[1]
    assert waiting["status"] == "waiting"
    assert waiting["waiting_for"][0]["signal"] == "answer"
    client.start(playbook=HELLO)
    for status, count in (("waiting", 1), ("running", 1), ("completed", 0)):
        found = client("GET", "/api/executions", status=status)[1]["executions"]
        assert len(found) == count, status
    assert client("GET", "/api/executions", status="waiting")[1]["executions"][0]["status"] == "waiting"
    assert client("GET", "/api/executions", since="2999-01-01")[1]["executions"] == []
    assert client("POST", path + "/pause") == (202, {"execution_id": execution_id, "status": "paused"})
    assert client("POST", path + "/pause") == (202, {"execution_id": execution_id, "status": "paused"}), "asked twice"
    for _ in range(2):
        assert client("POST", path + "/resume") == (202, {"execution_id": execution_id, "status": "waiting"})
    signal = {"execution_id": execution_id, "name": "answer", "data": {"yes": True}}
    assert client("POST", "/api/events", signal)[0] == 202
    assert client.local.run(execution_id, timeout_s=20)
    assert client("GET", path)[1]["result"] == {"yes": True}
    assert refusal(client("POST", path + "/cancel")) == (409, "conflict")


def test_cancel_ends_a_waiting_execution(client: Client) -> None:
    execution_id = client.start(playbook=WAITS)
    run_until_it_waits(client.local, execution_id)
    status, body = client("POST", f"/api/executions/{execution_id}/cancel", {"reason": "enough"})
    assert (status, body["status"]) == (202, "cancelled")
    assert client("GET", f"/api/executions/{execution_id}")[1]["status"] == "cancelled"


FRAGILE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fragile, path: test/fragile }
workflow:
  - step: start
    tool:
      - { name: first, kind: noop, result: 20 }
      - { name: divide, kind: noop, result: "{{ first // (ctx.by | default(0)) }}" }
    compensate: [{ name: undo, kind: noop }]
"""


def test_a_failed_execution_is_redriven_and_wrong_redrives_are_refused(client: Client) -> None:
    execution_id = client.start(playbook=FRAGILE)
    path = f"/api/executions/{execution_id}"
    assert client("POST", path + "/redrive")[0] == 409, "it runs"
    assert client.local.run(execution_id, timeout_s=20)
    status, body = client("POST", path + "/redrive", {"preview": True, "ctx": {"by": 4}})
    assert (status, body["status"], body["redrive"]["ctx"]) == (200, "failed", {"by": 4})
    assert body["redrive"]["again"][0]["tasks"] == ["divide"]
    assert refusal(client("POST", path + "/redrive", {"from": "strat"})) == (422, "redrive")
    assert refusal(client("POST", path + "/redrive", {"ctx": 4})) == (400, "malformed")
    assert refusal(client("POST", path + "/redrive", {"frm": "start"})) == (400, "malformed")
    status, body = client("POST", path + "/redrive", {"ctx": {"by": 4}})
    assert (status, body["status"]) == (202, "running")
    assert client.local.run(execution_id, timeout_s=20)
    summary = client("GET", path)[1]
    assert summary["result"] == 5
    since = summary["redrive"]
    assert since["duration_ms"] < summary["duration_ms"], "of the first run, and of what lay between, it says nothing"
    assert client("GET", f"{path}/changes")[1]["redrive"] == since
    assert client("GET", "/api/executions")[1]["executions"][0]["redrive"] == since
    other = FRAGILE.replace("test/fragile", "test/other")
    assert refusal(client("POST", path + "/redrive", {"from": "start", "playbook": other})) == (422, "redrive")
    fixed = FRAGILE.replace("first // (ctx.by | default(0))", "first * 2")
    assert client("POST", path + "/redrive", {"from": "start/divide", "playbook": fixed})[0] == 202
    assert client.local.run(execution_id, timeout_s=20)
    summary = client("GET", path)[1]
    assert (summary["result"], summary["playbook"]["version"], summary["steps"]["start"]["runs"]) == (40, 2, 3)


# --- refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("{", "not JSON"),
        ("[1]", "an object is expected"),
        ({"payload": {}}, "must name a playbook"),
        ({"playbook": HELLO, "paylod": {}}, "unknown key 'paylod'"),
        ({"playbook": HELLO, "payload": [1]}, "dict is expected"),
        ({"path": "x", "version": "1"}, "int is expected, or the name of an alias"),
        ({"path": "x", "version": True}, "int is expected"),
        ('{"path": "x", "payload": {"n": NaN}}', "not JSON"),
        ({"path": 7}, "str is expected"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_malformed_start_is_400(client: Client, body: Any, says: str) -> None:
    answer = client("POST", "/api/executions", body)
    assert refusal(answer) == (400, "malformed")
    assert says in answer[1]["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/executions/1", 404),
        ("GET", "/api/executions/1/events", 404),
        ("GET", "/api/executions/1/state", 404),
        ("POST", "/api/executions/1/cancel", 404),
        ("POST", "/api/executions/1/explode", 404),
        ("GET", "/api/vars/1", 404),
        ("GET", "/api/playbooks/none", 404),
        ("GET", "/api/playbooks/none/versions", 404),
        ("GET", "/api/nothing", 404),
        ("DELETE", "/api/executions", 404),
        ("POST", "/api/events", 400),
    ],
)
def test_unknown_playbooks_executions_and_routes_are_refused(client: Client, method: str, path: str, status: int) -> None:
    assert refusal(client(method, path))[0] == status


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/api/executions", {"limit": "0"}),
        ("/api/executions", {"limit": "1001"}),
        ("/api/executions", {"limit": "x"}),
        ("/api/executions", {"since": "yesterday"}),
        ("/api/executions", {"status": "sleeping"}),
        ("/api/playbooks/a", {"version": "-1"}),
    ],
)
def test_a_query_out_of_range_is_400(client: Client, path: str, query: dict[str, Any]) -> None:
    assert refusal(client("GET", path, **query)) == (400, "malformed")


def test_an_oversized_body_is_413(client: Client) -> None:
    assert refusal(client("POST", "/api/playbooks", "#" * (MAX_BODY + 1))) == (413, "too_large")


def test_bytes_that_are_no_text_are_400(client: Client) -> None:
    event = {
        "httpMethod": "POST",
        "path": "/api/playbooks",
        "headers": {},
        "requestContext": {},
        "body": b64encode(b"\xff\xfe").decode(),
        "isBase64Encoded": True,
    }
    answer = client.api.resolve(event, Context())
    assert answer["statusCode"] == 400


def test_a_service_that_does_not_answer_is_503(client: Client) -> None:
    client.local.control.store = failing_store(Unavailable("the table is throttled"))
    assert refusal(client("GET", "/api/executions/1")) == (503, "unavailable")


def test_a_bug_is_500_and_says_nothing_of_the_inside(client: Client) -> None:
    client.local.control.store = failing_store(RuntimeError("secret detail"))
    answer = client("GET", "/api/executions/1")
    assert refusal(answer) == (500, "internal")
    assert "secret detail" not in json.dumps(answer[1])


def test_a_parent_is_shown_and_must_be_there(client: Client) -> None:
    parent = client.run()
    child = client.run(parent={"execution_id": parent})
    assert client("GET", f"/api/executions/{child}")[1]["parent"] == {"execution_id": parent}
    assert refusal(client("POST", "/api/executions", {"playbook": HELLO, "parent": {"execution_id": "1"}})) == (404, "not_found")
    assert refusal(client("POST", "/api/executions", {"playbook": HELLO, "parent": {"run": "1"}})) == (400, "malformed")


def test_every_answer_of_the_services_own_fault_has_one_line_with_its_request_and_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without it the alarm on 5xx names nobody: the answer goes to the caller alone."""
    for error, status in ((Unavailable("put r/1: SlowDown"), 503), (KeyError("a bug"), 500)):
        caplog.clear()
        assert refusals.refusal(error, "req-7").status == status
        (line,) = caplog.records
        assert "req-7" in line.getMessage()
        assert line.exc_info if status == 500 else "SlowDown" in line.getMessage()
    caplog.clear()
    refusals.refusal(NotFound("no execution 7"), "req-8")
    assert not caplog.records
