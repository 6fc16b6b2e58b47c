"""One action on many executions, and labels, in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from noetl_core.views.executions.executions import status_of
from tests.console.barriers import barriers
from tests.console.browser import Watched
from tests.console.sample_store import ITEMS, WAITS, Stored

ENDED_MS = 15_000


def opened(hands: Watched, button: str) -> Locator:
    hands.page.get_by_role("button", name=button).click()
    return hands.page.get_by_role("dialog")


def test_those_chosen_are_cancelled_after_a_preview(hands: Watched, acted_on: Stored) -> None:
    ids = [acted_on.start(WAITS, labels={"batch": "one"}) for _ in range(3)]
    hands.open("executions?label=batch:one", "tbody tr")
    expect(hands.page.locator("tbody tr")).to_have_count(3)
    for execution in ids[:2]:
        hands.page.get_by_label(f"Choose {execution}").check()
    dialog = opened(hands, "Act on 2 chosen…")
    expect(dialog.get_by_role("region", name="Preview")).to_contain_text("2 executions would be cancelled")
    assert barriers(hands.page) == []
    assert {status_of(acted_on.wiring.control.load(i)) for i in ids} == {"waiting"}
    dialog.get_by_label("Reason").fill("not needed")
    dialog.get_by_role("button", name="Cancel 2 executions").click()
    expect(dialog.get_by_role("region", name="Result")).to_contain_text("2 of 2 executions are cancelled.")
    dialog.locator("footer").get_by_role("button", name="Close").click()
    expect(hands.page.locator("tbody tr", has_text="cancelled")).to_have_count(2)
    assert acted_on.wiring.control.load(ids[0]).cancelled_for == "not needed"
    assert status_of(acted_on.wiring.control.load(ids[2])) == "waiting"


@pytest.mark.nightly
def test_all_that_fit_are_redriven_and_carried_out(hands: Watched, acted_on: Stored) -> None:
    """By a label, which a batch of the API does not filter by; those whose status it is not for are counted."""
    failed = [
        acted_on.start(ITEMS.replace("ValueError", error), {"count": 620}, {"batch": "two"}) for error in ("OSError", "KeyError")
    ]
    waiting = acted_on.start(WAITS, labels={"batch": "two"})
    before = [acted_on.wiring.control.load(i).epoch for i in failed]
    hands.open("executions?label=batch:two", "tbody tr")
    dialog = opened(hands, "Act on all that fit…")
    preview = dialog.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("1 execution would be cancelled. 2 others would not")
    dialog.get_by_label("Action").select_option("redrive")
    expect(preview).to_contain_text("2 executions would be redriven. 1 other would not")
    dialog.get_by_role("button", name="Redrive 2 executions").click()
    expect(dialog.get_by_role("region", name="Result")).to_contain_text("2 of 2 executions are redriven.")
    dialog.locator("footer").get_by_role("button", name="Close").click()
    expect(hands.page.locator("tbody tr", has_text="failed")).to_have_count(2, timeout=ENDED_MS)
    assert [acted_on.wiring.control.load(i).epoch for i in failed] == [e + 1 for e in before]
    assert status_of(acted_on.wiring.control.load(waiting)) == "waiting"


@pytest.mark.nightly
def test_all_of_a_path_are_paused_and_resumed(hands: Watched, acted_on: Stored) -> None:
    source = WAITS.replace("demo/waits", "demo/paused")
    ids = [acted_on.start(source) for _ in range(2)]
    hands.open("executions?path=demo/paused", "tbody tr")
    for action, word, status in (("pause", "Pause", "paused"), ("resume", "Resume", "waiting")):
        dialog = opened(hands, "Act on all that fit…")
        dialog.get_by_label("Action").select_option(action)
        dialog.get_by_role("button", name=f"{word} 2 executions").click()
        expect(dialog.get_by_role("region", name="Result")).to_contain_text("2 of 2")
        dialog.locator("footer").get_by_role("button", name="Close").click()
        assert {status_of(acted_on.wiring.control.load(i)) for i in ids} == {status}


@pytest.mark.nightly
def test_a_row_is_chosen_by_keys(page: Watched, looked_at: Stored) -> None:
    page.open("executions", "tbody tr")
    page.page.keyboard.press("j")
    page.page.keyboard.press("x")
    expect(page.page.get_by_label(f"Choose {looked_at.shop}")).to_be_checked()
    page.page.get_by_label("Choose all of this page").check()
    expect(page.page.get_by_role("button", name="Act on 6 chosen…")).to_be_visible()


@pytest.mark.nightly
def test_labels_are_shown_filter_the_list_and_are_given_at_the_start(hands: Watched, acted_on: Stored) -> None:
    hands.open("executions", "tbody tr")
    row = hands.page.locator("tbody tr", has=hands.page.locator(f"[title='{acted_on.small}']"))
    row.get_by_role("link", name="team: orders").click()
    hands.page.wait_for_url(re.compile(r"label=team%3Aorders"))
    expect(hands.page.locator("tbody tr")).to_have_count(1)
    hands.page.get_by_label("Label").fill("no: such")
    hands.page.keyboard.press("Enter")
    expect(hands.page.locator(".empty")).to_contain_text("None fits")
    hands.open("playbooks/demo%2Fshop?start=1", "dialog")
    hands.page.get_by_label("Labels").fill("env: prod, nightly")
    hands.page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).click()
    hands.page.wait_for_url(re.compile(r"executions/\d+"))
    expect(hands.page.locator(".head .tag")).to_have_text(["env: prod", "nightly: "])
    hands.page.get_by_role("link", name="env: prod").click()
    expect(hands.page.locator("tbody tr")).to_have_count(1)
