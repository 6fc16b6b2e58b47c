"""The tasks that the pages of tools show are valid and run: what leaves the machine is scripted, the rest is real."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from noetl_core.control.admit import StartRequest
from noetl_core.dsl.parse import check
from noetl_core.engine.outcome import Outcome
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_core.views.executions import executions
from tests.credentials import Held

PAGES = "".join(page.read_text() for page in sorted((Path(__file__).parents[3] / "docs/tools").glob("*.md")))
FOUND = re.findall(r"^```yaml\n(.*?)^```\n(\n```(?:json|text))?", PAGES, re.DOTALL | re.MULTILINE)
BLOCKS = {yaml.safe_load(block)[0]["kind"]: block for block, outcome in reversed(FOUND) if not outcome and block.startswith("- ")}
"""The first example of each kind. What is followed by its outcome is tried with the other pages, more of `http` in `test_http`."""
FLIGHTS = [
    {"carrier": "AA", "month": 7},
    {"carrier": "UA", "month": 7},
    {"carrier": "UA", "month": 7},
    {"carrier": "UA", "month": 8},
]
BEFORE = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: tools, path: docs/tools }
keychain: [{ name: billing_api, kind: bearer }, { name: pg_reports, kind: postgres }]
workload: { api: "https://api.example.org", pages: [], data: [] }
workflow:
  - step: fetch
    tool: { kind: noop, result: [{ pages: "{{ workload.pages }}" }] }
    next: { arcs: [{ step: work }] }
  - step: work
    tool:
      - { name: fetch, kind: noop, result: { data: "{{ workload.data }}" } }
"""


class Scripted:
    """Answers what it was asked."""

    inline = True

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def run(self, call: ToolCall) -> Outcome:
        return Outcome.ok({"inputs": dict(call.inputs), "spec": dict(call.spec)})


def result(kind: str, payload: Mapping[str, Any]) -> Any:
    source = BEFORE + textwrap.indent(BLOCKS[kind], "      ").replace("- name: fetch\n", "- name: post\n")
    assert [str(d) for d in check(source)[1] if d.severity == "error"] == []
    secrets: Any = Held({name: {"token": f"t0ken-of-{name}"} for name in ("billing_api", "pg_reports")})
    local = LocalWiring(secrets=secrets, tools=ToolRegistry({k: Scripted(k) for k in ("http", "postgres")}))
    try:
        started = local.start(StartRequest(playbook=source, payload=payload))
        assert local.run(started.execution_id, timeout_s=30)
        out = executions.summary(local.control, started.execution_id)
        assert out["error"] is None
        return out["result"]
    finally:
        local.close()


def test_every_example_is_tried() -> None:
    remedy = "write the outcome behind the first example of a kind (```json), or add a test of the example here"
    assert set(BLOCKS) == {"http", "python", "duckdb", "postgres"}, remedy


def test_http() -> None:
    asked = result("http", {})
    assert asked["inputs"]["url"] == "https://api.example.org/orders"
    assert asked["inputs"]["json"] == {"id": 5}
    assert asked["spec"]["timeout"] == {"connect": 5, "read": 30, "total": 60}


def test_python() -> None:
    assert result("python", {"data": [{"n": 3}, {"n": 2}, {"n": 1}]}) == [{"n": 2}, {"n": 3}]


def test_duckdb() -> None:
    found = result("duckdb", {"pages": FLIGHTS})
    assert found["rows"] == [{"carrier": "UA", "n": 2}, {"carrier": "AA", "n": 1}]


def test_postgres() -> None:
    asked = result("postgres", {"data": [1]})
    assert asked["inputs"]["params"] == {"id": 5, "body": [1]}
