"""Triggers and limits, in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from noetl_core.control.admit import register
from tests.console.barriers import barriers
from tests.console.browser import Watched
from tests.console.page_addresses import LIMITED
from tests.console.sample_store import NIGHTLY, WAITS, Stored


def test_a_trigger_is_switched_off_and_on_and_fired(hands: Watched, acted_on: Stored) -> None:
    hands.open("triggers", "tbody tr")
    row = hands.page.locator("tbody tr", has_text="demo/nightly")
    expect(row).to_contain_text("0 2 * * * UTC")
    assert barriers(hands.page) == []
    row.get_by_role("button", name="Disable").click()
    expect(row.locator(".chip")).to_have_text("disabled")
    row.get_by_role("button", name="Enable").click()
    expect(row.locator(".chip")).to_have_count(0)
    row.get_by_role("button", name="Fire now").click()
    expect(hands.page.locator(".notices")).to_contain_text("It started")
    hands.open("executions?path=demo/nightly", "tbody tr")
    expect(hands.page.locator("tbody tr")).to_contain_text("completed")


@pytest.mark.nightly
def test_limits_show_their_holder_and_executions_show_the_limit_they_wait_for(hands: Watched, acted_on: Stored) -> None:
    holder = acted_on.start(LIMITED)
    hands.open("limits", "tbody tr")
    hands.page.get_by_role("button", name="door").click()
    who = hands.page.get_by_role("region", name="Who")
    expect(who).to_contain_text("holds")
    expect(who.get_by_role("link", name=holder)).to_be_visible()
    assert barriers(hands.page) == []
    late = acted_on.start(LIMITED)
    hands.open("executions?path=demo/limited", "tbody tr")
    row = hands.page.locator("tbody tr", has_text=late[-8:])
    expect(row).to_contain_text("waiting")
    expect(row).to_contain_text("waits for limit door 1/1")
    hands.open(f"executions/{late}", "section.waits")
    expect(hands.page.locator("section.waits")).to_contain_text("Waits for limit door 1/1 as number 1 in the queue")
    expect(hands.page.locator("section.waits").get_by_role("link", name=holder[-8:])).to_be_visible()
    assert barriers(hands.page) == []


AGAIN = WAITS.replace("demo/waits", "demo/again").replace(
    "kind: callback, signal: go_on",
    'kind: noop, result: "{{ 1 / 0 }}", spec: { policy: { rules: [{ else: { then: { do: retry, attempts: 3, delay: 600 } } }] } }',
)


@pytest.mark.nightly
def test_a_status_count_lists_its_executions_with_their_waits(hands: Watched, acted_on: Stored) -> None:
    tries = acted_on.start(AGAIN, labels={"count": "a"})
    waits = acted_on.start(WAITS, labels={"count": "a"})
    hands.open("executions?label=count:a", "tbody tr")
    counts = hands.page.get_by_role("navigation", name="By status")
    for status, execution_id, words in (
        ("retrying", tries, "waits for the next attempt"),
        ("waiting", waits, "waits for the signal go_on"),
    ):
        counts.get_by_role("link", name=re.compile(rf"^1\s*{status}$")).click()
        row = hands.page.locator("tbody tr")
        expect(row).to_have_count(1)
        expect(row).to_contain_text(execution_id[-8:])
        expect(row).to_contain_text(status)
        expect(row).to_contain_text(words)
        assert barriers(hands.page) == []
    hands.page.get_by_label("Status", exact=True).select_option("retrying")
    expect(hands.page.locator("tbody tr")).to_contain_text(tries[-8:])
    hands.page.get_by_role("button", name="Act on all that fit…").click()
    preview = hands.page.get_by_role("dialog").get_by_role("region", name="Preview")
    expect(preview).to_contain_text("1 execution would be cancelled")
    expect(preview).to_contain_text("demo/again")


STRICT = NIGHTLY.replace("demo/nightly", "demo/strict").replace(
    'schedule: "0 2 * * *"', 'schedule: "0 2 * * *", payload: { day: "{{ trigger.scheduled_at }}" }'
)
"""Its workload wants a day, and its trigger gives an instant."""
DAY = "workload:\n  day: ''\n  x-schema: { type: object, properties: { day: { type: string, maxLength: 10 } } }\n"


@pytest.mark.nightly
def test_a_failed_start_can_be_retried_or_forgotten(hands: Watched, acted_on: Stored) -> None:
    register(acted_on.wiring.control, STRICT.replace("workflow:", f"{DAY}workflow:"))
    hands.open("triggers", "tbody tr")
    row = hands.page.get_by_role("region", name="List of triggers").locator("tr", has_text="demo/strict")
    for _ in range(2):
        row.get_by_role("button", name="Fire now").click()
        expect(row.get_by_role("button", name="Fire now")).to_be_enabled()
    left = hands.page.get_by_role("region", name="Could not start")
    expect(left.locator("tbody tr")).to_have_count(2)
    expect(left).to_contain_text("day")
    assert barriers(hands.page) == []
    left.get_by_role("button", name="Try again").first.click()
    expect(hands.page.locator(".notices")).to_contain_text("refused")
    left.get_by_role("button", name="Forget").first.click()
    expect(hands.page.locator(".notices")).to_contain_text("Forgotten")
    expect(left.locator("tbody tr")).to_have_count(1)
    register(acted_on.wiring.control, STRICT)
    left.get_by_role("button", name="Try again").click()
    expect(hands.page.locator(".notices")).to_contain_text("It started")
    expect(left).to_have_count(0)
    hands.open("executions?path=demo/strict", "tbody tr")
    expect(hands.page.locator("tbody tr")).to_contain_text("completed")
