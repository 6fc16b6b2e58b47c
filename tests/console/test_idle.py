"""Pages to which nothing happens ask for little."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.console.browser import Watched
from tests.console.sample_store import Stored
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
    "executions?order=longest": "tbody tr",
    "inbox?open={approve}": ".past",
    "executions/{approve}": ".past",
    "triggers?open=demo/nightly/schedule": ".strip, .card p",
    "compare?a={shop}&b={small}": ".causes",
    "playbooks/demo%2Fshop": ".trend",
}


COUNT_OPEN = """
  const ask = window.fetch;
  window.open_requests = 0;
  window.fetch = async (...of) => {
    window.open_requests += 1;
    try {
      const answer = await ask(...of);
      await answer.clone().arrayBuffer();
      return answer;
    } finally {
      window.open_requests -= 1;
    }
  };
"""
"""Counts the requests that are not answered yet. The page's clock runs far faster than its server."""


@pytest.mark.one_in(9)
@pytest.mark.sized
@pytest.mark.parametrize("address", some(PAGES, 2))
def test_an_idle_page_asks_twelve_times_a_minute_at_most(address: str, page: Watched, looked_at: Stored) -> None:
    page.page.add_init_script(COUNT_OPEN)
    page.page.clock.install()
    page.page.reload()
    page.open(
        address.format(waits=looked_at.waits, shop=looked_at.shop, small=looked_at.small, approve=looked_at.approve),
        PAGES[address],
    )
    page.page.wait_for_load_state("networkidle")
    run(page, 60)
    page.requests.clear()
    run(page, 60)
    asked = [urlsplit(url).path for url in page.requests if "/api/" in url]
    assert 1 <= len(asked) <= MOST, asked


def run(page: Watched, seconds: int) -> None:
    """Let time pass for the timers of a page, and wait until each request is answered."""
    for _ in range(seconds // 2):
        page.page.clock.run_for(2000)
        while page.page.evaluate("window.open_requests"):
            page.page.wait_for_timeout(2)
