"""Kinds of sources and targets of `kind: transfer`, as far as the text says them."""

from __future__ import annotations

import pytest

from noetl_core.dsl.parse import check, parse_playbook
from tests.unit.dsl.broken_playbooks import HEAD, flow

INTO = "{kind: postgres, auth: p, table: t}"


def moving(source: str, target: str = INTO) -> str:
    return flow(f"step: a\ntool: {{kind: transfer, source: {source}, target: {target}}}")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (moving("{kind: snowflke, query: q}"), "'snowflke' is not a kind of source (task \"a_task\")", 'did you mean "snowflake"?'),
        (moving("{kind: 5}"), "5 is not a kind of source (task \"a_task\")", "one of rows, postgres, duckdb, http, s3, snowflake"),
        (moving("{rows: []}", "{kind: snowflake, table: t}"), "'snowflake' is not a kind of target (task \"a_task\")", "one of postgres, duckdb, s3"),
    ],
)  # fmt: skip
def test_an_unknown_kind_is_reported_with_the_nearest_one(text: str, message: str, hint: str) -> None:
    assert [(d.code, d.message, d.hint) for d in check(text)[1] if d.severity == "error"] == [("E118", message, hint)]
    assert parse_playbook(text, programs=False).steps  # it was registered before this was checked


@pytest.mark.parametrize("source", ["{kind: '{{ workload.kind }}', query: q}", "{rows: '{{ workload.rows }}', format: csv}"])
def test_the_value_of_a_template_is_checked_at_run_time(source: str) -> None:
    assert not [d for d in check(moving(source))[1] if d.severity == "error"]


def test_kinds_beside_the_engine_are_sources_where_the_playbook_says_so() -> None:
    text = moving("{kind: herd, pasture: north}")
    assert check(text)[0] is None
    assert check(text.replace(HEAD, HEAD + "executor: {spec: {extensions: true}}\n"))[0] is not None
