"""Two executions beside each other, and one decided again by another version of its playbook, in a browser."""

from __future__ import annotations

import re
from functools import partial

import pytest
from playwright.sync_api import expect

from noetl_core.views.explain.diff import diff
from noetl_core.views.reading.log_parts import ReadLimits
from tests.console.barriers import barriers
from tests.console.browser import Watched
from tests.console.sample_store import SHOP, Stored


@pytest.mark.nightly
def test_two_executions_are_compared_step_by_step(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.shop}", ".actions")
    page.page.get_by_role("link", name="Compare…").click()
    page.page.get_by_label("with").fill(looked_at.small)
    page.page.keyboard.press("Enter")
    page.page.wait_for_url(re.compile(f"a={looked_at.shop}&b={looked_at.small}"))
    whole = page.page.get_by_role("region", name="Differences: As a whole")
    expect(whole).to_contain_text("inputs.orders")
    start = page.page.get_by_role("region", name="Differences: start")
    expect(start.locator("tr", has_text="went to[0]")).to_contain_text('"bulk""single"')
    expect(page.page.get_by_role("region", name="Time")).to_contain_text("did not end")
    assert barriers(page.page) == []
    start.get_by_role("link", name="in B").click()
    page.page.wait_for_url(re.compile(f"executions/{looked_at.small}/graph.step=start"))


@pytest.mark.nightly
def test_comparing_equal_executions_shows_no_difference(hands: Watched, acted_on: Stored) -> None:
    one, other = acted_on.start(SHOP), acted_on.start(SHOP)
    hands.open(f"compare?a={one}&b={other}", ".alike")
    expect(hands.page.get_by_role("region", name="Differences")).to_contain_text("No difference")
    assert barriers(hands.page) == []


@pytest.mark.nightly
def test_iterations_are_compared_by_their_index(hands: Watched, acted_on: Stored) -> None:
    source = SHOP.replace("{{ iter.order * 2 }}", "{{ iter.order * workload.factor }}").replace(
        "region: eu", "region: eu, factor: 2"
    )
    one, other = acted_on.start(source, {"orders": [3, 5, 8]}), acted_on.start(source, {"orders": [3, 5, 9]})
    hands.open(f"compare?a={one}&b={other}", ".apart")
    bulk = hands.page.get_by_role("region", name="Differences: bulk")
    expect(bulk.locator("tbody tr", has_text="iteration 2")).to_contain_text("1618")
    bulk.get_by_role("link", name="iteration 2").click()
    expect(hands.page.locator(".inspector h2")).to_contain_text("@2")


@pytest.mark.nightly
def test_a_partial_comparison_shows_the_totals_of_all_visits(
    hands: Watched, acted_on: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = partial(diff, limits=ReadLimits(whole=0, ends=2))
    monkeypatch.setattr("noetl_core.views.explain.diff.diff", few)
    one, other = acted_on.start(SHOP), acted_on.start(SHOP)
    hands.open(f"compare?a={one}&b={other}", ".alike")
    expect(hands.page.get_by_role("region", name="Differences")).to_contain_text("Only a part was compared.")
    totals = hands.page.get_by_role("region", name="All visits")
    expect(totals).to_contain_text(re.compile(r"(\d+) of \1 visits compared one by one"))
    expect(totals.locator("tbody tr", has_text="bulk")).to_contain_text(re.compile("bulk110"))
    assert barriers(hands.page) == []


@pytest.mark.nightly
def test_an_execution_is_decided_again_by_another_version(page: Watched, looked_at: Stored) -> None:
    page.open(f"compare?a={looked_at.shop}", "#compare-version")
    page.page.get_by_label("or by").select_option("2")
    page.page.wait_for_url(re.compile("version=2"))
    first = page.page.get_by_role("region", name="First difference")
    expect(first).to_contain_text("selected[0].step")
    expect(first.locator("tr", has_text="selected[0].step")).to_contain_text('"bulk""single"')
    expect(first.locator("tr", has_text="LoopStarted")).to_contain_text("not there")
    assert barriers(page.page) == []
    page.page.get_by_label("or by").select_option("1")
    expect(page.page.get_by_role("region", name="Decided again")).to_contain_text("No difference")


@pytest.mark.nightly
def test_a_text_to_decide_by_is_edited(page: Watched, looked_at: Stored) -> None:
    page.open(f"compare?a={looked_at.shop}&version=1", ".alike")
    page.page.get_by_role("button", name="Edit the text…").click()
    editor = page.page.get_by_role("textbox", name="Playbook to decide by")
    editor.click()
    page.page.keyboard.press("Control+A")
    page.page.keyboard.insert_text(SHOP.replace("join: all", "join: any"))
    page.page.get_by_role("button", name="Decide by this text").click()
    expect(page.page.get_by_role("region", name="First difference")).to_be_visible()
    page.page.get_by_role("button", name="Back to version 1").click()
    expect(page.page.get_by_role("region", name="Decided again")).to_contain_text("No difference")


@pytest.mark.nightly
def test_comparing_with_a_missing_execution_shows_an_alert(page: Watched, looked_at: Stored) -> None:
    page.open(f"compare?a={looked_at.shop}&b=17", "[role=alert]")
    expect(page.page.get_by_role("alert")).to_contain_text("there is no execution 17")
