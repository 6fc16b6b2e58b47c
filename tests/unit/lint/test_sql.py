"""SQL of tasks, wherever it is written: in the task, in a file beside the playbook, in the source of a transfer."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_core.dsl.parse import check
from noetl_core.dsl.steps.scripts import holding
from noetl_core.playbooks.script_files import with_scripts
from tests.unit.docs.language import completed

WRONG = "SELECT count(*) AS n\nFORM orders"


def findings(task: str, **scripts: str) -> list[str]:
    """Lint a playbook with one task, and with the texts of its script files."""
    source = holding(completed(f"- {task}\n"), {f"{name}.sql": text for name, text in scripts.items()})
    return [f"{d.line}:{d.col} {d.code} {d.message}" for d in check(source)[1] if d.severity == "warning"]


@pytest.mark.parametrize(("kind", "text"), [("duckdb", WRONG), ("postgres, auth: x", "SELECT 1;\nSELEC 2")])
def test_sql_in_a_script_file_is_parsed_and_its_line_named(kind: str, text: str) -> None:
    (found,) = findings(f"{{ name: count, kind: {kind}, script: count.sql }}", count=text)
    assert found.startswith("7:") and " W529 count.sql:2:1: this SQL does not parse" in found


def test_a_script_named_with_its_source_is_parsed_too() -> None:
    (found,) = findings("{ name: count, kind: duckdb, script: { uri: count.sql, source: file } }", count=WRONG)
    assert "W529 count.sql:2" in found


def test_a_script_parameter_missing_from_params_is_reported() -> None:
    (found,) = findings("{ name: count, kind: duckdb, script: count.sql, params: { m: 1 } }", count="SELECT $n AS n")
    assert "W530 count.sql: the SQL takes n, which params does not have" in found


def test_a_template_in_a_script_where_a_parameter_belongs_is_named() -> None:
    (found,) = findings(
        "{ name: count, kind: postgres, auth: x, script: count.sql }", count="SELECT 1 FROM t\nWHERE id = {{ workload.id }}"
    )
    assert "W531 count.sql:2:12: {{ workload.id }} becomes a part of the SQL" in found


def test_a_script_that_parses_gives_nothing() -> None:
    assert findings("{ name: count, kind: duckdb, script: count.sql, params: { n: 1 } }", count="SELECT $n AS n") == []


def test_a_script_that_is_fetched_when_the_task_runs_is_not_parsed() -> None:
    assert findings("{ name: count, kind: duckdb, script: s3://bucket/count.sql }") == []


def test_a_file_beside_the_playbook_is_read_as_noetl_validate_does(tmp_path: Path) -> None:
    (tmp_path / "count.sql").write_text(WRONG)
    source = with_scripts(completed("- { name: count, kind: duckdb, script: count.sql }\n"), tmp_path)
    assert [d.code for d in check(source)[1]] == ["W529"]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ('kind: duckdb, command: "SELECT 1 FORM t"', 'W529 this SQL does not parse: syntax error at or near "t"'),
        ("kind: postgres, auth: x, query: SELEC 1", 'W529 this SQL does not parse: "SELEC" begins no statement'),
        ('kind: postgres, auth: x, query: "SELECT %(most)s", params: { mots: 1 }', "W530 the SQL takes most"),
        ('kind: postgres, auth: x, query: "SELECT a FROM t WHERE id = {{ workload.id }}"', "W531 {{ workload.id }} becomes"),
        ("kind: snowflake, auth: x, query: SELEC 1", ""),
        ('kind: postgres, auth: x, query: "SELECT %(most)s", params: { most: 1 }', ""),
        ("kind: postgres, auth: x, table: orders", ""),
    ],
)
def test_sql_in_the_source_of_a_transfer_is_parsed(source: str, says: str) -> None:
    found = findings(
        "{ name: move, kind: transfer, source: { " + source + " }, target: { kind: s3, uri: 's3://bucket/out/', format: jsonl } }"
    )
    assert [says in one for one in found] == ([True] if says else []), found


def test_data_that_looks_like_a_task_is_not_parsed_as_sql() -> None:
    body = "{ kind: postgres, query: SELEC 1 }"
    assert findings(f"{{ name: send, kind: http, method: POST, url: 'https://api.example.org/', json: {body} }}") == []
