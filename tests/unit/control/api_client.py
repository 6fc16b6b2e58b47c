"""Requests to the API of a control plane in this process."""

from __future__ import annotations

import json
import uuid
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any
from unittest.mock import Mock

import pytest

from noetl_core.control.core import Control
from noetl_core.ports import EventStore
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import api_of
from noetl_core.values.instants import SECOND
from tests.api_requests import Answer, Context, check


def failing_store(error: Exception) -> Any:
    """A store of events whose methods raise `error`."""
    methods = ("append", "read", "last", "load_snapshot", "save_snapshot")
    return Mock(spec=EventStore, **{f"{name}.side_effect": error for name in methods})


def hurry(control: Control, seconds: float) -> None:
    """Let so many seconds pass each time that the control plane looks at its clock."""
    step = round(seconds * SECOND)
    control.clock = Mock(wraps=control.clock, now=count(control.clock.now() + step, step).__next__)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("API_AUTH", "NONE")
    local = LocalWiring()
    yield Client(local)
    local.close()


HELLO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hello, path: test/hello }
workload: { name: world }
workflow:
  - step: start
    tool: { kind: noop, result: "Hello, {{ workload.name }}!" }
"""

WAITS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waits, path: test/waits }
workflow:
  - step: ask
    tool: { kind: callback, signal: answer }
"""

ASK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: ask, path: test/ask }
workflow:
  - step: ask
    tool:
      kind: callback
      description: Ship it?
      heartbeat: 1h
      schema: { type: object, required: [ok], properties: { ok: { type: boolean } } }
"""


@dataclass
class Client:
    """Requests as API Gateway sends them."""

    local: LocalWiring

    def __post_init__(self) -> None:
        self.api = api_of(lambda: self.local.control)

    def __call__(
        self,
        method: str,
        path: str,
        /,
        body: Any = None,
        headers: dict[str, str] | None = None,
        encoded: bool = False,
        **query: str,
    ) -> tuple[int, Any]:
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        event = {
            "httpMethod": method,
            "path": path,
            "resource": "/api/{proxy+}",
            "headers": {"Content-Type": "application/json", **(headers or {})},
            "multiValueHeaders": {},
            "queryStringParameters": query or None,
            "multiValueQueryStringParameters": {k: [v] for k, v in query.items()} or None,
            "pathParameters": {"proxy": path.removeprefix("/api/")},
            "requestContext": {"requestId": str(uuid.uuid4()), "stage": "v1", "httpMethod": method, "path": "/v1" + path},
            "body": b64encode(text.encode()).decode() if encoded and text is not None else text,
            "isBase64Encoded": encoded,
        }
        answer = self.api.resolve(event, Context())
        assert answer["multiValueHeaders"]["Content-Type"] == ["application/json"]
        check(self.api.route(event), Answer(answer["statusCode"], answer["multiValueHeaders"], answer["body"]))
        return answer["statusCode"], json.loads(answer["body"])

    def start(self, **body: Any) -> str:
        status, answer = self("POST", "/api/executions", {"playbook": HELLO, **body})
        assert status == 202, answer
        return str(answer["execution_id"])

    def run(self, **body: Any) -> str:
        execution_id = self.start(**body)
        assert self.local.run(execution_id, timeout_s=20)
        return execution_id


def refusal(answer: tuple[int, Any]) -> tuple[int, str]:
    """Status and code of a refusal, whose body is as the contract says."""
    status, body = answer
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "details", "request_id"}
    assert body["error"]["request_id"] == "req-1"
    assert "Traceback" not in json.dumps(body)
    for detail in body["error"]["details"]:
        assert {"loc", "message", "hint"} <= set(detail)
    return status, body["error"]["code"]
