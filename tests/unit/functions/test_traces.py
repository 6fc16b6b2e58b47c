"""Traces and metrics of a function: that it ran, how long, and on which route; never payloads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Handler, serving, url_of

ROOT = Path(__file__).parents[3]
CANARY = "canary-4f1d0b6a2c"
TOKEN = f"7.r{CANARY}.k.0.sig"
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: calls, path: docs/calls }
keychain: [{ name: billing, kind: credential }]
workload: { api: "" }
workflow:
  - step: call
    tool:
      - name: ask
        kind: http
        url: "{{ workload.api }}/{{ keychain.billing.token }}"
        params: { key: "{{ keychain.billing.token }}" }
        headers: { Authorization: "Bearer {{ keychain.billing.token }}" }
"""


class Service(Handler):
    """Keeps the headers of requests, and says back what it was told."""

    seen: list[dict[str, str]]

    def do_GET(self) -> None:
        self.seen.append({k.lower(): v for k, v in self.headers.items()})
        self.say(200, json.dumps({"you said": self.path}).encode(), Content_Type="application/json", X_Said=self.path)


@pytest.fixture
def service() -> Iterator[str]:
    Service.seen = []
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Service)) as server:
        yield url_of(server)


def invoked(function: str, events: list[Any], **environment: str) -> tuple[dict[str, Any], str]:
    """Return the traffic that left the function, and its log with its metrics."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.unit.functions.traced", function],
        input=json.dumps(events),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    *told, left = ran.stdout.splitlines()
    return json.loads(left), "\n".join([*told, ran.stderr])


def _parts(segment: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A segment and its subsegments."""
    yield segment
    for part in segment.get("subsegments", ()):
        yield from _parts(part)


def request(method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
    context = {"requestId": "gateway-1", "resourcePath": "/api/{proxy+}", "identity": {}}
    text = None if body is None else json.dumps(body)
    return {"httpMethod": method, "path": path, "requestContext": context, "headers": {}, "body": text, **more}


@pytest.mark.nightly
def test_the_api_leaves_neither_tokens_nor_payloads_nor_answers_in_traces_or_logs() -> None:
    source = f'{{"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {{"name": "x", "path": "x"}}, "workload": {{"k": "{CANARY}"}}, "workflow": [{{"step": "s", "tool": {{"kind": "noop"}}}}]}}'
    events = [
        request("POST", f"/api/callbacks/{TOKEN}", {"data": CANARY}),
        request("POST", "/api/callbacks", {"token": TOKEN, "data": CANARY}),
        request("POST", "/api/callbacks", {"data": CANARY}, headers={"Noetl-Callback-Token": TOKEN}),
        request("POST", "/api/executions", {"playbook": source, "payload": {"k": CANARY}}),
        {**request("POST", "/api/playbooks"), "body": source},
        request("GET", "/api/playbooks/x"),
        request("GET", f"/api/nothing/{CANARY}"),
    ]
    left, logged = invoked("admit", events)
    assert [a["statusCode"] for a in left["answers"]] == [403, 403, 403, 202, 201, 200, 404]
    assert CANARY in left["answers"][5]["body"]  # the caller is told; nobody else
    assert left["patched"] == ["botocore"]
    assert any("handler" in s for s in left["segments"])
    assert CANARY not in "".join(left["segments"])
    assert CANARY not in logged
    assert "/api/callbacks/{token}" in logged and "/api/playbooks/{path+}" in logged  # the route's pattern is what is told


@pytest.mark.nightly
def test_credentials_leave_nothing_of_themselves_in_traces_or_logs() -> None:
    body = {"name": "billing", "data": {"token": CANARY}, "paths": ["*"]}
    show = request("GET", "/api/credentials/billing", queryStringParameters={"include_data": "true"})
    left, logged = invoked("credentials", [request("POST", "/api/credentials", body), show])
    assert [a["statusCode"] for a in left["answers"]] == [201, 403]
    assert left["patched"] == ["botocore"]
    assert CANARY not in "".join(left["segments"])
    assert CANARY not in logged


def test_a_workers_calls_leave_no_secret_in_traces_or_logs_and_no_trace_header_at_third_parties(
    service: str,
) -> None:
    payload = json.dumps({"api": service})
    held = json.dumps({"billing": {"data": {"token": CANARY}, "paths": ["*"]}})
    left, logged = invoked("worker", [{"message": True}], PLAYBOOK=PLAYBOOK, PAYLOAD=payload, CREDENTIALS=held)
    assert left["answers"] == [{"batchItemFailures": []}]
    (headers,) = Service.seen
    assert headers["authorization"] == f"Bearer {CANARY}"  # it was there
    assert "x-amzn-trace-id" not in headers
    assert left["patched"] == ["botocore"]
    traced = [part["aws"] for segment in left["segments"] for part in _parts(json.loads(segment)) if part["name"] == "dynamodb"]
    puts = [aws for aws in traced if aws["operation"] == "PutItem" and aws["table_name"].startswith("EventsTable")]
    assert puts and all(aws["region"] == "us-east-1" for aws in puts)
    assert CANARY not in "".join(left["segments"])
    assert CANARY not in logged
