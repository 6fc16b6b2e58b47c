"""Carries out each action of the console end to end, in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.console.barriers import barriers
from tests.console.browser import Watched
from tests.console.sample_store import APPROVE, ITEMS, WAITS, Stored

ENDED_MS = 15_000


def status(hands: Watched, expected: str) -> None:
    """The status in the head of an execution becomes that."""
    expect(hands.page.locator(".head .chip")).to_have_text(expected, timeout=ENDED_MS)


@pytest.mark.nightly
def test_an_execution_is_paused_and_resumed(hands: Watched, acted_on: Stored) -> None:
    execution = acted_on.start(WAITS)
    hands.open(f"executions/{execution}", ".actions")
    status(hands, "waiting")
    hands.page.get_by_role("button", name="Pause").click()
    status(hands, "paused")
    hands.page.keyboard.press("p")
    status(hands, "waiting")


@pytest.mark.nightly
def test_an_execution_is_cancelled_for_a_reason(hands: Watched, acted_on: Stored) -> None:
    execution = acted_on.start(WAITS)
    hands.open(f"executions/{execution}", ".actions")
    hands.page.get_by_role("button", name="Cancel…").click()
    assert barriers(hands.page) == []
    hands.page.get_by_label("Reason").fill("not needed")
    hands.page.get_by_role("button", name="Cancel the execution").click()
    status(hands, "cancelled")
    assert acted_on.wiring.control.load(execution).cancelled_for == "not needed"


@pytest.mark.nightly
def test_a_signal_is_sent_and_the_execution_goes_on_to_its_end(hands: Watched, acted_on: Stored) -> None:
    """Nobody else carries it out: the console does."""
    execution = acted_on.start(WAITS)
    hands.open(f"executions/{execution}", ".waits")
    expect(hands.page.locator(".waits")).to_contain_text("the signal go_on")
    hands.page.get_by_role("button", name="Signal…").click()
    expect(hands.page.get_by_label("Name")).to_have_value("go_on")
    hands.page.get_by_label("Data").fill('{"word": "now"}')
    assert barriers(hands.page) == []
    hands.page.get_by_role("button", name="Send").click()
    status(hands, "completed")


@pytest.mark.nightly
def test_a_callback_is_answered_in_the_inbox_by_a_form_of_its_schema(hands: Watched, acted_on: Stored) -> None:
    execution = acted_on.start(APPROVE, {"amount": 77})
    hands.open("inbox", "li.card")
    card = hands.page.locator("li.card", has_text="Approve 77 EUR?")
    other = hands.page.locator("li.card", has_text="Approve 1200 EUR?")
    other.get_by_role("button", name="Answer…").click()
    hands.page.reload()
    expect(other.get_by_label("Why")).to_be_visible()  # the address has it
    card.get_by_role("button", name="Answer…").click()
    expect(card.get_by_label("Why")).to_be_visible()
    assert barriers(hands.page) == []
    card.get_by_label("Why").fill("it is cheap")
    card.get_by_role("button", name="Approve").click()
    expect(card).to_have_count(0, timeout=ENDED_MS)
    expect(hands.page.locator("li.card").first.get_by_role("button", name="Reject")).to_be_visible()  # the next one
    hands.open(f"executions/{execution}/steps", ".actions")
    status(hands, "completed")
    expect(hands.page.locator("tbody")).to_contain_text("it is cheap")


@pytest.mark.nightly
def test_a_callback_can_be_failed_with_a_message_instead_of_an_answer(hands: Watched, acted_on: Stored) -> None:
    execution = acted_on.start(APPROVE, {"amount": 78})
    hands.open(f"executions/{execution}", ".waits")
    expect(hands.page.get_by_role("region", name="Input")).to_contain_text("78")
    assert barriers(hands.page) == []
    hands.page.get_by_role("button", name="Fail it instead…").click()
    hands.page.get_by_label("Message").fill("nobody may spend that")
    hands.page.get_by_role("button", name="Fail the task").click()
    status(hands, "failed")
    expect(hands.page.locator(".overview .failure")).to_contain_text("nobody may spend that")
    hands.page.get_by_role("link", name="Steps").click()
    expect(hands.page.locator(".brief")).to_contain_text("nobody may spend that")


@pytest.mark.nightly
def test_a_redrive_is_previewed_before_it_runs(hands: Watched, acted_on: Stored) -> None:
    execution = acted_on.start(ITEMS, {"count": 700})
    hands.open(f"executions/{execution}", ".actions")
    status(hands, "failed")
    hands.page.keyboard.press("r")
    dialog = hands.page.get_by_role("dialog")
    expect(dialog.get_by_role("region", name="Preview")).to_contain_text("check")
    assert barriers(hands.page) == []
    dialog.get_by_label("From").fill("items@617")
    expect(dialog.get_by_role("region", name="Preview")).to_contain_text("iterations 617 (699 kept)")
    dialog.get_by_label("Keys of ctx to set").fill("{")
    expect(dialog.get_by_role("button", name="Redrive", exact=True)).to_be_disabled()
    dialog.get_by_label("Keys of ctx to set").fill('{"price": 1}')
    dialog.get_by_role("button", name="Redrive", exact=True).click()
    status(hands, "completed")
    expect(hands.page.locator(".about")).to_contain_text(re.compile(r"redriven once, .*took .*s since"))


def test_a_playbook_is_edited_registered_and_started(hands: Watched) -> None:
    hands.open("playbooks", "tbody tr")
    hands.page.get_by_role("link", name="New…").click()
    editor = hands.page.get_by_role("textbox", name="Playbook as YAML")
    editor.click()
    hands.page.keyboard.press("Control+A")
    hands.page.keyboard.insert_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: typed, path: demo/typed }\nworkfow: []\n"
    )
    expect(hands.page.get_by_label("Findings")).to_contain_text('did you mean "workflow"')
    expect(hands.page.get_by_role("button", name="Register…")).to_be_disabled()
    assert barriers(hands.page) == []
    hands.page.keyboard.press("Control+A")
    hands.page.keyboard.insert_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: typed, path: demo/typed }\nworkload: { words: 2 }\n"
        "workflow:\n  - step: first\n    tool: { kind: noop, result: '{{ workload.words * 21 }}' }\n    next: { arcs: [{ step: second }] }\n"
        "  - step: second\n    tool: { kind: noop }\n"
    )
    expect(hands.page.get_by_role("treeitem")).to_have_count(2)
    hands.page.get_by_role("button", name="Register…").click()
    expect(hands.page.get_by_role("dialog")).to_contain_text("this is its first version")
    hands.page.get_by_role("dialog").get_by_role("button", name="Register").click()
    hands.page.wait_for_url(re.compile("playbooks/demo%2Ftyped"))
    hands.page.get_by_role("button", name="Start…").click()
    expect(hands.page.get_by_role("region", name="Forecast")).to_contain_text("no execution of this playbook has completed here")
    hands.page.get_by_label("words").fill("3")
    assert barriers(hands.page) == []
    hands.page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).click()
    hands.page.wait_for_url(re.compile(r"executions/\d+"))
    status(hands, "completed")
    hands.page.get_by_role("link", name="Steps").click()
    expect(hands.page.locator("tbody")).to_contain_text("63")
