"""Explains in a browser why a step ran or did not, and which decisions were made."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.console.answers import asked
from tests.console.barriers import barriers
from tests.console.browser import Watched
from tests.console.sample_store import Stored


def test_a_step_explains_why_it_ran_with_the_values_of_guards(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.shop}/graph?step=bulk", ".why")
    why = page.page.get_by_role("region", name="Why")
    expect(why).to_contain_text("event.result > 10 is true")
    expect(why.locator("dd").first).to_have_text("16")
    expect(why).to_contain_text("start is the step that the execution begins with")
    assert barriers(page.page) == []
    why.get_by_role("button", name="start").first.click()
    expect(page.page.locator(".inspector h2")).to_have_text("start")
    expect(why).to_contain_text("not evaluated, because one before it fired")


@pytest.mark.nightly
def test_a_step_that_did_not_run_explains_why(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.items}/graph?step=total", ".why")
    why = page.page.get_by_role("region", name="Why")
    expect(why).to_contain_text("total did not run")
    expect(why).to_contain_text("event.loop.failed == 0 is false")
    expect(why.locator("dd").first).to_have_text("2")


@pytest.mark.nightly
def test_a_join_lists_its_merged_tokens_and_a_wait_its_signal(page: Watched, looked_at: Stored) -> None:
    why = page.page.get_by_role("region", name="Why")
    page.open(f"executions/{looked_at.shop}/steps?step=notify", ".why")
    expect(why).to_contain_text("merged 2 tokens, from ship and invoice")
    page.open(f"executions/{looked_at.waits}/steps?step=end", ".why")
    expect(why).to_contain_text("waits for the signal go_on")


@pytest.mark.nightly
def test_a_failed_step_shows_its_error_and_the_line_of_code(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.items}/graph?step=check", ".inspector .trace")
    inspector = page.page.get_by_role("complementary", name="Selected")
    expect(inspector.locator(".failure")).to_have_count(1)
    expect(inspector.locator(".failure")).to_contain_text("some items have no price")
    expect(inspector.locator(".trace")).to_contain_text("line 11 raise ValueError")


@pytest.mark.nightly
def test_a_fact_is_a_moment_to_go_to(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.shop}/graph?step=bulk", ".why")
    page.page.locator(".why").get_by_title("Go to that moment").first.click()
    expect(page.page.locator(".slider .event")).to_contain_text("NextEvaluated")


@pytest.mark.nightly
def test_a_step_at_a_past_event_is_explained_as_of_that_event(page: Watched, looked_at: Stored) -> None:
    (first,) = asked(looked_at, f"executions/{looked_at.shop}/events", "at=3&limit=1")["events"]
    page.open(f"executions/{looked_at.shop}/graph?step=bulk&at={first['event_id']}&n=3", ".why")
    why = page.page.get_by_role("region", name="Why")
    expect(why).to_contain_text("as of then")
    expect(why).to_contain_text("bulk did not run")
    page.page.get_by_role("button", name="Now").click()
    expect(why).to_contain_text("event.result > 10 is true")
    expect(why).not_to_contain_text("as of then")


def test_decisions_are_listed_explained_and_taken_again(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.items}/decisions", ".virtual .line")
    rows = page.page.get_by_role("list", name="Decisions").get_by_role("listitem")
    expect(rows.first).to_contain_text("→ check")
    page.page.get_by_role("button", name="Decide again").click()
    expect(page.page.locator(".toolbar [role=status]")).to_have_text(re.compile(r"^\d+ commits decided again: no difference$"))
    assert barriers(page.page) == []
    rows.first.get_by_title("Why").click()
    expect(page.page.get_by_role("region", name="Why", exact=True)).to_contain_text("event.loop.failed == 0 is false")
