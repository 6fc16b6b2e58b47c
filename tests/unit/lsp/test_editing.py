"""A session of an editor: findings after each change, quick fixes, formatting, symbols, what happens while texts change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from noetl_core.dsl.parse import check
from noetl_core.testing.files import SUFFIX
from noetl_migrate.formatting import formatted
from tests.unit.lsp.client import Client, Refused, connected, edited, spanned
from tests.unit.lsp.texts import ORDERS

ROOT = Path(__file__).parents[3]
FLIGHTS = ROOT / "examples/flights/playbook.yaml"
CONTENT_MODIFIED = -32801


def fixes(client: Client, text: str, finding: dict[str, Any], uri: str = "file:///nowhere/flow.yaml") -> list[dict[str, Any]]:
    context = {"diagnostics": [finding]}
    found: list[dict[str, Any]] = client.ask(
        "textDocument/codeAction", {"textDocument": {"uri": uri}, "range": finding["range"], "context": context}
    )
    return found


def test_findings_are_those_of_validate_at_their_places(client: Client) -> None:
    text = ORDERS.replace("/📦/{{ iter.day.date }}", "/📦📦/{{ iter.dey.date }}").replace("attempts: 3", "attempts: 0")
    client.open(text)
    _, expected = check(text)
    found = client.found()
    assert [(one["code"], one["range"]["start"]["line"] + 1) for one in found] == [(d.code, d.line) for d in expected]
    client.change(ORDERS.replace("/📦/{{ iter.day.date }}", "/📦📦/{{ iter.dey.date }}"))
    (finding,) = client.found()
    assert finding["severity"] == 2
    assert finding["codeDescription"]["href"].endswith("language/lint/W515.md")
    assert spanned(ORDERS.replace("/📦/{{ iter.day.date }}", "/📦📦/{{ iter.dey.date }}"), finding["range"]) == "iter.dey.date"


def test_a_text_without_findings_and_one_that_is_no_playbook_have_none(client: Client) -> None:
    client.open("{{ not a playbook: [")
    assert client.found() == []
    assert client.at("hover", 3, "{{ not a playbook: [") is None
    client.open("kind: Playbook\n", "file:///nowhere/other.yaml")
    assert [one["code"] for one in client.found("file:///nowhere/other.yaml")] == ["E111", "E111", "E111"]
    client.open("", "file:///nowhere/new.yaml", language="noetl")
    assert [one["code"] for one in client.found("file:///nowhere/new.yaml")] == ["E100"]


def test_findings_of_a_closed_text_disappear(client: Client) -> None:
    uri = client.open("kind: Playbook\n")
    assert client.found()
    client.close()
    client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    assert client.findings[uri]["diagnostics"] == []


def test_only_the_last_of_many_changes_is_examined_in_the_end(client: Client) -> None:
    client.open(ORDERS)
    for n in range(30):
        client.change(ORDERS.replace("attempts: 3", f"attempts: {n - 29}"))
    assert [one["code"] for one in client.found()] == ["E124"]
    assert client.findings["file:///nowhere/flow.yaml"]["version"] == 31


FIXES = (
    ("step: count\n          args", "step: cuont\n          args", 'Change it to "count"'),
    ("        params:", "        parms:", 'Change it to "params"'),
    ("kind: http\n", "kind: htpp\n", 'Change it to "http"'),
    ("do: retry", "do: rety", 'Change it to "retry"'),
    ("{{ workload.limits.rows }}", "{{ workload.limits.rwos }}", 'Change it to "rows"'),
    ("{{ steps.count.result.total }}", "{{ steps.cuont.result.total }}", 'Change it to "count"'),
    ("{{ iter.seen > 3 }}", "{{ iter.sen > 3 }}", 'Change it to "seen"'),
    ("outcome.status == 'error'", "outcome.sttus == 'error'", 'Change it to "status"'),
    ("| list }}", "| lisst }}", 'Change it to "list"'),
    ('"{{ iter.seen > 3 }}"', "iter.seen > 3", "Write it as an expression"),
    ("entry_step: fetch", "entry_step: fetch\n    strict: yes", "Write true"),
    ("      - name: keep", "\t  - name: keep", "Indent with spaces"),
)


@pytest.mark.parametrize(("old", "new", "title"), FIXES, ids=lambda part: part[:24])
def test_a_quick_fix_resolves_the_finding(client: Client, old: str, new: str, title: str) -> None:
    text = ORDERS.replace(old, new, 1)
    assert text != ORDERS
    uri = client.open(text)
    finding = next(one for one in client.found() if one["severity"] < 3)
    offered = fixes(client, text, finding)
    fix = next(one for one in offered if one["title"] == title)
    assert fix["isPreferred"]
    client.change(edited(text, fix["edit"]["changes"][uri]))
    assert finding["code"] not in [one["code"] for one in client.found()]


def test_a_warning_can_be_ignored_on_its_line(client: Client) -> None:
    text = ORDERS.replace("  limits: {", "  unused: 1\n  limits: {")
    uri = client.open(text)
    (finding,) = client.found()
    (fix,) = fixes(client, text, finding)
    assert "unused: 1  # noetl: ignore W516\n" in edited(text, fix["edit"]["changes"][uri])
    client.change(edited(text, fix["edit"]["changes"][uri]))
    assert client.found() == []


def test_a_warning_within_program_text_offers_no_comment(client: Client) -> None:
    text = ORDERS.replace('result: "{{ page.data }}"', "result: |\n          {{ iter.sen }}\n          more")
    client.open(text)
    (finding,) = client.found()
    assert [one["title"] for one in fixes(client, text, finding)] == ['Change it to "seen"']


def test_an_older_dialect_is_rewritten_by_a_quick_fix(client: Client) -> None:
    arcs = '    next:\n      arcs:\n        - step: count\n          args: { rows: "{{ event.result }}" }\n'
    text = ORDERS.replace(arcs, "    next: [count]\n")
    uri = client.open(text)
    finding = next(one for one in client.found() if one["code"] == "E120")
    (fix,) = fixes(client, text, finding)
    assert fix["title"] == "Rewrite the playbook with noetl migrate"
    client.change(edited(text, fix["edit"]["changes"][uri]))
    assert "E120" not in [one["code"] for one in client.found()]


def test_formatting_is_that_of_fmt_and_keeps_comments(client: Client) -> None:
    text = ORDERS.replace("    entry_step", "       entry_step").replace("    result: { total", "       result: { total")
    uri = client.open(text)
    options = {"tabSize": 2, "insertSpaces": True}
    edits = client.ask("textDocument/formatting", {"textDocument": {"uri": uri}, "options": options})
    assert edited(text, edits) == formatted(text) != text
    assert "# 📦 注文\n" in edited(text, edits)
    client.change(edited(text, edits))
    assert client.ask("textDocument/formatting", {"textDocument": {"uri": uri}, "options": options}) == []


def test_an_invalid_text_is_not_formatted(client: Client) -> None:
    uri = client.open("kind: Playbook\n  a: [\n")
    assert (
        client.ask("textDocument/formatting", {"textDocument": {"uri": uri}, "options": {"tabSize": 2, "insertSpaces": True}})
        is None
    )


def test_symbols_are_the_sections_steps_and_tasks(client: Client) -> None:
    uri = client.open(ORDERS)
    found = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    names = {one["name"]: [below["name"] for below in one["children"]] for one in found}
    assert names["workflow"] == ["fetch", "count", "done"]
    assert (names["workload"], names["keychain"], names["workbook"]) == (["region", "limits", "days"], ["shop_api"], ["notify"])
    fetch = next(one for one in found if one["name"] == "workflow")["children"][0]
    assert [(task["name"], task["detail"]) for task in fetch["children"]] == [("page", "http"), ("keep", "noop")]
    assert (spanned(ORDERS, fetch["selectionRange"]), fetch["detail"]) == ("fetch", "取得 📦📦")
    assert spanned(ORDERS, fetch["range"]).startswith("- step: fetch")


def test_an_answer_for_a_changed_text_is_refused(client: Client) -> None:
    text = ORDERS + "".join(f"  - step: more_{n}\n    tool: {{ kind: noop, result: {n} }}\n" for n in range(150))
    uri = client.open(text)
    number = client.request(
        "textDocument/formatting", {"textDocument": {"uri": uri}, "options": {"tabSize": 2, "insertSpaces": True}}
    )
    client.change(ORDERS)
    with pytest.raises(Refused) as refused:
        client.answer(number)
    assert refused.value.code == CONTENT_MODIFIED
    assert client.found() == []


def test_a_cancelled_request_is_answered_as_such(client: Client) -> None:
    text = ORDERS + "".join(f"  - step: more_{n}\n    tool: {{ kind: noop, result: {n} }}\n" for n in range(150))
    uri = client.open(text)
    number = client.request(
        "textDocument/formatting", {"textDocument": {"uri": uri}, "options": {"tabSize": 2, "insertSpaces": True}}
    )
    client.notify("$/cancelRequest", {"id": number})
    with pytest.raises(Refused) as refused:
        client.answer(number)
    assert refused.value.code == -32800
    assert labels_of(client, text)


def labels_of(client: Client, text: str) -> list[str]:
    offset = text.index("do: retry") + 4
    return [item["label"] for item in client.at("completion", offset, text)["items"]]


@pytest.mark.parametrize("encoding", ["utf-8", pytest.param("utf-32", marks=pytest.mark.nightly)])
def test_other_units_of_positions_are_spoken(encoding: str) -> None:
    text = ORDERS.replace("/📦/{{ iter.day.date }}", "/📦📦/{{ iter.dey.date }}")
    row = next(line for line in text.split("\n") if "dey" in line)
    column = row.index("iter.dey")
    with connected() as client:
        answer = client.initialize(general={"positionEncodings": [encoding]})
        assert answer["capabilities"]["positionEncoding"] == encoding
        client.open(text)
        (finding,) = client.found()
        assert finding["range"]["start"]["character"] == (len(row[:column].encode()) if encoding == "utf-8" else column)


# --- the flagship -------------------------------------------------------------------------------------------------------


def test_steps_and_tasks_of_the_flagship_can_be_renamed_with_its_tests(client: Client, tmp_path: Path) -> None:
    text = FLIGHTS.read_text()
    test = (FLIGHTS.parent / f"playbook{SUFFIX}").read_text()
    (tmp_path / "playbook.yaml").write_text(text)
    (tmp_path / f"playbook{SUFFIX}").write_text(test)
    uri, of_test = (tmp_path / "playbook.yaml").as_uri(), (tmp_path / f"playbook{SUFFIX}").as_uri()
    client.open(text, uri)
    renamed = {}
    symbols = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    for step in next(one for one in symbols if one["name"] == "workflow")["children"]:
        for name, place in [
            (step["name"], "step"),
            *((task["name"], "name") for task in step["children"][1:3] if task["detail"] != task["name"]),
        ]:
            named = re.search(rf"^ +- {place}: ({name})\b", text, re.MULTILINE)
            if named is None:
                continue
            offset = named.start(1) + 1
            changes = client.at("rename", offset, text, uri, newName=f"{name}_renamed")["changes"]
            after = edited(text, changes[uri])
            playbook, found = check(after)
            assert playbook is not None
            assert found == []
            renamed[name] = edited(test, changes.get(of_test, []))
    assert set(renamed) >= {
        "fetch_months",
        "analyse",
        "validate",
        "report",
        "failed",
        "fetch_page",
        "store_page",
    }
    assert "fetch_months_renamed.fetch_page:\n" in renamed["fetch_months"]
    assert "fetch_months." not in renamed["fetch_months"]
    assert "path: [fetch_months_renamed, analyse, validate, report]" in renamed["fetch_months"]
    assert "error: { step: failed_renamed, message" in renamed["failed"]
    assert "fetch_months.fetch_page_renamed: 5" in renamed["fetch_page"]
