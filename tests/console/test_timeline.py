"""The timeline in a browser: what is below a run, the scale, zoom by pointer and by keys, and the critical path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from noetl_console.local import LocalApi
from tests.console.answers import asked
from tests.console.barriers import BEYOND, barriers
from tests.console.browser import Watched, watched
from tests.console.charts import busy, stored
from tests.console.http_requests import console
from tests.console.sample_store import Stored


@pytest.fixture(scope="module")
def execution(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, LocalApi]]:
    with stored(tmp_path_factory.mktemp("timeline"), lambda wiring: busy(wiring, items=120)) as made:
        yield made


@pytest.fixture(scope="module")
def opened(chromium: Browser, execution: tuple[str, LocalApi]) -> Iterator[Watched]:
    with console(execution[1]) as server, watched(chromium, server, width=1024, height=900) as page:
        yield page


@pytest.fixture
def chart(opened: Watched, execution: tuple[str, LocalApi]) -> Page:
    opened.open(f"executions/{execution[0]}/steps", "tbody")
    opened.open(f"executions/{execution[0]}/timeline", ".gantt .line")
    return opened.page


def row(page: Page, begins: str) -> Locator:
    return page.get_by_role("treeitem", name=re.compile(f"^{begins}")).first


def names(page: Page) -> list[str]:
    return page.get_by_role("tree").locator(".cut bdi").all_inner_texts()


def unfold(page: Page, begins: str) -> None:
    row(page, begins).locator(".twist").click()


def all_round(texts: list[str]) -> bool:
    """Return whether ticks are multiples of a distance that is 1, 2 or 5 of a power of ten, 15 or 30 seconds."""
    shown = [float(text.split()[0]) * (1000 if text.endswith(" s") else 1) for text in texts if text]
    step = min(b - a for a, b in pairwise(shown))
    return (f"{step:e}"[0] in "125" or step == 30_000) and all(abs(t / step - round(t / step)) < 1e-6 for t in shown)


def test_attempts_waits_iterations_and_calls_have_rows_of_their_own(chart: Page) -> None:
    for begins in ("parcel", "prices", "fetch"):
        unfold(chart, begins)
    unfold(chart, "calls demo.parcel")
    expect(row(chart, "120 iterations")).to_be_visible()
    expect(row(chart, "weigh")).to_be_visible()
    found = names(chart)
    first = found.index("fetch")
    delay = "waits for the next attempt"
    assert found[first + 1 : first + 6] == ["fetch_task", delay, "fetch_task, attempt 2", delay, "fetch_task, attempt 3"]
    call = found.index("calls demo/parcel")
    assert found[call + 1 : call + 3] == ["weigh", "label"]
    loop = found.index("120 iterations")
    assert found[loop + 1 : loop + 3] == ["@17 failed", "@99 failed"]
    assert all(name.endswith(" slow") for name in found[loop + 3 : loop + 8])
    expect(row(chart, "@17 failed")).to_contain_text("error, from")
    assert row(chart, "weigh").get_attribute("aria-level") == "3"
    assert barriers(chart) == [] and chart.evaluate(BEYOND) == []
    row(chart, "@17 failed").locator(".cut").click()
    expect(chart.locator(".inspector h2")).to_have_text("prices @17")


def test_idle_time_is_folded_and_ticks_are_round(chart: Page) -> None:
    ticks = chart.locator(".axis span:not(.idle)")
    expect(chart.locator(".axis span.idle")).to_have_count(1)
    expect(ticks.first).to_have_text("0")
    folded = row(chart, "fetch").locator("i.critical").bounding_box()
    assert all_round(ticks.all_inner_texts())
    chart.get_by_label("Fold idle time").uncheck()
    expect(chart.locator(".axis span.idle")).to_have_count(0)
    whole = row(chart, "fetch").locator("i.critical").bounding_box()
    assert folded and whole and folded["width"] > 1.3 * whole["width"]
    assert all_round(ticks.all_inner_texts()) and ticks.last.inner_text().endswith(" s")


@pytest.mark.nightly
def test_a_part_is_zoomed_to_by_drawing_over_it(chart: Page) -> None:
    box = chart.locator(".gantt > .whole > .grid").bounding_box()
    assert box
    across = box["y"] + 60
    chart.mouse.move(box["x"] + 100, across)
    chart.mouse.down()
    chart.mouse.move(box["x"] + 200, across, steps=3)
    expect(chart.locator("i.pick")).to_be_visible()
    chart.mouse.up()
    expect(chart).to_have_url(re.compile(r"z=\d"))
    expect(chart.locator(".inspector")).to_have_count(0)
    chart.reload()
    chart.wait_for_selector(".gantt .line")
    expect(chart.get_by_role("status").filter(has_text=" to ")).to_be_visible()
    chart.get_by_role("button", name="All of it").click()
    expect(chart).not_to_have_url(re.compile("z="))


@pytest.mark.nightly
def test_keys_alone_unfold_zoom_and_select(chart: Page) -> None:
    tree = chart.get_by_role("tree")
    tree.focus()
    for key in ("Home", "ArrowRight", "ArrowDown"):
        chart.keyboard.press(key)
    expect(chart.locator(".line.active bdi")).to_have_text("fetch_task")
    chart.keyboard.press("z")
    expect(chart).to_have_url(re.compile("z="))
    before = chart.url
    chart.keyboard.press("Shift+ArrowRight")
    expect(chart).not_to_have_url(before)
    chart.keyboard.press("-")
    chart.keyboard.press("f")
    expect(chart).not_to_have_url(re.compile("z="))
    chart.keyboard.press("ArrowLeft")
    expect(chart.locator(".line.active bdi")).to_have_text("fetch")
    chart.keyboard.press("ArrowLeft")
    assert "fetch_task" not in names(chart)
    chart.keyboard.press("Enter")
    expect(chart.locator(".inspector h2")).to_have_text("fetch")


@pytest.mark.nightly
def test_the_slowest_iteration_is_shown_beyond_the_first_page(page: Watched, looked_at: Stored) -> None:
    found: list[Any] = []
    cursor = None
    while cursor is not None or not found:
        query = "limit=1000" + (f"&after={cursor}" if cursor else "")
        answer = asked(looked_at, f"executions/{looked_at.items}/steps/items/iterations", query)
        cursor = answer["cursor"]
        found += answer["iterations"]
    (slowest, *_) = sorted((i for i in found if i["status"] == "ok"), key=lambda i: -i["duration_ms"])
    page.open(f"executions/{looked_at.items}/timeline", ".gantt .line")
    unfold(page.page, "items")
    expect(row(page.page, "first 1,000 of 3,000 iterations")).to_be_visible()
    expect(row(page.page, "@1618 failed")).to_be_visible()
    expect(row(page.page, f"@{slowest['index']} slow")).to_be_visible()


@pytest.mark.nightly
def test_the_critical_path_can_be_alone(chart: Page) -> None:
    chart.get_by_label("Critical path only").check()
    expect(row(chart, "quick")).to_have_count(0)
    assert names(chart)[0] == "fetch" and {"parcel", "pause", "total"} <= set(names(chart))


@pytest.mark.nightly
@pytest.mark.parametrize(("width", "dark"), [(1440, True), (390, False), (390, True)])
def test_it_has_no_barriers_at_any_width(chromium: Browser, execution: tuple[str, LocalApi], width: int, dark: bool) -> None:
    with console(execution[1]) as server, watched(chromium, server, width=width, height=844, dark=dark) as page:
        page.open(f"executions/{execution[0]}/timeline", ".gantt .line")
        unfold(page.page, "fetch")
        expect(row(page.page, "fetch_task, attempt 3")).to_be_visible()
        assert barriers(page.page) == [] and page.page.evaluate(BEYOND) == []
