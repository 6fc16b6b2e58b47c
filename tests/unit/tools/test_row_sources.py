"""Sources of rows, as `transfer` and COPY take them: lists of files, wherever the list itself is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.views.executions import executions
from tests.running import run_text

from .conftest import Run

ROWS = [{"id": n, "name": f"n{n}"} for n in range(95)]
COUNT = "SELECT count(*)::INT AS n, sum(id::INT)::INT AS sum FROM items"
COUNTED = [{"n": 95, "sum": sum(range(95))}]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_SCRATCH", str(tmp_path))


@pytest.mark.parametrize("kept", [False, True])
def test_files_of_several_formats_are_one_source(run: Run, store: LazyTempResultStore, kept: bool) -> None:
    """Also where the list of them is so long that it is a reference itself."""
    files: Any = [
        run("store", {"data": ROWS[24 * n : 24 * n + 24], "format": form}, task_run_id=form).result
        for n, form in enumerate(["csv", "parquet", "jsonl", "json"])
    ]
    if kept:
        with store.writer("1/results/files.json") as out:
            out.write(json.dumps(files).encode())
            files = {**out.finish(), "schema_hint": {"type": "list", "length": len(files)}}
    target = {"kind": "duckdb", "database": "d.db", "table": "items"}
    outcome = run("transfer", {"source": {"rows": files}, "target": target})
    assert outcome.error is None, outcome.error
    assert run("duckdb", {"database": "d.db", "command": COUNT}).result["rows"] == COUNTED


@pytest.mark.nightly
def test_files_that_a_loop_wrote_are_one_source() -> None:
    """With results that are kept in pages."""
    local, state = run_text(f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: demo, path: demo}}
executor: {{spec: {{policy: {{limits: {{max_payload_bytes: 256}}}}}}}}
workflow:
  - step: start
    loop: {{in: "{{{{ range(0, 95, 5) | list }}}}", iterator: first, spec: {{policy: {{exec: distributed, chunk_size: 4}}}}}}
    tool:
      - name: rows
        kind: python
        args: {{first: "{{{{ iter.first }}}}"}}
        code: 'result = [{{"id": n, "name": f"n{{n}}"}} for n in range(first, first + 5)]'
      - {{kind: store, data: "{{{{ rows }}}}", format: csv}}
    next: {{arcs: [{{step: load}}]}}
  - step: load
    tool:
      - kind: transfer
        source: {{rows: "{{{{ steps.start.result }}}}"}}
        target: {{kind: duckdb, database: d.db, table: items}}
      - {{kind: duckdb, database: d.db, command: "{COUNT}"}}
""")
    try:
        summary = executions.summary(local.control, state.execution_id)
    finally:
        local.close()
    assert summary["status"] == "completed" and summary["result"]["rows"] == COUNTED, summary
