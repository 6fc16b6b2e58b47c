"""Views: what templates read in results beside their fields. A field goes first, and nothing is hidden."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.expr import Scope, Secret, render, truthy

RESPONSE = {"status": 201, "headers": {"etag": "x"}, "data": {"id": 5}, "url": "https://example.org", "elapsed_ms": 12}
TABLE: dict[str, Any] = {"rows": [{"id": 1, "n": 10}, {"id": 2, "n": 20}], "columns": ["id", "n"], "row_count": 2}
EMPTY: dict[str, Any] = {"rows": [], "columns": [], "row_count": 3}
SEVERAL: dict[str, Any] = {**TABLE, "commands": [EMPTY, None, {"rows": [{"x": 1}], "columns": ["x"], "row_count": 1}]}
NAMES = {"fetch": RESPONSE, "query": TABLE, "write": EMPTY, "several": SEVERAL}


class Stored:
    """Resolves each reference to the value of its name, and counts."""

    def __init__(self) -> None:
        self.loads = 0

    def __call__(self, ref: Any) -> Any:
        self.loads += 1
        return NAMES[ref["key"]] if ref["key"] in NAMES else TABLE["rows"]


def ref(key: str) -> dict[str, Any]:
    return {"kind": "result_ref", "store": "s3", "key": key, "size": 9000}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ fetch.status_code }}", 201),
        ("{{ fetch['status_code'] == fetch.status }}", True),
        ("{{ fetch.body.id }}", 5),
        ("{{ fetch.get('body').id }}", 5),
        ("{{ fetch.get('no', 'else') }}", "else"),
        ("{{ [fetch] | map(attribute='status_code') | list }}", [201]),
        ("{{ query.command_0.rows[1].id }}", 2),
        ("{{ query.command_0.row_count }}", 2),
        ("{{ query.command_1 is defined }}", False),
        ("{{ query | length }}", 2),
        ("{{ len(query) }}", 2),
        ("{{ query[0].n }}", 10),
        ("{{ query[-1]['n'] }}", 20),
        ("{{ query[7] is defined }}", False),
        ("{{ query[:1] }}", [{"id": 1, "n": 10}]),
        ("{{ query | map(attribute='n') | sum }}", 30),
        ("{{ query | selectattr('id', 'eq', 2) | map(attribute='n') | first }}", 20),
        ("{{ (query | first).id }} {{ (query | last).id }}", "1 2"),
        ("{% for row in query %}{{ loop.index }}/{{ loop.length }}:{{ row.id }} {% endfor %}", "1/2:1 2/2:2 "),
        ("{{ query | list == query.rows }}", True),
        ("{{ write | length }} {{ write.row_count }} {{ write.command_0.row_count }}", "0 3 3"),
        ("{{ several.command_0.row_count }}", 3),
        ("{{ several.command_1.rows == several.rows }}", True),
        ("{{ several.command_1.commands is defined }}", False),
        ("{{ several.command_2.rows[0].x }}", 1),
        ("{{ several.command_3 is defined }}", False),
        ("{{ several.command_2 | length }}", 1),
        ("{{ several | length }}", 2),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_a_view_reads_the_same_from_a_value_and_from_its_reference(template: str, value: Any, stored: bool) -> None:
    names = {name: ref(name) for name in NAMES} if stored else NAMES
    assert render(template, Scope(names, resolve=Stored())) == value


def test_rows_by_reference_are_loaded_when_they_are_read() -> None:
    stored = Stored()
    scope = Scope({"query": {**TABLE, "rows": ref("elsewhere")}}, resolve=stored)
    assert render("{{ query.row_count }} {{ query.command_0.row_count }}", scope) == "2 2"
    assert stored.loads == 0
    assert render("{{ query | length }} {{ query[0].id }}", scope) == "2 1"


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ fetch }}", RESPONSE),
        ("{{ query }}", TABLE),
        ("{{ query | tojson | fromjson }}", TABLE),
        ("{{ query.keys() | sort }}", ["columns", "row_count", "rows"]),
        ("{{ query.items() | length }}", 3),
        ("{{ 'rows' in query }}", True),
        ("{{ query is mapping }}", True),
        ("{{ {'all': several} }}", {"all": SEVERAL}),
    ],
)
def test_views_leave_the_data_unchanged(template: str, value: Any) -> None:
    assert render(template, Scope(NAMES)) == value


def test_the_truth_of_a_result_is_that_of_its_data() -> None:
    assert truthy("{{ write }}", Scope(NAMES))


OWN = {**RESPONSE, "status_code": "own", "body": None}


@pytest.mark.parametrize(
    ("value", "template", "seen"),
    [
        (OWN, "{{ it.status_code }}", "own"),
        (OWN, "{{ it.body }}", None),
        (OWN, "{{ it.get('body', 1) }}", None),
        ({**TABLE, "command_0": 7}, "{{ it.command_0 }}", 7),
        ({**TABLE, "page": 3}, "{{ it | length }}", 4),
        ({**TABLE, "page": 3}, "{{ it | list | first }}", "rows"),
        ({**TABLE, "0": "text"}, "{{ it['0'] }}", "text"),
        ({"rows": 1, "columns": 2, "row_count": 3}, "{{ it | length }} {{ it | first }}", "3 rows"),
        ({"status": "ok", "data": 1}, "{{ it.status_code is defined }}{{ it.body is defined }}", "FalseFalse"),
        ({**RESPONSE, "status": "fine"}, "{{ it.status_code is defined }}", False),
        ([1, 2], "{{ it.status_code is defined }}", False),
    ],
)
def test_data_fields_take_precedence_over_views_and_other_data_has_none(value: Any, template: str, seen: Any) -> None:
    assert render(template, Scope({"it": value})) == seen


def test_views_of_secrets_are_secret() -> None:
    for value in (Secret(RESPONSE), {**RESPONSE, "data": Secret({"id": 5}), "headers": Secret({})}):
        found = render("{{ it.body.id }}", Scope({"it": value}))
        assert isinstance(found, Secret) and str(found) == "***"
    assert isinstance(render("{{ it[0].id }}", Scope({"it": {**TABLE, "rows": Secret(TABLE["rows"])}})), Secret)


@pytest.mark.parametrize("name", ["command_", "command_00", "command_01", "command_99999", "command_x", "bodi"])
def test_an_unknown_view_is_undefined(name: str) -> None:
    assert render("{{ a[name] is defined or b[name] is defined }}", Scope({"a": TABLE, "b": RESPONSE, "name": name})) is False
