"""Runs the examples in the pages of the kinds for data, against a real PostgreSQL, and compares their outputs."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.control.admit import StartRequest
from noetl_core.dsl.parse import check
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.aws.clients import client
from noetl_core.tools.store import encode
from noetl_core.views.executions import executions
from tests.databases import postgres
from tests.unit.tools.aws_playbooks import mocked

TOOLS = Path(__file__).parents[3] / "docs/tools"
FOUND = {
    f"{page}-{number}": found
    for page in ("postgres", "duckdb", "transfer")
    for number, found in enumerate(
        re.findall(
            r"^```yaml\n(.*?)^```\n(?:\n```json\n(.*?)^```)?", (TOOLS / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE
        )
    )
}
BEFORE = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: data, path: docs/data }
keychain: [{ name: pg_reports, kind: postgres }]
workload: {}
workflow:
  - step: fetch
    tool: { kind: noop, result: [{ pages: [{ carrier: AA, month: 7 }, { carrier: UA, month: 7 }] }] }
    next: { arcs: [{ step: work }] }
  - step: work
    tool:
      - name: fetch
        kind: noop
        result: { data: 1, rows: [{ nr: 1, text: a, more: x }, { nr: 2, text: b }, { nr: 1, text: c }] }
"""
HEAD = BEFORE.partition("  - step:")[0]
ROWS = [("1", "old")]


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with postgres() as found:
        yield found


@pytest.fixture
def pages(uri: str) -> Iterator[str]:
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE TABLE pages (id INT PRIMARY KEY, body TEXT)")
        connection.execute("INSERT INTO pages VALUES (1, 'one'), (2, 'two'), (500, 'more')")
        yield uri
        connection.execute("DROP TABLE pages")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", FOUND)
def test_each_example_of_a_page_gives_the_result_shown(
    name: str, pages: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", "1")
    secrets = LocalSecrets(tmp_path / "credentials.json")
    secrets.put("pg_reports", {"type": "postgres", "data": {"dsn": pages}})
    task, expected = FOUND[name]
    source = HEAD + textwrap.indent(task, "  ") if task.startswith("- step:") else BEFORE + textwrap.indent(task, "      ")
    assert [str(d) for d in check(source)[1] if d.severity == "error"] == []
    local = LocalWiring(secrets=secrets)
    with mocked(), closing(local):
        client("s3").create_bucket(Bucket="reports")
        body = encode([{"carrier": "AA"}], "parquet")
        client("s3").put_object(Bucket="reports", Key="flights/1.parquet", Body=body)
        started = local.start(StartRequest(playbook=source))
        assert local.run(started.execution_id, timeout_s=60)
        out: Any = executions.summary(local.control, started.execution_id)
        assert out["error"] is None
        if expected:
            assert out["result"] == json.loads(expected)
