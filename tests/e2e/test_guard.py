"""The embedded stack as a browser's pages and foreign names meet it: not at all."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import httpx
import pytest

from noetl_infra.stack import Stack
from tests.e2e.support import Api

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: page, path: tests/page }
workflow: [{ step: run, tool: { kind: python, code: "result = 1" } }]
"""


@pytest.fixture
def body() -> str:
    return json.dumps({"playbook": PLAYBOOK})


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Content-Type": "text/plain"},
        {"Origin": "null", "Content-Type": "text/plain"},
        {"Sec-Fetch-Site": "cross-site", "Content-Type": "application/x-www-form-urlencoded"},
        {"Host": "rebound.example:4566"},
    ],
    ids=str,
)
def test_pages_of_other_origins_can_neither_start_nor_read(stack: Stack, api: Api, body: str, headers: dict[str, str]) -> None:
    if stack.pid is None:
        pytest.skip("another endpoint is guarded by whoever runs it")
    assert httpx.post(stack.api_url + "/api/executions", content=body, headers=headers).status_code == 403
    root = "{0.scheme}://{0.netloc}".format(urlsplit(stack.api_url))
    for path in ("/", "/?Action=ListQueues", "/_ministack/health"):
        answer = httpx.get(root + path, headers=headers)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    assert api.executions("tests/page") == []


def test_programs_without_an_origin_may_start_executions(stack: Stack, body: str) -> None:
    assert (
        httpx.post(stack.api_url + "/api/executions", content=body, headers={"Content-Type": "application/json"}).status_code
        == 202
    )
