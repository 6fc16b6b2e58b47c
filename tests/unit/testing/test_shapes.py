"""The errors that a kind may have, as tests of playbooks know them, are those of its tool; answers are filled in."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import noetl_core.tools
from noetl_core.dsl.kinds import KINDS
from noetl_core.engine.outcome import ERROR_KINDS
from noetl_core.testing.shapes import EVERY, NEVER, CannotHappen, completed
from noetl_core.tools.registry import BUILT_IN

TOOLS = Path(next(iter(noetl_core.tools.__path__)))


def mentioned(kind: str) -> set[str]:
    """Return the kinds of errors that the package of a tool, or its module, passes to `Outcome.failed`."""
    module = import_module(BUILT_IN[kind].partition(":")[0])
    assert module.__file__ is not None
    file = Path(module.__file__)
    files = file.parent.glob("*.py") if file.parent not in (TOOLS, TOOLS / "aws") else [file]
    found: set[str] = set()
    for each in files:
        for node in ast.walk(ast.parse(each.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("failed") and node.args:
                found |= {n.value for n in ast.walk(node.args[0]) if isinstance(n, ast.Constant) and n.value in ERROR_KINDS}
    return found


@pytest.mark.parametrize("kind", sorted(kind for kind in BUILT_IN if KINDS[kind].fails is not None))
def test_each_error_that_a_tool_has_can_be_scripted(kind: str) -> None:
    fails = KINDS[kind].fails
    assert fails is not None and fails.isdisjoint(NEVER | EVERY)
    assert mentioned(kind) - NEVER <= fails | EVERY


def test_a_response_is_filled_in() -> None:
    entry = completed("http", {"ok": {"data": 5, "headers": {"Link": "x"}}}, {"url": "http://a"}, {})
    assert entry["ok"] == {"status": 200, "headers": {"link": "x"}, "data": 5, "url": "http://a", "elapsed_ms": 0}
    assert entry["http"] == {"status": 200, "headers": {"link": "x"}}


def test_a_scripted_status_gives_the_error_of_the_tool() -> None:
    entry = completed("http", {"http": {"status": 429, "headers": {"Retry-After": "7"}}, "error": {}}, {}, {})
    assert entry["error"] == {
        "kind": "rate_limit", "message": "HTTP 429", "code": 429, "details": {"status": 429, "retry_after": "7"},
    }  # fmt: skip


@pytest.mark.parametrize("spec", [{"ok_statuses": [404]}, {"raise_for_status": False}])
def test_a_status_that_the_task_allows_is_no_error(spec: dict[str, Any]) -> None:
    assert completed("http", {"ok": {"status": 404}}, {}, spec)["ok"]["status"] == 404


def test_rows_have_columns_and_a_count() -> None:
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert completed("postgres", {"ok": {"rows": rows}}, {}, {})["ok"] == {"rows": rows, "columns": ["a", "b"], "row_count": 2}
    reference = {"kind": "result_ref", "store": "local", "key": "1/x", "size": 1, "checksum": "c", "format": "jsonl"}
    assert completed("duckdb", {"ok": reference}, {}, {})["ok"] == reference


def test_an_answer_of_a_model_fits_the_schema_of_its_task() -> None:
    inputs = {"schema": {"type": "object", "required": ["label"]}}
    assert completed("llm", {"ok": {"data": {"label": "x"}}}, inputs, {})
    with pytest.raises(CannotHappen, match="does not fit the schema of the task"):
        completed("llm", {"ok": {"data": {}}}, inputs, {})
