"""`noetl serve --port`: webhooks of the local store, over HTTP."""

from __future__ import annotations

import hmac
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from noetl_cli.backends.hook_server import HookServer, serving
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.control.catalog.registration import register
from noetl_core.control.triggers.hooks import MAX_BODY
from noetl_core.runtime.local import LocalWiring

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: build, path: ci/build}
executor: {spec: {triggers: [{webhook: {form: github, credential: hooks/github}}]}}
workflow: [{step: only, tool: {kind: noop}}]
"""
BODY = b'{"after": "82b3d5"}'
HEADERS = {
    "Content-Type": "application/json",
    "X-GitHub-Delivery": "g1",
    "X-Hub-Signature-256": "sha256=" + hmac.new(b"s3cret", BODY, "sha256").hexdigest(),
}


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalWiring]:
    wiring = LocalWiring(tmp_path / "runs.db", secrets=LocalSecrets(tmp_path / "credentials.json"))
    wiring.credentials.put("hooks/github", {"data": {"secret": "s3cret"}})
    register(wiring.control, PLAYBOOK)
    yield wiring
    wiring.close()


@pytest.fixture
def server(local: LocalWiring) -> Iterator[HookServer]:
    server = HookServer(local, local.credentials, 0)
    with serving(server):
        yield server


def ask(server: HookServer, path: str, body: bytes = BODY, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    try:
        connection.request("POST", path, body, HEADERS if headers is None else headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_a_signed_webhook_starts_one_execution_before_it_is_answered(local: LocalWiring, server: HookServer) -> None:
    for _ in range(2):
        status, told = ask(server, "/api/hooks/ci/build/webhook")
        assert status == 202
        assert local.control.load(told["execution_id"]).status == "running"
    assert len(local.control.index.heads()) == 1
    assert len(local.control.triggers.firings("ci/build", "webhook", 0, 10)) == 1
    assert local.run(told["execution_id"], timeout_s=30)


def test_a_sender_of_too_large_a_body_still_receives_413(local: LocalWiring, server: HookServer) -> None:
    with closing(socket.create_connection(("127.0.0.1", server.server_port), timeout=30)) as sender:
        sender.sendall(f"POST /api/hooks/ci/build/webhook HTTP/1.1\r\nContent-Length: {2 * MAX_BODY}\r\n\r\n".encode())
        sender.sendall(b"x" * 2 * MAX_BODY)
        assert sender.recv(100).startswith(b"HTTP/1.0 413")
    assert local.control.index.heads() == []


def test_a_sender_over_a_webhooks_rate_receives_the_time_to_retry(local: LocalWiring, server: HookServer) -> None:
    register(local.control, PLAYBOOK.replace("credential: hooks/github", "credential: hooks/github, rate: 0.01"))
    assert ask(server, "/api/hooks/ci/build/webhook")[0] == 202
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    with closing(connection):
        connection.request("POST", "/api/hooks/ci/build/webhook", BODY, {**HEADERS, "X-GitHub-Delivery": "g2"})
        answer = connection.getresponse()
        assert json.loads(answer.read())["error"]["code"] == "over_rate"
    assert answer.status == 429
    assert 90 < int(answer.headers["Retry-After"]) <= 100
    assert len(local.control.index.heads()) == 1


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD", "POST"])
def test_routes_other_than_webhooks_answer_404(server: HookServer, method: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, "/api/executions")
    answer = connection.getresponse()
    told = answer.read()
    connection.close()
    assert answer.status == 404
    assert method == "HEAD" or "`noetl console` read the local store" in json.loads(told)["error"]["message"]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/hooks/ci/build/webhook", {}, 401),
        ("/api/hooks/ci/build/other", HEADERS, 401),
        ("/api/hooks/", HEADERS, 401),
        ("/api/other", HEADERS, 404),
        ("/api/hooks/ci/build/webhook", {"Content-Length": "many"}, 411),
        ("/api/hooks/ci/build/webhook", {"Content-Length": str(MAX_BODY + 1)}, 413),
        ("/api/hooks/ci/build/webhook", {"Content-Length": "9" * 5_000}, 413),
        ("/api/hooks/ci/build/webhook", {"Content-Length": "0" * 5_000 + str(len(BODY))}, 401),
    ],
)
def test_an_unsigned_or_invalid_webhook_starts_nothing(
    local: LocalWiring, server: HookServer, path: str, headers: dict[str, str], status: int
) -> None:
    assert ask(server, path, headers=headers)[0] == status
    assert local.control.index.heads() == []
