"""Pages at the widths of a telephone, a tablet and a desk, light and dark: nothing is beyond an edge, what scrolls can be reached,
and axe finds no barrier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from noetl_core.service.operations.base import Operations
from tests.console.barriers import BEYOND, barriers
from tests.console.browser import Watched, watched
from tests.console.charts import page_of
from tests.console.page_addresses import PAGES, SIMPLE, Served, ids_of
from tests.console.sample_store import Stored
from tests.properties import some
from tests.servers import serving

UNMARKED = """() => [...document.querySelectorAll(".scroll, .tabs, .rail")]
    .filter(e => e.scrollWidth > e.clientWidth + 1 && !getComputedStyle(e).backgroundImage.includes("gradient"))
    .map(e => e.outerHTML.slice(0, 120))"""
"""Elements with more beyond their edge, without a cue for it."""
SIDEWAYS = """() => [document.documentElement, ...document.querySelectorAll("main, .page, .content, dialog .inside")]
    .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => `${e.tagName} ${e.className}: ${e.scrollWidth} of ${e.clientWidth}`)"""
"""Pages and their large parts that scroll sideways."""
HIDDEN = """() => [".tabs", ".rail"].flatMap(within => [...document.querySelectorAll(`${within} > [aria-current]`)])
    .filter(e => { const [box, all] = [e, e.parentElement].map(each => each.getBoundingClientRect());
        return box.left < all.left - 1 || box.right > all.right + 1 }).map(e => e.outerHTML)"""
"""Tabs and places that are chosen and out of sight."""
WIDTHS = (1440, 1024, 390)


@pytest.fixture(scope="module")
def telephone(chromium: Browser, looked_at: Stored) -> Iterator[Watched]:
    with watched(chromium, looked_at.server, dark=True, width=390, height=844) as opened:
        yield opened


@pytest.mark.one_in(9)
@pytest.mark.sized
@pytest.mark.parametrize("address", some(SIMPLE, 2, 1))
def test_a_page_fits_a_telephone_without_barriers(address: str, telephone: Watched, looked_at: Stored) -> None:
    telephone.open(address.format(**ids_of(looked_at)))
    telephone.page.locator(SIMPLE[address]).first.wait_for(state="attached")
    telephone.page.wait_for_load_state("networkidle")
    assert faults(telephone.page) + telephone.page.evaluate(HIDDEN) == []


@pytest.mark.nightly
def test_triggers_need_no_scrolling_on_a_telephone(telephone: Watched) -> None:
    telephone.open("triggers", "tbody tr")
    assert (
        telephone.page.evaluate("[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length")
        == 0
    )
    telephone.page.get_by_role("button", name="Fire now").first.click(trial=True)


def faults(page: Page) -> list[str]:
    return [fault for check in (SIDEWAYS, BEYOND, UNMARKED) for fault in page.evaluate(check)] + barriers(page)


def everywhere(page: Page, name: str) -> list[str]:
    """Return the faults of an opened page at each width in each theme."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            page.wait_for_timeout(100)
            found += [f"{name} {width} {theme}: {fault}" for fault in faults(page)]
    return found


@pytest.mark.nightly
def test_every_page_fits_every_width_in_both_themes_without_barriers(
    chromium: Browser, rich: tuple[Stored, dict[str, str]], tmp_path: Path
) -> None:
    store, ids = rich
    found = []
    with watched(chromium, store.server) as hands:
        for address, ready in PAGES.items():
            hands.open(address.format(**ids))
            hands.page.locator(ready).first.wait_for(state="attached")
            hands.page.wait_for_load_state("networkidle")
            found += everywhere(hands.page, address)
        other = hands.page.context.new_page()
        for name, text in reports(store, ids).items():
            file = tmp_path / name
            file.write_text(text)
            other.goto(file.as_uri())
            found += everywhere(other, name)
        with serving(Served(store)) as server:
            for link in (server.link(store, ids["approve"]), f"http://127.0.0.1:{server.server_port}/v1/api/callbacks/none"):
                other.goto(link)
                found += everywhere(other, link)
    assert not found, "\n".join(found)


def reports(store: Stored, ids: dict[str, str]) -> dict[str, str]:
    operations = Operations(lambda: store.wiring.control, bytes)
    return {f"{name}.html": page_of(operations, ids[name]) for name in ("shop", "items", "fans", "hostile", "traceback")}
