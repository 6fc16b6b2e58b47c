"""The reading side on the stack: every view over HTTP, decisions again, credentials apart, hostile requests at the gateway."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from noetl_infra.stack import Stack
from tests.e2e.support import Api, aws

SOURCE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: looking, path: tests/looking }
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import sys
        print("x" * 9000)
        print("err", file=sys.stderr)
        result = list(range(5000))
    next: { arcs: [{ step: loop, when: "{{ event.result[4999] == 4999 }}" }] }
  - step: loop
    loop: { in: [1, 2, 3], iterator: i, spec: { mode: parallel } }
    tool: { kind: noop, result: "{{ iter.i }}" }
"""


@pytest.fixture(scope="module")
def ran(api: Api) -> str:
    summary = api.run(SOURCE)
    assert summary["status"] == "completed", summary
    return str(summary["execution_id"])


def text(api: Api, path: str) -> tuple[str, str]:
    with urllib.request.urlopen(api.url + path, timeout=60) as answer:
        return str(answer.headers["Content-Type"]), answer.read().decode()


def test_every_view_of_an_execution(api: Api, ran: str) -> None:
    def get(what: str) -> dict[str, Any]:
        status, answer = api.call("GET", f"/api/executions/{ran}/{what}")
        assert status == 200, answer
        return dict(answer)

    assert get("replay")["differences"] == []
    assert {s["kind"] for s in get("timeline")["spans"]} >= {"run", "attempt", "task", "iteration"}
    assert [n["status"] for n in get("graph")["nodes"]] == ["ok", "ok"]
    cost = get("cost")
    assert cost["steps"]["start"]["units"]["s3_puts"] == 2  # the result and the log
    assert 0 < cost["total"]["cost"] < 0.001
    (entry,) = get("logs")["logs"]
    assert (len(entry["stdout"]), entry["stderr"]) == (4096, "err")
    assert get("logs?full=true")["logs"][0]["stdout"] == "x" * 9000
    events = get("events?limit=5")
    assert events["more"]
    rest = get(f"events?after={events['cursor']}")
    assert len(events["events"]) + len(rest["events"]) == api.summary(ran)["events"]
    last = events["events"][-1]["event_id"]
    assert get(f"state?at={last}")["execution_id"] == ran
    for form, begins in (("mermaid", "flowchart TD"), ("svg", "<svg")):
        assert text(api, f"/api/executions/{ran}/graph?format={form}")[1].startswith(begins)
    rendered = api.call("POST", "/api/context/render", {"execution_id": ran, "template": "{{ steps.start.result | length }}"})
    assert rendered == (200, {"value": 5000})


def test_a_replay_with_another_playbook_shows_its_differences(api: Api, ran: str) -> None:
    other = SOURCE.replace("== 4999", "== 1")
    status, answer = api.call("POST", f"/api/executions/{ran}/replay", {"playbook": other})
    assert (status, len(answer["differences"])) == (200, 1)


def test_the_service_describes_its_wiring_pools_queues_and_api(api: Api) -> None:
    assert api.call("GET", "/api/health")[1]["wiring"]["name"] == "aws"
    assert set(api.call("GET", "/api/runtime")[1]["pools"]) == {"default", "python"}
    queue = api.call("GET", "/api/queue")[1]
    assert set(queue["pools"]) == {"default", "python"}
    assert set(queue["dead_letters"]) == {"commands", "control", "inbox"}
    assert text(api, "/api/docs")[0].startswith("text/html")
    assert "/api/credentials/{name}" in api.call("GET", "/api/openapi.json")[1]["paths"]


def test_credentials_are_managed_by_the_api_without_showing_their_values(api: Api, stack: Stack) -> None:
    body: dict[str, object] = {"name": "looking/pg", "type": "postgres", "data": {"user": "u", "password": "s3cret-value"}}
    assert api.call("POST", "/api/credentials", body)[1]["error"]["code"] == "paths_missing"
    body["paths"] = ["*"]
    status, answer = api.call("POST", "/api/credentials", body)
    assert (status, answer["fields"]) == (201, ["password", "user"])
    assert "looking/pg" in [c["name"] for c in api.call("GET", "/api/credentials")[1]["credentials"]]
    assert "s3cret-value" not in json.dumps(api.call("GET", "/api/credentials/looking/pg"))
    assert api.call("GET", "/api/credentials/looking/pg?include_data=true")[0] == 403
    assert api.call("DELETE", "/api/credentials/looking/pg")[0] == 200
    assert api.call("GET", "/api/credentials/looking/pg")[0] == 404
    functions = aws(stack, "lambda")
    admit = functions.get_function_configuration(FunctionName=stack.outputs["AdmitFunctionName"])
    assert "SECRETS_PREFIX" in admit["Environment"]["Variables"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/executions?limit=0", None, 400),
        ("GET", "/api/executions?cursor=%2e%2e%2f", None, 400),
        ("GET", "/api/executions/1/events", None, 404),
        ("GET", "/api/executions/%2e%2e/events", None, 404),
        ("GET", "/api/credentials/%2e%2e%2fx", None, 404),
        ("POST", "/api/executions", '{"path": "x", "payload": {"n": NaN}}', 400),
        ("POST", "/api/executions", "[" * 100_000, 400),
        ("POST", "/api/callbacks/forged", "{}", 403),
        ("GET", "/api/nothing", None, 404),
    ],
)
def test_hostile_requests_reach_their_status(api: Api, method: str, path: str, body: str | None, status: int) -> None:
    found, answer = api.call(method, path, body)
    assert found == status, answer
    assert set(answer["error"]) == {"code", "message", "details", "request_id"}


def test_a_cursor_that_was_changed_is_refused(api: Api, ran: str) -> None:
    cursor = api.call("GET", f"/api/executions/{ran}/events?limit=2")[1]["cursor"]
    changed = cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB")
    assert api.call("GET", f"/api/executions/{ran}/events?after={changed}")[0] == 400
    try:
        urllib.request.urlopen(f"{api.url}/api/executions/{ran}/events?after={'x' * 3000}", timeout=60).close()
    except urllib.error.HTTPError as refused:
        with refused:
            assert refused.code == 400
