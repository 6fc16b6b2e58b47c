"""Edits playbooks in a browser: drafts, completion from the schema, differences before registering, and forms of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from noetl_console.authored_tests import results
from noetl_core.adapters.local.home import home
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.control.admit import register
from noetl_core.service.operations.base import Operations
from tests.console.barriers import barriers
from tests.console.browser import Watched
from tests.console.sample_store import HEAD, NIGHTLY, SHOP, TESTED, Stored

FLOW = HEAD + "metadata: { name: a, path: b }\nworkflow:\n  - step: one\n"
TOOL = FLOW + "    tool:\n      kind: http\n      "
COMPLETED = {
    "": "workflow",
    "kind: ": "Playbook",
    "metadata: { ": "path",
    FLOW + "    to": "tool",
    FLOW + "    tool: { kind: ": "python",
    TOOL: "url",
    TOOL + "method: ": "POST",
    TOOL + "spec:\n        ": "policy",
    FLOW + "    tool:\n      - fetch: { kind: http, spec: { policy: { rules: [{ then: { do: ": "retry",
    FLOW + "    tool:\n    - kind: python\n      co": "code",
    FLOW + "    next:\n      arcs:\n        - { step: ": "one",
    FLOW + "    next:\n      spec: { mode: exclusive } # a comment: {\n      ": "arcs",
    TOOL + "body: |\n        {\n      me": "method",
}
"""A text, and a word that may follow at its end."""
NOTHING = [TOOL + "body: |\n        us", FLOW + '    tool: { kind: noop, result: "', FLOW + "    # to", "workload: { x: "]
"""Texts at whose end nothing is offered: other texts, comments, values of the author."""
FORMS = (
    HEAD
    + """metadata: { name: forms, path: demo/forms }
workload:
  orders: [3, 5]
  x-schema:
    required: [day]
    properties:
      day: { type: string, format: date, title: Day }
      at: { type: string, format: date-time, title: Not before }
      orders: { type: array, items: { type: integer }, title: Orders }
      sql: { type: string, format: multiline, title: Statement }
      db: { type: string, format: credential, title: Database }
workflow:
  - step: start
    tool: { kind: noop, result: "{{ workload }}" }
"""
)


def in_module(page: Page, name: str, body: str, *values: Any) -> Any:
    """Return what `body` returns in a page, where `m` is a module of the console."""
    return page.evaluate(f"async ([name, ...values]) => {{ const m = await import(name); {body} }}", [f"./{name}", *values])


def test_words_are_offered_from_the_schema_where_they_may_stand(page: Watched) -> None:
    words = """const root = await (await fetch("./playbook.schema.json")).json();
        const explained = m.explained(root, values[1], "    tool: { kind: http, url: x }", 25);
        return [values[0].map((text) => m.words(root, text)?.options.map((o) => o.label) ?? []), explained]"""
    offered, explained = in_module(page.page, "components/schema-help.js", words, [*COMPLETED, *NOTHING], FLOW)
    lacking = {text[-40:]: found for (text, word), found in zip(COMPLETED.items(), offered, strict=False) if word not in found}
    assert lacking == {}
    assert offered[len(COMPLETED) :] == [[]] * len(NOTHING)
    assert "kind" not in offered[list(COMPLETED).index(TOOL)], "it is there"
    assert explained == {"from": 24, "to": 27, "name": "url", "text": "The address to send the request to."}


def test_drafts_are_few_and_short_and_differences_are_the_least(page: Watched) -> None:
    drafts = """for (let i = 0; i < 25; i += 1) m.keepDraft(`p${i}@1@`, "text");
        const kept = Object.keys(localStorage).filter((key) => key.startsWith("noetl.draft."));
        const long = m.keepDraft("long", "x".repeat(300000));
        m.discardDraft("p24@1@");
        return [kept.length, long, m.draftOf("p24@1@"), m.draftOf("p23@1@").text]"""
    assert in_module(page.page, "core/drafts.js", drafts) == [20, False, None, "text"]
    differing = "return m.differences(...values).map(([sign, line]) => sign + line)"
    before, after = "a\nb\nc\nd\ne", "a\nc\nx\nd\ne\nf"
    assert in_module(page.page, "components/diff.js", differing, before, after) == [" a", "-b", " c", "+x", " d", " e", "+f"]
    large = in_module(page.page, "components/diff.js", differing, "a\n" * 3000, "b\n" * 3000)
    assert len(large) == 6001, "too many lines to compare: replaced whole"


@pytest.mark.nightly  # its parts are shown above, registering and starting in `test_actions.py`
def test_a_draft_survives_leaving_and_is_compared_and_started(hands: Watched, acted_on: Stored) -> None:
    register(acted_on.wiring.control, FLOW.replace("path: b", "path: demo/kept") + "    tool: { kind: noop }\n")
    address, ready = "playbooks/demo%2Fkept", ".graph canvas[role=img]"
    hands.open(address, ready)
    page = hands.page
    page.get_by_role("textbox", name="Playbook as YAML").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("  - step: two\nto")  # the editor indents
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("tool")
    page.wait_for_timeout(100)  # for as long, the editor takes no Enter as a choice
    page.keyboard.press("Enter")
    page.keyboard.type("{ kind: noop }")
    expect(page.locator(".help")).to_have_text("kind: The tool that the task runs.")
    hands.open("playbooks", "tbody tr")
    hands.open(address, ready)
    expect(page.get_by_text("This is your draft of")).to_be_visible()
    page.get_by_role("button", name="Register…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".diff .added")).to_have_count(2)
    expect(dialog).to_contain_text("Compared with version 1, the newest")
    assert barriers(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Start this text…").click()
    expect(dialog.get_by_role("region", name="Forecast")).to_contain_text("a guess")
    assert barriers(page) == []
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".head .chip")).to_have_text("completed", timeout=15_000)
    hands.open(address, ready)
    expect(page.locator(".banner")).to_have_count(0)  # the text is version 2 now
    page.get_by_role("textbox", name="Playbook as YAML").press("Control+End")
    page.keyboard.type("# more")
    hands.open(address + "?version=1", ready)
    page.get_by_role("link", name="Open it").click()
    page.get_by_role("button", name="Discard the draft").click()
    expect(page.locator(".cm-content")).not_to_contain_text("# more")
    page.reload()
    page.locator(ready).wait_for()
    expect(page.locator(".banner")).to_have_count(0)


@pytest.mark.nightly
def test_a_new_playbook_is_valid_and_an_older_stack_says_why_it_cannot_be_registered(page: Watched) -> None:
    opened = page.page
    page.open("playbooks/new?draft=1", ".graph canvas[role=img]")
    expect(opened.get_by_role("button", name="Register…")).to_be_enabled()
    older = {"valid": True, "diagnostics": [], "warnings": []}
    opened.route("**/playbooks/validate", lambda route: route.fulfill(body=json.dumps(older), content_type="application/json"))
    opened.reload()
    expect(opened.locator(".banner")).to_contain_text("This stack is older than this console")
    expect(opened.get_by_role("button", name="Register…")).to_be_disabled()


@pytest.mark.nightly
def test_names_of_templates_are_offered_and_explained_by_a_local_console_alone(page: Watched) -> None:
    opened = page.page
    page.open("playbooks/demo%2Fnightly", ".graph canvas[role=img]")
    offered, text = opened.locator(".cm-tooltip-autocomplete"), opened.get_by_role("textbox", name="Playbook as YAML")
    text.press("Control+End")
    opened.keyboard.type('  - { step: two, tool: { kind: noop, result: "{{ steps.')  # the editor closes them
    expect(offered).to_contain_text("report")
    opened.keyboard.type("report.")
    expect(offered).to_contain_text("result")
    opened.keyboard.press("Escape")
    opened.keyboard.type("status | upp")
    expect(offered).to_contain_text("upper")
    opened.keyboard.press("Escape")
    opened.keyboard.press("Control+ArrowLeft")
    opened.keyboard.press("Control+ArrowLeft")
    opened.keyboard.press("Control+ArrowLeft")
    expect(opened.locator(".help")).to_contain_text("status")
    opened.route("**/health", lambda route: route.fulfill(json={"status": "ok", "version": "1", "wiring": {"stack": "prod"}}))
    sent: list[str] = []
    opened.on("request", lambda request: sent.append(request.url))
    opened.reload()
    opened.get_by_role("button", name="Discard the draft").click()
    text.press("Control+End")
    opened.keyboard.type("  - { step: two, to")
    expect(offered).to_contain_text("tool")
    assert sent and not any("console/help" in url for url in sent)


@pytest.mark.nightly
def test_a_form_has_dates_lists_files_and_names_of_credentials(
    hands: Watched, acted_on: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    on = Operations(lambda: acted_on.wiring.control, bytes, stored=lambda: LocalSecrets(home() / "credentials.json"))
    on.put_credential("shop/db", {"password": "s3cret"})
    register(acted_on.wiring.control, FORMS)
    hands.open("playbooks/demo%2Fforms?start=1", "dialog input")
    page = hands.page
    page.get_by_label("Day").fill("2026-02-28")
    page.get_by_label("Not before").fill("2026-02-28T10:00")
    page.get_by_role("button", name="Remove row 1").click()
    page.get_by_role("button", name="Add a row").press("Enter")
    page.get_by_label("2", exact=True).fill("8")
    file = tmp_path / "query.sql"
    file.write_text("SELECT 1\n")
    page.get_by_label("Its text from a file").set_input_files(file)
    expect(page.get_by_label("Statement")).to_have_value("SELECT 1\n")
    page.get_by_label("Database").select_option("shop/db")
    page.get_by_text("Assumptions").click()
    assert barriers(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".head .chip")).to_have_text("completed", timeout=15_000)
    id = page.url.split("executions/")[1].split("/")[0]
    assert acted_on.wiring.control.load(id).payload == {
        "day": "2026-02-28", "at": "2026-02-28T10:00:00.000Z", "orders": [5, 8], "sql": "SELECT 1\n", "db": "shop/db",
    }  # fmt: skip


def test_the_tests_of_a_file_run_with_the_text_of_the_editor(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/nightly.yaml").write_text(NIGHTLY)
    (tmp_path / "a/nightly.test.yaml").write_text(TESTED)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/nightly.test.yaml").write_text(TESTED)
    (tmp_path / "shop.yaml").write_text(SHOP)
    (tmp_path / "shop.test.yaml").write_text("test: x\nexpct: 1\n")
    found = results(tmp_path, "demo/nightly", NIGHTLY)
    assert found["files"] == ["a/nightly.test.yaml"] and found["problems"] == []
    assert [(each["name"], each["passed"]) for each in found["results"]] == [("reports", True)]
    (failed,) = results(tmp_path, "demo/nightly", NIGHTLY.replace("result: done", "result: gone"))["results"]
    assert not failed["passed"] and "gone" in json.dumps(failed["findings"])
    assert "expct" in str(results(tmp_path, "demo/shop", SHOP)["problems"])
    assert results(tmp_path, "demo/none", NIGHTLY)["files"] == []


@pytest.mark.nightly
def test_results_of_tests_are_shown_beside_the_text(hands: Watched) -> None:
    hands.open("playbooks/demo%2Fnightly", ".graph canvas[role=img]")
    hands.page.get_by_role("button", name="Tests…").click()
    dialog = hands.page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 of 1 test passed with this text")
    assert barriers(hands.page) == []
    hands.open("playbooks/demo%2Fshop?tests=1", ".graph canvas[role=img]")
    expect(dialog).to_contain_text("No test file below")


@pytest.mark.nightly
def test_a_late_answer_about_an_earlier_text_changes_nothing(page: Watched) -> None:
    page.open("playbooks/demo%2Fnightly", ".graph canvas[role=img]")
    opened = page.page
    held: list[Route] = []
    opened.route("**/playbooks/validate", lambda route: held.append(route) if not held else route.continue_())
    opened.get_by_role("textbox", name="Playbook as YAML").press("Control+Home")
    opened.keyboard.type("x")
    opened.wait_for_timeout(600)
    assert len(held) == 1
    opened.keyboard.press("Backspace")
    expect(opened.locator(".page-head [role=status]")).to_have_text("valid")
    if not held[0].request.failure:
        held[0].continue_()
    opened.wait_for_timeout(500)
    expect(opened.locator(".page-head [role=status]")).to_have_text("valid")
