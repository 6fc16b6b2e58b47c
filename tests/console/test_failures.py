"""The first screen of an execution that failed shows the cause, without a click. `NOETL_SCREENSHOTS=docs/console` takes the pictures
of docs/console.md again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect

from noetl_core.control.admit import register
from tests.console.browser import Watched
from tests.console.failures import CHILD, FAILURES, Failure, Refuses
from tests.console.sample_store import Stored
from tests.servers import serving

PAGE = Path(__file__).parents[2] / "docs/console.md"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Refuses)) as server:
        yield server.server_port


@pytest.mark.one_in(10)
@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.name)
def test_the_first_screen_shows_the_cause(failure: Failure, port: int, hands: Watched, acted_on: Stored, tmp_path: Path) -> None:
    register(acted_on.wiring.control, CHILD)
    execution = acted_on.start(failure.source.replace("{port}", str(port)))
    acted_on.wiring.run(execution, timeout_s=20)  # one waits for its child
    hands.page.set_viewport_size({"width": 1000, "height": 530})
    hands.open(f"executions/{execution}", ".overview")
    overview = hands.page.locator(".overview")
    expect(overview.locator("[role=status]")).to_have_count(0)
    sentence = overview.locator(".sentence").first
    expect(sentence).to_contain_text(failure.cause)
    box = sentence.bounding_box()
    assert box is not None and box["y"] < 240, "nothing but the head of the page is above it"
    for text in failure.shown:
        expect(
            overview.locator("p, li, pre, .guard").filter(has_text=re.compile(r"\s*".join(map(re.escape, text.split())))).last
        ).to_be_in_viewport()
    hands.page.wait_for_load_state("networkidle")
    folder = Path(os.environ.get("NOETL_SCREENSHOTS", tmp_path)) / "failures"
    folder.mkdir(parents=True, exist_ok=True)
    hands.page.locator(".overview").screenshot(path=folder / f"{failure.name}.png")


@pytest.mark.nightly
def test_the_remedies_of_a_cause_are_two_clicks_away_at_most(hands: Watched, acted_on: Stored) -> None:
    (source,) = (failure.source for failure in FAILURES if failure.name == "iteration")
    earlier, failed = (acted_on.start(source, {"count": count}) for count in (10, 700))
    page = hands.page
    address = f"executions/{failed}"
    hands.open(address, ".overview")
    expect(page.get_by_role("region", name="Input")).to_contain_text("700")
    page.get_by_role("button", name="Iteration 617").click()
    inspector = page.locator(".inspector")
    expect(inspector).to_contain_text("Item")
    expect(inspector).to_contain_text("division by zero")
    hands.open("executions", "tbody tr")
    hands.open(address, ".overview")
    page.get_by_role("link", name="Compare…").click()
    page.get_by_role("link", name=earlier[-6:]).click()
    expect(page.get_by_role("region", name="Causes")).to_contain_text("Another input: count")
    hands.open(address, ".overview")
    page.get_by_role("button", name="Redrive this…").click()
    expect(page.get_by_role("dialog").get_by_role("region", name="Preview")).to_contain_text("617")
    page.get_by_role("dialog").get_by_role("button", name="Redrive", exact=True).click()
    expect(page.locator(".about")).to_contain_text("redriven once", timeout=15_000)


def test_the_page_shows_every_failure() -> None:
    shown = re.findall(r"!\[[^]]+\]\(console/failures/([\w-]+)\.png\)", PAGE.read_text())
    assert shown == [failure.name for failure in FAILURES]
    assert {f.stem for f in (PAGE.parent / "console/failures").iterdir()} == set(shown)
