"""DuckDB's memory is less than its function's, whatever the parameter WorkerMemory is."""

from __future__ import annotations

import pytest

from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.duckdb.tool import DuckDBTool
from noetl_core.tools.invoke import invoke
from noetl_core.tools.rows.duckdb_memory import memory_limit
from tests.unit.infra.translated import source

MEMORY = source()["Parameters"]["WorkerMemory"]


def mib(limit: str) -> float:
    assert limit.endswith("MiB")
    return float(limit.removesuffix("MiB"))


@pytest.mark.parametrize("function", [MEMORY["MinValue"], 512, 1024])
def test_a_small_function_leaves_duckdb_less_than_it_has(monkeypatch: pytest.MonkeyPatch, function: int) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", str(function))
    assert mib(memory_limit("1GB")) == int(function * 3 / 4)


def test_the_usual_function_has_room_for_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", str(MEMORY["Default"]))
    assert memory_limit("1GB") == "1GB"
    assert memory_limit("1GB", "1.2 GiB") == "1.2 GiB"


def test_a_memory_limit_above_that_of_the_function_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1769")
    error = invoke(DuckDBTool(), ToolCall("duckdb", {"command": "SELECT 1"}, {"memory_limit": "4GB"}, "1")).error
    assert error is not None and error.kind == "schema"
    assert "1769 MiB leaves DuckDB 1326MiB" in error.message and "WorkerMemory" in error.message


def test_outside_lambda_the_author_sets_the_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", raising=False)
    assert memory_limit("1GB", "64GB") == "64GB"
    with pytest.raises(BadInput, match="like 512MB"):
        memory_limit("1GB", "much")


def test_duckdb_gets_the_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
    ask = {"command": "SELECT current_setting('memory_limit') AS most"}
    assert invoke(DuckDBTool(), ToolCall("duckdb", ask, {}, "1")).result["rows"] == [{"most": "192.0 MiB"}]
