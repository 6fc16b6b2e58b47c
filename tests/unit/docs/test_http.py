"""The further examples of the page of `http` run, against a service that has what they ask for."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.dsl.parse import check
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.credentials import Held
from tests.oauth_server import CLIENT, OAuthServer
from tests.servers import serving

PAGE = (Path(__file__).parents[3] / "docs/tools/http.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```\n", PAGE, re.DOTALL | re.MULTILINE)
BEFORE = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: http, path: docs/http }
workload: { api: "" }
workflow:
  - step: work
    tool:
"""


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with serving(OAuthServer()) as server:
        yield server


KEYS = {"data": {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "s3cret-access-key"}}
Run = Callable[[str], dict[str, Any]]


@pytest.fixture
def run(server: OAuthServer) -> Run:
    def run(word: str) -> dict[str, Any]:
        """The summary of the one example that has `word` in it."""
        (block,) = [block for block in BLOCKS if word in block]
        source = BEFORE + textwrap.indent(block, "      ")
        assert [str(d) for d in check(source)[1] if d.severity == "error"] == []
        secrets: Any = Held(
            {"orders": {"type": "oauth2", "data": {"token_url": server.base + "/token", **CLIENT}}, "search_keys": KEYS}
        )
        local = LocalWiring(secrets=secrets)
        try:
            started = local.start(StartRequest(playbook=source, payload={"api": server.base}))
            assert local.run(started.execution_id, timeout_s=60)
            return executions.summary(local.control, started.execution_id)
        finally:
            local.close()

    return run


def test_every_example_but_the_first_is_tried() -> None:
    assert len(BLOCKS) == 5


def test_a_grant(run: Run, server: OAuthServer) -> None:
    out = run("auth: orders  ")
    assert (out["status"], out["error"]) == ("completed", None)
    assert (len(server.token_requests), [path for path, _ in server.calls]) == (1, ["/orders"])


def test_retry_after(run: Run, server: OAuthServer) -> None:
    server.busy = 2
    out = run("retry_after")
    assert (out["status"], out["error"]) == ("completed", None)
    assert [path for path, _ in server.calls] == ["/busy"] * 3


def test_files(run: Run, server: OAuthServer) -> None:
    out = run("upload")
    assert (out["status"], out["error"]) == ("completed", None)
    (sent,) = server.uploads
    assert b"a,b\n1,2\n" in sent and f"of {out['execution_id']}".encode() in sent
    assert b'filename="fetch-' not in sent and b'filename="hello.bin"' in sent


def test_a_signature(run: Run, server: OAuthServer) -> None:
    out = run("search_keys")
    assert out["error"]["kind"] == "auth"  # this service wants a token
    assert server.calls[0][1].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-central-1/es/aws4_request" in server.calls[0][1]
