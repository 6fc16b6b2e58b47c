"""Takes the pictures of docs/console.md: `NOETL_SCREENSHOTS=docs/console` keeps them, with `NOETL_TIMES=1` all of them. The page names each."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.console import charts
from tests.console.browser import watched
from tests.console.sample_store import Stored
from tests.properties import some

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/console.md"
PICTURES = {
    "executions": ("executions", "tbody tr", False),
    "overview": ("executions/{items}", ".overview .failure", False),
    "graph": ("executions/{items}/graph?step=items", ".inspector .heat", False),
    "iterations": ("executions/{items}/iterations?step=items&i=617", ".heat", True),
    "events": ("executions/{shop}/events?step=", ".virtual .line button", False),
    "timeline": ("executions/{shop}/timeline", ".lane", False),
    "logs": ("executions/{shop}/logs", ".log article", False),
    "ctx": ("executions/{shop}/ctx", ".json", False),
    "cost": ("executions/{shop}/cost", "tbody tr", False),
    "why": ("executions/{shop}/graph?step=bulk", ".why", False),
    "decisions": ("executions/{items}/decisions", ".virtual .line", False),
    "compare": ("compare?a={shop}&b={small}", ".apart", False),
    "again": ("compare?a={shop}&version=2", ".apart", True),
    "batch": ("executions?status=failed", "tbody tr", False),
    "inbox": ("inbox", "li.card", False),
    "triggers": ("triggers?open=demo/nightly/schedule", "h3", False),
    "playbook": ("playbooks/demo%2Fshop", ".graph canvas[role=img]", False),
    "start": ("playbooks/demo%2Fshop?start=1", "dialog input", True),
}
"""Address, what must be there, and whether it is dark."""


@pytest.mark.nightly
@pytest.mark.sized
@pytest.mark.parametrize("name", some(PICTURES, 3))
def test_each_picture_of_the_page_can_be_taken(name: str, chromium: Browser, looked_at: Stored, tmp_path: Path) -> None:
    address, ready, dark = PICTURES[name]
    folder = Path(os.environ.get("NOETL_SCREENSHOTS", tmp_path))
    with watched(chromium, looked_at.server, dark=dark, width=1200, height=720) as hands:
        hands.open(address.format(items=looked_at.items, shop=looked_at.shop, small=looked_at.small), ready)
        if name == "batch":
            hands.page.get_by_role("button", name="Act on all that fit…").click()
            hands.page.get_by_role("region", name="Preview").wait_for()
        hands.page.wait_for_load_state("networkidle")
        folder.mkdir(parents=True, exist_ok=True)
        hands.page.screenshot(path=folder / f"{name}.png")


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["timeline", "graph"])
def test_a_picture_of_much_can_be_taken(name: str, chromium: Browser, looked_at: Stored, tmp_path: Path) -> None:
    folder = Path(os.environ.get("NOETL_SCREENSHOTS", tmp_path)) / "large"
    execution = charts.busy(looked_at.wiring) if name == "timeline" else charts.fanned(looked_at.wiring)
    with watched(chromium, looked_at.server, width=1200, height=820) as hands:
        hands.open(f"executions/{execution}/{name}", "[role=treeitem]")
        for row in ("fetch", "parcel", "calls", "prices") if name == "timeline" else ():
            hands.page.get_by_role("treeitem", name=re.compile(f"^{row}")).first.locator(".twist").click()
        hands.page.wait_for_timeout(200)
        hands.page.wait_for_load_state("networkidle")
        folder.mkdir(parents=True, exist_ok=True)
        hands.page.screenshot(path=folder / f"{name}.png")


def test_the_page_shows_all_of_them() -> None:
    text = PAGE.read_text()
    assert re.findall(r"!\[[^]]+\]\(console/large/([\w-]+)\.png\)", text) == ["timeline", "graph"]
    shown = set(re.findall(r"!\[[^]]+\]\(console/([\w-]+)\.png\)", text))
    assert shown == {*PICTURES, "sign-in"}  # test_deployed.py takes "sign-in"
    assert {f.stem for f in (ROOT / "docs/console").iterdir() if f.is_file()} == shown
