"""A page's address contains the reader's choices: a reload keeps them. And keys alone suffice for all of them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.console.browser import Watched
from tests.console.sample_store import Stored


@pytest.mark.nightly
def test_the_selected_part_of_a_loop_stays_after_a_reload(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.items}/iterations", ".heat")
    page.page.locator(".heat button").nth(40).click()
    expect(page.page.locator(".heat button[aria-current]")).to_have_count(1)
    page.page.reload()
    expect(page.page.locator(".heat button").nth(40)).to_have_attribute("aria-current", "true")


@pytest.mark.nightly
def test_the_inbox_begins_with_the_first_question(page: Watched, looked_at: Stored) -> None:
    page.open("inbox", "li.card")
    page.page.get_by_label("Why").wait_for()
    page.page.get_by_role("button", name="Fail it instead…").wait_for()


@pytest.mark.nightly
def test_the_step_of_a_playbook_and_the_search_of_the_list_stay(page: Watched, looked_at: Stored) -> None:
    page.open("playbooks", "tbody tr")
    page.page.get_by_label("Search").fill("night")
    expect(page.page.locator("tbody tr")).to_have_count(1)
    page.page.reload()
    expect(page.page.locator("tbody tr")).to_have_count(1)
    page.open("playbooks/demo%2Fshop", ".graph canvas[role=img]")
    page.page.get_by_role("treeitem", name="bulk").click()
    page.page.reload()
    expect(page.page.get_by_role("treeitem", name="bulk")).to_have_attribute("aria-selected", "true")


@pytest.mark.nightly
def test_a_failed_iteration_and_its_redrive_preview_are_reached_by_keyboard_alone(page: Watched, looked_at: Stored) -> None:
    def focus(selector: str, most: int = 60) -> None:
        """Press Tab until an element has the focus."""
        for _ in range(most):
            page.page.keyboard.press("Tab")
            if page.page.evaluate("(s) => document.activeElement?.matches(s) ?? false", selector):
                return
        raise AssertionError(f"Tab does not come to {selector}")

    keys = page.page.keyboard
    page.open("inbox", "h1")
    keys.press("g")
    keys.press("e")
    page.page.wait_for_selector("tbody tr")
    current = page.page.locator("tbody tr.current")
    for _ in range(page.page.locator("tbody tr").count()):  # other tests start executions: the list may grow meanwhile
        keys.press("j")
        page.page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        if "demo/items" in current.inner_text():
            break
    keys.press("Enter")
    page.page.wait_for_selector(".execution .head")
    keys.press("4")
    page.page.wait_for_selector(".heat")
    focus(".heat button")
    assert "failed" in (page.page.evaluate("document.activeElement.getAttribute('aria-label')") or "")
    keys.press("Enter")
    expect(page.page.locator(".heat button[aria-current]")).to_have_count(1)
    focus("td button")
    while "617" not in page.page.evaluate("document.activeElement.innerText"):
        keys.press("Tab")
    keys.press("Enter")
    expect(page.page.locator(".inspector h2")).to_have_text(re.compile("items @617"))
    page.page.get_by_role("button", name="Redrive this one…").wait_for()
    focus(".inspector .row button", 200)
    keys.press("Enter")
    dialog = page.page.get_by_role("dialog")
    expect(dialog.get_by_label("From")).to_have_value("items@617")
    expect(dialog.get_by_label("From")).to_be_focused()
    keys.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.page.get_by_role("button", name="Redrive this one…")).to_be_focused()
