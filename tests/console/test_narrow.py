"""Pages on a telephone: nothing of them is beyond its edge, and what scrolls can be reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.console.barriers import BEYOND, barriers
from tests.console.browser import Watched, watched
from tests.console.stored import Stored
from tests.properties import some

PAGES = {
    "executions": "tbody tr",
    "executions/{items}": ".overview .failure",
    "executions/{items}/graph?step=items": ".inspector .heat",
    "executions/{approve}": ".waits",
    "executions/{hostile}/graph?step=fails": ".inspector .failure",
    "executions/{shop}/timeline": ".lane",
    "executions/{items}/steps": "tbody tr",
    "executions/{items}/iterations?step=items&i=617": ".heat",
    "executions/{shop}/events": ".virtual .line",
    "executions/{shop}/logs": ".log article",
    "executions/{shop}/ctx": ".json",
    "executions/{shop}/cost": "tbody tr",
    "executions/{items}/decisions": ".virtual .line",
    "compare?a={shop}&b={small}": ".apart",
    "compare?a={shop}&version=2": ".apart",
    "inbox": "li.card",
    "triggers": "tbody tr",
    "limits": ".empty",
    "playbooks": "tbody tr",
    "playbooks/demo%2Fshop": ".graph canvas[role=img]",
}
"""The required texts, by page."""
UNMARKED = """() => [...document.querySelectorAll(".scroll, .tabs, .rail")]
    .filter(e => e.scrollWidth > e.clientWidth + 1 && !getComputedStyle(e).backgroundImage.includes("gradient"))
    .map(e => e.outerHTML.slice(0, 120))"""
"""Elements with more beyond their edge, without a cue for it."""


@pytest.fixture(scope="module")
def telephone(chromium: Browser, looked_at: Stored) -> Iterator[Watched]:
    with watched(chromium, looked_at.server, dark=True, width=390, height=844) as opened:
        yield opened


@pytest.mark.one_in(9)
@pytest.mark.sized
@pytest.mark.parametrize("address", some(PAGES, 2, 1))
def test_a_page_fits_a_telephone_without_barriers(address: str, telephone: Watched, looked_at: Stored) -> None:
    ids = {name: getattr(looked_at, name) for name in ("items", "approve", "hostile", "shop", "small")}
    telephone.open(address.format(**ids))
    telephone.page.locator(PAGES[address]).first.wait_for(state="attached")
    telephone.page.wait_for_load_state("networkidle")
    assert telephone.page.evaluate(BEYOND) == []
    assert telephone.page.evaluate(UNMARKED) == []
    assert barriers(telephone.page) == []
