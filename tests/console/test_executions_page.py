"""The page of executions, in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.console.barriers import barriers
from tests.console.browser import Watched
from tests.console.sample_store import Stored


def test_executions_are_listed_newest_first_and_lead_to_their_pages(page: Watched, looked_at: Stored) -> None:
    page.open("executions", "tbody tr")
    rows = page.page.locator("tbody tr")
    expect(rows).to_have_count(6)
    expect(rows.first).to_contain_text("demo/shop")
    expect(rows.first).to_contain_text("completed")
    rows.first.locator("a").click()
    page.page.wait_for_url(f"**/#/executions/{looked_at.shop}")


@pytest.mark.nightly
def test_a_status_is_chosen_and_stands_in_the_address(page: Watched) -> None:
    page.open("executions", "tbody tr")
    page.page.get_by_label("Status", exact=True).select_option("failed")
    expect(page.page.locator("tbody tr")).to_have_count(2)
    assert page.page.url.endswith("#/executions?status=failed")
    page.page.go_back()
    expect(page.page.locator("tbody tr")).to_have_count(6)
    page.page.get_by_label("Search", exact=True).fill("have no PRICE")
    expect(page.page.locator("tbody tr")).to_have_count(1)
    expect(page.page.get_by_role("status")).to_have_text("Searched 6 executions.")
    page.page.get_by_label("Started").select_option("Last hour")
    expect(page.page.locator("tbody tr")).to_contain_text("demo/items")
    page.page.go_back()
    page.page.get_by_label("Search", exact=True).fill("")
    expect(page.page.locator("tbody tr")).to_have_count(6)
    page.page.route("**/api/executions?*", lambda route: route.abort())
    page.page.get_by_label("Status", exact=True).select_option("completed")
    expect(page.page.get_by_role("alert")).to_contain_text("No answer")
    expect(page.page.locator("tbody tr")).to_have_count(0)  # those of before are not of the filter


@pytest.mark.nightly
def test_keys_go_through_the_list_and_are_shown(page: Watched, looked_at: Stored) -> None:
    page.open("executions", "tbody tr")
    page.page.keyboard.press("?")
    expect(page.page.get_by_role("dialog")).to_contain_text("Next row")
    page.page.keyboard.press("Escape")
    expect(page.page.get_by_role("dialog")).to_have_count(0)
    page.page.keyboard.press("Control+k")
    found = page.page.get_by_role("dialog").get_by_role("option")
    page.page.get_by_role("combobox", name="What").fill("shop")
    expect(found).to_have_text(["demo/shopplaybook", re.compile("demo/shop.*completed"), re.compile("demo/shop.*completed")])
    assert barriers(page.page) == []
    page.page.get_by_role("combobox", name="What").fill("Go to trig")
    expect(found).to_have_count(1)
    page.page.keyboard.press("Enter")
    page.page.wait_for_url("**/#/triggers")
    page.page.go_back()
    page.page.wait_for_selector("tbody tr")
    page.page.keyboard.press("j")
    page.page.keyboard.press("j")
    expect(page.page.locator("tbody tr.current a").first).to_be_focused()
    page.page.keyboard.press("Enter")
    page.page.wait_for_url(f"**/#/executions/{looked_at.items}")


@pytest.mark.nightly
def test_single_keys_can_be_turned_off(page: Watched) -> None:
    page.open("executions", "tbody tr")
    page.page.keyboard.press("?")
    page.page.get_by_label("Enable single keys").uncheck()
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("?")
    expect(page.page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.nightly
def test_the_first_thing_that_tab_reaches_leads_past_the_rail(page: Watched) -> None:
    page.open("executions", "tbody tr")
    page.page.keyboard.press("Tab")
    expect(page.page.get_by_role("link", name="To the page")).to_be_focused()
    page.page.keyboard.press("Enter")
    expect(page.page.locator("#main")).to_be_focused()


@pytest.mark.nightly  # `test_widths.py` looks at this page in `make test`
def test_it_has_no_barriers_in_light_and_in_dark(page: Watched) -> None:
    page.open("executions", "tbody tr")
    assert barriers(page.page) == []
    page.page.get_by_role("button", name="Theme").click()
    page.page.get_by_role("button", name="Theme").click()
    expect(page.page.locator("html")).to_have_attribute("data-theme", "dark")
    assert barriers(page.page) == []


@pytest.mark.nightly
def test_warnings_are_counted_in_the_list_and_named_on_the_page(page: Watched, looked_at: Stored) -> None:
    page.open("executions", "tbody tr")
    warned = page.page.locator("tbody tr", has_text="warning").first
    expect(warned).to_contain_text("2 warnings")
    warned.locator("a").first.click()
    expect(page.page.locator(".overview .why li").first).to_contain_text("2 of 3,000 iterations of items failed")
    page.page.get_by_role("button", name="Iteration 617").click()
    inspector = page.page.get_by_role("complementary", name="Selected")
    expect(inspector.locator(".box").first).to_have_text("617")
    inspector.get_by_role("button", name="Redrive this one…").click()
    expect(page.page.get_by_role("dialog").get_by_label("From")).to_have_value("items@617")
