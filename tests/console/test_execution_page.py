"""The page of one execution, in a browser: its views, what is selected, and the time cursor that all of them share."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from noetl_core.views.explain import cost
from tests.console.answers import asked
from tests.console.barriers import barriers
from tests.console.browser import Watched
from tests.console.sample_store import HEAD, Stored
from tests.properties import some

VIEWS = ("overview", "graph", "timeline", "steps", "iterations", "events", "logs", "ctx", "cost", "decisions")


def tree(page: Page) -> dict[str, str]:
    """Steps by the tree beside the graph, with their statuses."""
    items = page.get_by_role("treeitem").all()
    return {i.locator("bdi").inner_text(): i.locator(".unseen").inner_text() for i in items}


@pytest.mark.one_in(9)
@pytest.mark.sized
@pytest.mark.parametrize("view", some(VIEWS, 2))
def test_each_view_is_shown_without_errors_and_has_no_barriers(page: Watched, looked_at: Stored, view: str) -> None:
    for execution in (looked_at.shop, looked_at.items, looked_at.approve):
        page.open(f"executions/{execution}/{view}", ".slider")
        page.page.wait_for_load_state("networkidle")
        expect(page.page.locator(".view")).to_be_visible()
        expect(page.page.get_by_role("alert")).to_have_count(0)
        assert barriers(page.page) == []


@pytest.mark.nightly
def test_costs_of_a_long_history_are_marked_as_estimated(
    page: Watched, looked_at: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.open(f"executions/{looked_at.items}/cost", "tbody tr")
    expect(page.page.get_by_role("region", name="By step")).not_to_contain_text("estimated")
    monkeypatch.setattr(cost, "READ", 1)
    page.open(f"executions/{looked_at.shop}/cost", "tbody tr")
    found = asked(looked_at, f"executions/{looked_at.shop}/cost")["estimated"]
    note = f"estimated: {found['read']} of {found['commits']} commits were read"
    expect(page.page.get_by_role("region", name="By step")).to_contain_text(note)


@pytest.mark.nightly
def test_the_tree_lists_the_steps_and_statuses_of_the_graph(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.shop}/graph", "canvas")
    expect(page.page.get_by_role("treeitem")).to_have_count(6)
    assert tree(page.page) == {
        "start": "ok",
        "bulk": "ok",
        "ship": "ok",
        "invoice": "ok",
        "notify": "ok",
        "single": "not reached",
    }
    page.page.get_by_role("tree").focus()
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("ArrowDown")
    expect(page.page.get_by_role("complementary", name="Selected")).to_contain_text("bulk")
    assert "step=bulk" in page.page.url


@pytest.mark.nightly
def test_the_canvas_is_used_by_pointer_and_by_keys(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.shop}/graph", "canvas")
    canvas = page.page.locator("canvas[role=img]")
    canvas.focus()
    page.page.keyboard.press("ArrowDown")
    expect(page.page.locator(".inspector h2")).to_have_text("start")
    page.page.keyboard.press("ArrowDown")
    expect(page.page.locator(".inspector h2")).to_have_text("bulk")
    before = canvas.screenshot()
    page.page.keyboard.press("+")
    page.page.wait_for_timeout(100)
    assert canvas.screenshot() != before
    page.page.keyboard.press("Escape")
    expect(page.page.locator(".inspector")).to_have_count(0)


@pytest.mark.nightly
def test_a_graph_that_nobody_has_moved_fits_its_canvas_again(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.shop}/graph", "canvas[data-drawn]")
    canvas = page.page.locator("canvas[role=img]")

    def scale() -> float:
        page.page.wait_for_timeout(200)
        return float((canvas.get_attribute("data-drawn") or "").split()[2])

    whole = scale()
    page.page.set_viewport_size({"width": 1360, "height": 700})
    assert scale() < whole
    expect(page.page.locator("canvas.map")).to_be_hidden()
    canvas.focus()
    page.page.keyboard.press("+")
    moved = scale()
    page.page.set_viewport_size({"width": 1360, "height": 820})
    assert scale() == moved


def at_random_positions(page: Watched, stored: Stored, execution: str, positions: int) -> None:
    """The tree beside the graph, and the status, are those of `state?at=` of the same event."""
    page.open(f"executions/{execution}/graph", "canvas")
    count = asked(stored, f"executions/{execution}/changes", "limit=0")["count"]
    slider = page.page.get_by_role("slider", name="Event")
    for position in random.Random(7).sample(range(count), positions):
        slider.fill(str(position))
        (event,) = asked(stored, f"executions/{execution}/events", f"at={position}&limit=1")["events"]
        page.page.wait_for_url(re.compile(f"at={re.escape(event['event_id'])}"))
        state = asked(stored, f"executions/{execution}/state", f"at={event['event_id']}")
        expect(page.page.locator(".head .chip")).to_have_text(f"{state['status']} then")
        reached = {name: s["status"] for name, s in state["steps"].items() if s["visits"]}
        page.page.wait_for_selector(f".graph[data-at='{position}']")
        shown = {name: status for name, status in tree(page.page).items() if status != "not reached"}
        waiting = {token["step"] for token in state["tokens"]}
        assert shown.keys() - waiting == reached.keys() - waiting, position
        assert {n: s for n, s in shown.items() if reached.get(n)} == {n: s for n, s in reached.items() if s}, position


@pytest.mark.nightly
def test_the_slider_matches_the_state_endpoint_at_random_positions(page: Watched, looked_at: Stored) -> None:
    at_random_positions(page, looked_at, looked_at.shop, 60)


@pytest.mark.soak
def test_the_slider_matches_the_state_endpoint_throughout_a_long_history(page: Watched, looked_at: Stored) -> None:
    at_random_positions(page, looked_at, looked_at.items, 200)


@pytest.mark.nightly
def test_a_link_to_a_moment_and_a_step_leads_there(page: Watched, looked_at: Stored) -> None:
    (event,) = asked(looked_at, f"executions/{looked_at.shop}/events", "at=10&limit=1")["events"]
    page.open(f"executions/{looked_at.shop}/steps?step=start&at={event['event_id']}&n=10", ".slider .event b")
    expect(page.page.locator(".slider .event")).to_contain_text(event["name"])
    expect(page.page.get_by_role("slider", name="Event")).to_have_value("10")
    page.page.get_by_role("button", name="Now").click()
    expect(page.page.locator(".head .chip")).to_have_text("completed")


@pytest.mark.nightly
def test_events_are_filtered_and_each_is_a_moment(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.items}/events", ".virtual .line")
    page.page.get_by_label("Name").fill("StepFailed")
    page.page.keyboard.press("Tab")
    expect(page.page.locator(".virtual .line")).to_have_count(1)
    page.page.locator(".virtual .line button").click()
    expect(page.page.locator(".slider .event")).to_contain_text("StepFailed")


@pytest.mark.nightly
def test_a_filter_that_is_typed_survives_a_page_that_is_drawn_again(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.items}/events", ".virtual .line")
    page.page.get_by_label("Name").fill("StepFailed")
    page.page.evaluate(
        """() => {
            const status = document.getElementById("event-status");
            status.value = "error";
            status.dispatchEvent(new Event("change", { bubbles: true }));
        }"""
    )  # as an event that arrives meanwhile
    expect(page.page.locator(".virtual .line")).not_to_have_count(33)
    expect(page.page.get_by_label("Name")).to_have_value("StepFailed")
    page.page.keyboard.press("Tab")
    expect(page.page.locator(".virtual .line")).to_have_count(1)


def test_logs_show_task_output_and_can_be_filtered(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.shop}/logs", ".log article")
    expect(page.page.locator(".log")).to_contain_text("3 orders from eu")
    expect(page.page.locator(".log pre.err")).to_have_text("prices are net\n")
    page.page.get_by_label("Search").fill("ORDERS from")
    page.page.keyboard.press("Enter")
    expect(page.page.locator(".log pre")).to_have_text(["3 orders from eu"])
    page.page.get_by_label("Search").fill("")
    page.page.keyboard.press("Enter")
    page.page.get_by_label("Lines").select_option("Standard error")
    expect(page.page.locator(".log pre")).to_have_text(["prices are net"])
    page.page.get_by_label("Follow").check()
    page.page.get_by_label("Lines").select_option("Warnings and errors")
    expect(page.page.locator(".empty")).to_contain_text("No line fits")


@pytest.mark.nightly
def test_a_template_is_rendered(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.shop}/ctx", "#template")
    page.page.get_by_role("textbox", name="Template").fill("{{ ctx.last * 100 }}")
    page.page.get_by_role("button", name="Render").click()
    expect(page.page.locator(".box .json")).to_have_text("800")


TRIES = (
    HEAD
    + """metadata: { name: tries, path: demo/tries }
workflow:
  - step: tries
    tool: { name: call, kind: python, code: "raise ValueError('no')", spec: { policy: { rules: [{ else: { then: { do: retry, attempts: 3, delay: 0.01 } } }] } } }
"""
)


@pytest.mark.nightly
def test_each_attempt_has_its_own_row_and_parked_tokens_are_counted(hands: Watched, acted_on: Stored) -> None:
    execution = acted_on.start(TRIES)
    hands.open(f"executions/{execution}/timeline", ".lane")
    run = hands.page.get_by_role("treeitem", name=re.compile("3 attempts"))
    expect(run.locator(".lane i.bad")).to_have_count(3)
    expect(hands.page.get_by_role("treeitem", name=re.compile("^call"))).to_have_count(3)

    def parked(route: Route) -> None:
        answer = route.fetch()
        steps: dict[str, Any] = {"tries": {"status": None, "visits": 0, "open": 0, "tokens": 1, "parked": 1, "arcs": {}}}
        route.fulfill(response=answer, json={**answer.json(), "steps": steps})

    hands.page.route("**/changes?*", parked)
    hands.open("executions", "tbody tr")
    hands.open(f"executions/{execution}/steps", "tbody tr")
    expect(hands.page.locator("tbody td").nth(4)).to_have_text("1")
