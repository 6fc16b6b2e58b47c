"""Somebody who has never seen the console finds what failed among very many, sees why, mends it and runs it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from noetl_console.local import LocalApi
from noetl_core.runtime.local import LocalWiring
from tests.console.browser import watched
from tests.console.http_requests import console
from tests.console.sample_store import HEAD, carried_out

MOST_CLICKS = 4
PATIENCE_MS = 300_000
LONG = (
    HEAD
    + """metadata: { name: prices, path: demo/prices }
workload: { count: 8000 }
workflow:
  - step: prices
    args: { least: 1 }
    loop: { in: "{{ range(workload.count) | list }}", iterator: item, spec: { policy: { failure: { mode: best_effort } } } }
    tool: { kind: noop, result: "{{ 12 / (0 if iter.item == 6171 and args.least == 1 else 1) }}" }
    next: { arcs: [{ step: sent, when: "{{ event.loop.failed == 0 }}" }, { step: complain }] }
  - step: complain
    tool: { kind: python, code: "raise ValueError('a price is missing')" }
  - step: sent
    tool: { kind: noop, result: all }
"""
)


@pytest.mark.nightly
@pytest.mark.parametrize("count", [pytest.param(8_000, marks=pytest.mark.slow), pytest.param(100_000, marks=pytest.mark.scale)])
def test_a_failing_iteration_among_very_many_is_found_seen_mended_and_redriven_with_few_clicks(
    chromium: Browser, tmp_path: Path, count: int
) -> None:
    store = str(tmp_path / "runs.db")
    wiring = LocalWiring(store)
    execution = carried_out(wiring, LONG, {"count": count})
    wiring.close()
    clicks = 0

    def click(what: Locator) -> None:
        nonlocal clicks
        clicks += 1
        what.click()

    api = LocalApi(store)
    with console(api) as server, watched(chromium, server) as hands:
        page = hands.page
        hands.open("executions", "tbody tr")
        click(page.get_by_role("row", name="demo/prices").get_by_role("link"))
        page.wait_for_url(f"**/#/executions/{execution}")
        click(page.get_by_role("button", name="Iteration 6171"))
        expect(page.locator(".inspector")).to_contain_text("division by zero")
        expect(page.locator(".inspector .box").first).to_have_text("6171")
        click(page.get_by_role("button", name="Redrive this one…"))
        expect(page.get_by_role("region", name="Preview")).to_contain_text(
            f"iterations 6171 ({count - 1:,} kept)", timeout=PATIENCE_MS
        )
        page.keyboard.press("Tab")
        page.get_by_label("Arguments of the step").fill('{"least": 0}')
        expect(page.get_by_role("button", name="Redrive", exact=True)).to_be_enabled(timeout=PATIENCE_MS)
        click(page.get_by_role("button", name="Redrive", exact=True))
        expect(page.locator(".head .chip")).to_have_text("completed", timeout=PATIENCE_MS)
    api.close()
    assert clicks <= MOST_CLICKS
