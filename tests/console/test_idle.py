"""Pages to which nothing happens ask for little."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Request

from tests.console.browser import Watched
from tests.console.stored import Stored
from tests.properties import some

MOST = 12
"""Requests in a minute."""
PAGES = {
    "executions": "tbody tr",
    "executions/{waits}": ".waits",
    "executions/{waits}/logs": ".slider",
    "executions/{shop}": ".overview",
    "inbox": "li.card",
    "triggers": "tbody tr",
    "limits": ".empty",
}


@pytest.mark.sized
@pytest.mark.parametrize("address", some(PAGES, 2))
def test_an_idle_page_asks_twelve_times_a_minute_at_most(address: str, page: Watched, looked_at: Stored) -> None:
    page.page.clock.install()
    page.open(address.format(waits=looked_at.waits, shop=looked_at.shop), PAGES[address])
    page.page.wait_for_load_state("networkidle")
    run(page, 60)
    page.requests.clear()
    run(page, 60)
    asked = [urlsplit(url).path for url in page.requests if "/api/" in url]
    assert 1 <= len(asked) <= MOST, asked


def run(page: Watched, seconds: int) -> None:
    """Let time pass for the timers of a page, and wait until each request is answered."""
    pending: set[Request] = set()
    page.page.on("request", lambda request: pending.add(request))
    page.page.on("requestfinished", lambda request: pending.discard(request))
    page.page.on("requestfailed", lambda request: pending.discard(request))
    for _ in range(seconds // 2):
        page.page.clock.run_for(2000)
        page.page.wait_for_function("() => true")
        while pending:
            page.page.wait_for_timeout(5)
