"""`kind: duckdb`: SQL over stored pages, closed to the world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.duckdb.tool import DuckDBTool
from noetl_core.tools.invoke import invoke
from tests.properties import examples

from .conftest import Run, kind


def test_rows_columns_and_count(run: Run) -> None:
    command = "SELECT 1 AS a, 2.50::DECIMAL(10,2) AS b, DATE '2020-01-02' AS c, [1, NULL] AS d, {'x': 1} AS e, 'nan'::FLOAT AS f, 'ab'::BLOB AS g"
    outcome = run("duckdb", {"command": command})
    row = {"a": 1, "b": 2.5, "c": "2020-01-02", "d": [1, None], "e": {"x": 1}, "f": None, "g": {"base64": "YWI="}}
    assert outcome.result == {"rows": [row], "columns": list("abcdefg"), "row_count": 1}
    json.dumps(outcome.result, allow_nan=False)


def test_a_repeated_column_name_is_numbered(run: Run) -> None:
    assert run("duckdb", {"command": "SELECT 1 AS a, 2 AS a, 3 AS a_2"}).result["columns"] == ["a", "a_2", "a_2_2"]


@pytest.mark.parametrize("name", ["command", "query", "sql"])
def test_other_names_for_the_command(run: Run, name: str) -> None:
    assert run("duckdb", {name: "SELECT 5 AS n"}).result["rows"] == [{"n": 5}]


def test_several_statements_give_the_last_ones_rows(run: Run) -> None:
    commands = ["CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)", "SELECT sum(a) AS s FROM t", "INSERT INTO t VALUES (3)"]
    assert run("duckdb", {"commands": commands}).result["rows"] == [{"s": 3}]
    assert run("duckdb", {"commands": commands[:1]}).result == {"rows": [], "columns": [], "row_count": 2}


def test_parameters_are_bound_never_spliced(run: Run) -> None:
    evil = "'; DROP TABLE t; --"
    outcome = run(
        "duckdb", {"command": ["CREATE TABLE t (a TEXT)", "INSERT INTO t VALUES ($v)", "SELECT a FROM t"], "params": {"v": evil}}
    )
    assert outcome.result["rows"] == [{"a": evil}]
    assert run("duckdb", {"command": "SELECT ? AS a, ?::INT AS b", "params": [evil, 2]}).result["rows"] == [{"a": evil, "b": 2}]
    assert run("duckdb", {"command": "SELECT len($l::INT[]) AS n", "args": {"l": [1, 2]}}).result["rows"] == [{"n": 2}]


@given(st.text(max_size=40).filter(lambda s: "\x00" not in s))
@examples(25)
def test_any_text_goes_through_a_parameter_unchanged(text: str) -> None:
    outcome = DuckDBTool().run(ToolCall("duckdb", {"command": "SELECT $v AS v", "params": {"v": text}}))
    assert outcome.result["rows"] == [{"v": text}]


@pytest.mark.parametrize(
    "inputs",
    [
        {"command": "SELECT $v", "params": {}},
        {"command": "SELECT 1", "params": {"misspelt": 1}},
        {"command": ["SELECT ?", "SELECT ?"], "params": [1]},
        {"command": ""},
        {"command": 5},
        {"command": "SELECT 1", "params": "x"},
        {"command": "SELECT 1", "database": "../x.db"},
        {"command": "SELECT 1", "database": "/etc/passwd"},
        {"command": "SELECT 1", "sources": {"a b": [{"x": 1}]}},
        {"command": "SELECT 1", "sources": {"a": None}},
        {"command": "SELECT 1", "sources": {"a": "/etc/passwd"}},
        {"command": "SELECT 1", "sources": {"a": [{"x": 1}, 2]}},
    ],
)
def test_wrong_inputs_are_refused(run: Run, inputs: dict[str, Any]) -> None:
    assert kind(run("duckdb", inputs)) == "schema"


@pytest.mark.one_in(5)
@pytest.mark.parametrize("source", [[], [[]], [[], []], "stored", "several"])
def test_a_source_without_rows_is_a_table_without_rows(run: Run, source: Any) -> None:
    if isinstance(source, str):
        refs = [run("store", {"data": [], "format": form}, task_run_id=form).result for form in ("json", "jsonl")]
        source = refs[0] if source == "stored" else refs[:1] * 2
    sources = {"t": source, "other": [{"id": 1}]}
    named = (
        "SELECT id, sum(n) AS n FROM (FROM t UNION ALL BY NAME SELECT NULL::BIGINT AS id, NULL::INT AS n WHERE false) GROUP BY id"
    )
    for command, rows in (
        ("SELECT (SELECT count(*) FROM t)::INT AS n, id FROM other", [{"n": 0, "id": 1}]),
        (named, []),
        ("FROM t", []),
    ):
        outcome = run("duckdb", {"sources": sources, "command": command})
        assert outcome.error is None and outcome.result["rows"] == rows, outcome.error
    for command in ("SELECT id FROM t", "SELECT t.id FROM t", "SELECT * FROM t JOIN other USING (id)"):
        refused = run("duckdb", {"sources": sources, "command": command}).error
        assert refused is not None and refused.kind == "schema" and "t: no rows, and so no columns" in refused.message


@pytest.mark.one_in(4)
@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "parquet"])
def test_many_stored_pages_are_one_table(run: Run, form: str) -> None:
    refs = [
        run(
            "store",
            {"data": [{"id": page * 10 + n, "name": f"ü{n}", "late": None} for n in range(10)], "format": form},
            task_run_id=f"p{page}",
        ).result
        for page in range(40)
    ]
    outcome = run(
        "duckdb", {"sources": {"pages": refs}, "command": "SELECT count(*) AS n, sum(id)::BIGINT AS s, max(name) AS m FROM pages"}
    )
    assert outcome.result["rows"] == [{"n": 400, "s": sum(range(400)), "m": "ü9"}]


def test_types_are_taken_from_every_row(run: Run) -> None:
    refs = [
        run("store", {"data": rows}, task_run_id=f"p{n}").result
        for n, rows in enumerate([[{"a": 1}] * 30_000, [], [{"a": 1.5, "late": "x"}]])
    ]
    outcome = run("duckdb", {"sources": {"t": refs}, "command": "SELECT max(a) AS a, max(late) AS late FROM t"})
    assert outcome.result["rows"] == [{"a": 1.5, "late": "x"}]


def test_rows_and_a_single_reference_are_sources_too(run: Run) -> None:
    ref = run("store", {"data": [{"id": 1}, {"id": 2}]}).result
    command = "SELECT name FROM named JOIN ids USING (id)"
    outcome = run("duckdb", {"sources": {"named": [{"id": 2, "name": "it's \u2028"}], "ids": ref}, "command": command})
    assert outcome.result["rows"] == [{"name": "it's \u2028"}]


def test_objects_that_are_not_local_are_fetched(run: Run) -> None:
    class Remote(LazyTempResultStore):
        def url(self, key: str) -> str:
            return f"s3://bucket/{key}"

    remote = Remote()
    for form in ("json", "parquet"):
        refs = [run("store", {"data": [{"id": n}], "format": form}, task_run_id=f"r{n}", results=remote).result for n in range(3)]
        outcome = run("duckdb", {"sources": {"t": refs}, "command": "SELECT count(*) AS n FROM t"}, results=remote)
        assert outcome.result["rows"] == [{"n": 3}]


def test_a_missing_object_is_not_found(run: Run) -> None:
    ref = {"kind": "result_ref", "store": "s3", "key": "1/gone.json"}
    assert kind(run("duckdb", {"sources": {"t": ref}, "command": "SELECT 1"})) == "not_found"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "command",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/noetl-out.csv'",
        "ATTACH '/tmp/noetl-other.db'",
        "EXPORT DATABASE '/tmp/noetl-export'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '/tmp/evil.duckdb_extension'",
        "SELECT * FROM 'http://169.254.169.254/latest/meta-data'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "RESET enable_external_access",
        "PRAGMA enable_external_access = true",
        "SET memory_limit = '100GB'",
        "SELECT * FROM registry",  # no Python variable of the process is a table
        "SELECT * FROM call",
    ],
)
def test_files_extensions_network_and_settings_are_out_of_reach(run: Run, command: str) -> None:
    outcome = run("duckdb", {"command": command})
    assert kind(outcome) in ("auth", "schema", "storage")
    assert not Path("/tmp/noetl-out.csv").exists() and not Path("/tmp/noetl-other.db").exists()


def test_a_file_in_sql_or_as_a_source_says_how_files_come_in(run: Run) -> None:
    closed = run("duckdb", {"command": "SELECT * FROM read_csv('data.csv')"}).error
    assert closed is not None and "`sources` gives it rows, references and s3://" in closed.message
    path = run("duckdb", {"command": "SELECT 1", "sources": {"a": "data.csv"}}).error
    assert path is not None and path.message.endswith("text must be the address of files in S3: s3://bucket/*.csv")


@pytest.mark.parametrize(
    ("command", "expected"),
    [("SELEC", "parse"), ("SELECT * FROM nowhere", "schema"), ("SELECT 'x'::INT", "schema"),
     ("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (1)", "db_constraint")],
)  # fmt: skip
def test_errors_have_their_kinds(run: Run, command: str, expected: str) -> None:
    outcome = run("duckdb", {"command": command})
    assert kind(outcome) == expected and outcome.error and outcome.helpers["duckdb"]["exception_type"] == outcome.error.code


def test_a_runaway_query_ends_with_the_time(run: Run) -> None:
    outcome = run("duckdb", {"command": "SELECT 1;\nSELECT count(*)\nFROM range(10000000000) a, range(100000) b"}, timeout_s=0.5)
    assert kind(outcome) == "db_timeout" and outcome.error is not None
    assert outcome.error.message == "duckdb: stopped at its timeout of 0.5 s in: SELECT count(*)…"


def test_memory_and_rows_are_limited(run: Run) -> None:
    assert kind(run("duckdb", {"command": "SELECT list(range) FROM range(1000000000)"}, spec={"memory_limit": "64MB"})) == "limit"
    assert kind(run("duckdb", {"command": "SELECT * FROM range(101)"}, spec={"max_rows": 100})) == "limit"
    assert run("duckdb", {"command": "SELECT * FROM range(100)"}, spec={"max_rows": 100}).result["row_count"] == 100


def test_a_database_file_stays_within_the_executions_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_SCRATCH", str(tmp_path))

    def run(execution: str, command: str) -> Outcome:
        return invoke(DuckDBTool(), ToolCall("duckdb", {"command": command, "database": "my.db"}, execution_id=execution))

    assert kind(run("1", "CREATE TABLE t AS SELECT 1 AS a")) == "ok"
    assert run("1", "SELECT * FROM t").result["rows"] == [{"a": 1}]
    assert kind(run("2", "SELECT * FROM t")) == "schema"
    assert (tmp_path / "1" / "my.db").exists()
