"""Pages about the past: firings of schedules, the trend of a playbook, causes of a difference, earlier answers; and lists that are
ordered, filtered and kept."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from noetl_core.control.admit import register
from noetl_core.control.triggers.operate import fire
from noetl_core.views.executions.executions import summary
from tests.console.answers import asked
from tests.console.browser import Watched, watched
from tests.console.page_addresses import BERLIN, COLOURS, decided
from tests.console.sample_store import APPROVE, NIGHTLY, Stored


@pytest.mark.nightly
def test_a_schedule_has_its_next_ten_firings_in_both_zones_and_its_past_as_a_strip(hands: Watched, acted_on: Stored) -> None:
    control = acted_on.wiring.control
    register(control, BERLIN)
    late = fire(control, "demo/berlin", "schedule", at="2026-01-05T01:00:00Z")
    acted_on.wiring.run(late["execution_id"], timeout_s=20)
    fire(control, "demo/berlin", "schedule")
    hands.open("triggers", "tbody tr")
    row = hands.page.locator("tr", has_text="demo/berlin")
    row.get_by_role("button", name="schedule").press("Enter")
    opened = hands.page.get_by_role("region", name="Schedule of demo/berlin")
    firings = opened.get_by_role("group", name="Next firings").locator("tbody tr")
    expect(firings).to_have_count(10)
    expect(opened).to_contain_text("Europe/Berlin (the schedule's)")
    expect(firings.first.locator("td").first).to_contain_text("02:00")
    bars = opened.get_by_role("list", name="Past firings").get_by_role("link")
    expect(bars).to_have_count(2)
    expect(bars.last).to_have_accessible_name(re.compile("Now|running|completed"))
    expect(bars.first).to_have_accessible_name(re.compile(r"completed, took .*, started .* d.* late"))
    expect(opened).to_contain_text("2 firings, 1 late")
    bars.first.press("Enter")
    hands.page.wait_for_url(f"**/#/executions/{late['execution_id']}")


@pytest.mark.nightly
def test_the_page_of_a_playbook_has_its_trend(page: Watched, looked_at: Stored) -> None:
    page.open("playbooks/demo%2Fitems", ".trend")
    trend = page.page.get_by_role("region", name="Trend")
    expect(trend).to_contain_text(re.compile(r"1 ended.*p50.*p95"))
    expect(trend.get_by_role("img")).to_have_accessible_name(re.compile("1 ended"))


def test_two_chosen_rows_are_compared_causes_first(page: Watched, looked_at: Stored) -> None:
    page.open("executions?path=demo/shop", "tbody tr")
    page.page.get_by_label(f"Choose {looked_at.shop}").check()
    expect(page.page.get_by_role("link", name="Compare the two")).to_have_count(0)
    page.page.get_by_label(f"Choose {looked_at.small}").check()
    page.page.get_by_role("link", name="Compare the two").click()
    page.page.wait_for_url(re.compile(r"compare\?a=\d+&b=\d+"))
    causes = page.page.get_by_role("region", name="Causes")
    expect(causes.locator("li").first).to_contain_text("Another input: orders")
    expect(causes.locator("li")).to_have_count(1)
    first = page.page.locator("main section.card").first
    expect(first).to_have_attribute("aria-label", "Causes")


ANSWERS: dict[str, Any] = {
    "a": {
        "execution_id": "1",
        "status": "completed",
        "duration_ms": 5,
        "playbook": {"path": "p", "version": 1, "digest": "sha256:aaaaaaaa"},
    },
    "b": {
        "execution_id": "2",
        "status": "failed",
        "duration_ms": 6,
        "playbook": {"path": "p", "version": 2, "digest": "sha256:bbbbbbbb"},
    },
    "differences": [
        {"field": "status", "a": '"completed"', "b": '"failed"'},
        {"step": "load", "visit": 1, "field": "args.day", "a": "1", "b": "2"},
        {"step": "load", "visit": 1, "field": "result", "a": "3", "b": "4"},
        {"step": "price", "visit": 2, "field": "error.kind", "a": "(nothing)", "b": '"http"'},
    ],
    "more": False,
    "durations": [
        {"step": step, "visit": 1, "a_ms": 100, "b_ms": b} for step, b in (("begin", 101), ("load", 99), ("price", 900))
    ],
}


@pytest.mark.nightly
def test_a_cause_is_another_version_else_another_answer_to_the_same_arguments(page: Watched) -> None:
    answers = [ANSWERS, {**ANSWERS, "b": {**ANSWERS["b"], "playbook": ANSWERS["a"]["playbook"]}}]

    def diff(route: Route) -> None:
        route.fulfill(body=json.dumps(answers["other=3" in route.request.url]), content_type="application/json")

    page.page.route(re.compile("/diff"), diff)
    causes = page.page.get_by_role("region", name="Causes").locator("li")
    page.open("compare?a=1&b=2", ".causes")
    expect(causes).to_have_text([re.compile("Another playbook: v1 in A, v2 in B")])
    page.open("compare?a=1&b=3", ".causes")
    expect(causes).to_have_text([re.compile("Another answer: price, visit 2, had the same arguments")])
    expect(page.page.get_by_role("group", name="Times").locator("tbody tr")).to_have_count(1)
    page.page.get_by_text("2 others took about as long").press("Enter")
    expect(page.page.get_by_text("1 step is alike")).to_be_visible()


@pytest.mark.nightly
def test_an_instant_is_answered_in_the_zone_of_the_browser(chromium: Browser, acted_on: Stored) -> None:
    asks = APPROVE.replace("demo/approve", "demo/instant").replace(
        "{ type: string, title: Why }", "{ type: string, format: date-time, title: Why }"
    )
    execution = acted_on.start(asks)
    with watched(chromium, acted_on.server, timezone="Europe/Berlin") as hands:
        hands.open("inbox?path=demo/instant", "li.card")
        expect(hands.page.get_by_text("In your zone (Europe/Berlin)")).to_be_visible()
        hands.page.get_by_label("Why").fill("2026-02-28T10:00")
        hands.page.get_by_role("button", name="Approve").click()
        expect(hands.page.get_by_text("Nobody waits for you")).to_be_visible()
    acted_on.wiring.run(execution, timeout_s=20)
    steps: Any = summary(acted_on.wiring.control, execution)["steps"]
    assert steps["ask"]["result"] == {"approved": True, "reason": "2026-02-28T09:00:00.000Z"}


@pytest.mark.nightly
def test_results_of_earlier_answers_are_shown_beside_the_question(hands: Watched, acted_on: Stored) -> None:
    approved = decided(acted_on, True)
    decided(acted_on, False)
    waits = acted_on.start(APPROVE.replace("demo/approve", "demo/decide"))
    for address in ("inbox?path=demo/decide", f"executions/{waits}"):
        hands.open(address, ".past table")
        past = hands.page.get_by_role("group", name="Outcomes of earlier answers")
        expect(past.locator("tbody tr")).to_have_count(2)
        expect(past.locator("tbody tr").first).to_contain_text(re.compile("Approve.*1 completed.*\\$"))
        expect(past.get_by_role("link", name=approved[-8:])).to_be_visible()
        expect(hands.page.locator(".past")).to_contain_text("From the logs of 2 ended executions")


@pytest.mark.nightly
def test_logs_have_colours_without_markup_and_are_downloaded_as_shown(hands: Watched, acted_on: Stored) -> None:
    execution = acted_on.start(COLOURS)
    hands.open(f"executions/{execution}/logs", ".log article")
    log = hands.page.locator(".log pre")
    expect(log).to_have_text("red <b> plain green\nthe end\n")
    expect(log.locator(".c1.bold")).to_have_text("red <b>")
    expect(log.locator(".c2")).to_have_text("green")
    expect(log.locator(".under")).to_have_text("end")
    hands.page.get_by_label("Search").fill("red <b> plain")
    hands.page.keyboard.press("Enter")
    expect(log).to_have_text("red <b> plain green")
    with hands.page.expect_download() as download:
        hands.page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == f"{execution}.log"
    text = download.value.path().read_text()
    assert re.fullmatch(r"\S+T\S+Z start/\S+ ok\nred <b> plain green\n", text), text


@pytest.mark.nightly
def test_the_list_is_ordered_filtered_and_kept(hands: Watched, acted_on: Stored) -> None:
    ids = [acted_on.start(NIGHTLY.replace("demo/nightly", "demo/order"), labels={"n": str(n)}) for n in range(3)]
    rows = hands.page.locator("tbody tr")
    hands.open("executions?path=demo/order", "tbody tr")
    hands.page.get_by_label("Order").select_option("Oldest first")
    hands.page.wait_for_url(re.compile("order=oldest"))
    expect(rows.first).to_contain_text(ids[0][-8:])
    hands.page.get_by_label("Order").select_option("Longest first")
    expect(hands.page.get_by_text("The longest of all 3 that fit.")).to_be_visible()
    listed = asked(acted_on, "executions", "path=demo/order")["executions"]
    longest = max(listed, key=lambda each: each["duration_ms"])["duration_ms"]
    first = next(e for e in listed if rows.first.inner_text().count(e["execution_id"][-8:]))
    assert first["duration_ms"] == longest
    hands.page.get_by_role("button", name="More…").click()
    dialog = hands.page.get_by_role("dialog")
    dialog.get_by_label("Started until").fill("2020-01-01T10:00")
    dialog.get_by_role("button", name="Show").click()
    expect(hands.page.get_by_text("None fits")).to_be_visible()
    assert "until=2020-01-01T" in hands.page.url
    hands.page.get_by_role("button", name="More…").click()
    dialog.get_by_label("Name of this view").fill("Old orders")
    dialog.get_by_role("button", name="Keep").click()
    hands.page.keyboard.press("Escape")
    hands.open("executions", "tbody tr")
    hands.page.get_by_role("button", name="More…").click()
    dialog.get_by_role("link", name="Old orders").press("Enter")
    hands.page.wait_for_url(re.compile("path=demo%2Forder.*until=2020"))
    expect(dialog).to_have_count(0)
    hands.page.get_by_role("button", name="More…").click()
    dialog.get_by_role("button", name="Forget Old orders").click()
    expect(dialog.get_by_role("link")).to_have_count(0)


def test_acting_on_all_matches_excludes_executions_that_began_later(hands: Watched, acted_on: Stored) -> None:
    acted_on.start(APPROVE.replace("demo/approve", "demo/later"))
    hands.open("executions?path=demo/later", "tbody tr")
    began = asked(acted_on, "executions", "path=demo/later")["executions"][0]["started_at"]
    acted_on.start(APPROVE.replace("demo/approve", "demo/later"))
    hands.open(f"executions?path=demo/later&until={began}", "tbody tr")
    hands.page.get_by_role("button", name="Act on all that fit…").click()
    preview = hands.page.get_by_role("dialog").get_by_role("region", name="Preview")
    expect(preview).to_contain_text("1 execution would be cancelled")
