"""A graph of 200 steps in a browser: where it opens, folded branches, the small map, and the search for a step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from noetl_console.answering import Asked
from noetl_console.local import LocalApi
from noetl_core.values.strict_json import loads
from tests.console.barriers import barriers
from tests.console.browser import Watched, watched
from tests.console.charts import fanned, running, stored
from tests.console.http_requests import console

READABLE = 0.85
LOOKS = 100


@pytest.fixture(scope="module")
def execution(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, LocalApi]]:
    with stored(tmp_path_factory.mktemp("graph"), fanned) as made:
        yield made


@pytest.fixture(scope="module")
def opened(chromium: Browser, execution: tuple[str, LocalApi]) -> Iterator[Watched]:
    with console(execution[1]) as server, watched(chromium, server, width=1024, height=768) as page:
        yield page


@pytest.fixture
def drawn(opened: Watched, execution: tuple[str, LocalApi]) -> Page:
    opened.open(f"executions/{execution[0]}/steps", "tbody")
    opened.open(f"executions/{execution[0]}/graph", "canvas[data-drawn]")
    return opened.page


def scale(page: Page) -> float:
    return float((page.locator(".sheet canvas[role=img]").get_attribute("data-drawn") or "").split()[2])


def seen(page: Page, api: LocalApi, execution_id: str, step: str) -> bool:
    """Return whether a step comes wholly onto the canvas, which may have to ask for a layout before."""
    for _ in range(LOOKS):
        if on_canvas(page, api, execution_id, step):
            return True
        page.wait_for_timeout(100)
    return False


def placed(page: Page, api: LocalApi, execution_id: str, step: str) -> tuple[Any, dict[str, float]]:
    """Return the place of a step in the layout that the address asks for, and the part of it that is on the canvas."""
    unfold = "".join(re.findall("unfold=([^&]*)", page.url))
    query = f"layout=1&fold=1&unfold={unfold}"
    graph: Any = loads(api.answer(Asked("GET", f"/api/executions/{execution_id}/graph", query)).body.decode())
    (node,) = (node for node in graph["nodes"] if node["step"] == step)
    canvas = page.locator(".sheet canvas[role=img]")
    x, y, k = map(float, (canvas.get_attribute("data-drawn") or "").split())
    box = canvas.bounding_box()
    assert box
    return node, {"x": x, "y": y, "width": box["width"] / k, "height": box["height"] / k}


def on_canvas(page: Page, api: LocalApi, execution_id: str, step: str) -> bool:
    """Return whether a step is wholly on the canvas now."""
    node, view = placed(page, api, execution_id, step)
    across = view["x"] <= node["x"] and node["x"] + node["width"] <= view["x"] + view["width"]
    return bool(across and view["y"] <= node["y"] and node["y"] + node["height"] <= view["y"] + view["height"])


def from_middle(page: Page, api: LocalApi, execution_id: str, step: str) -> float:
    """Return how far a step is above or below the middle of the canvas."""
    node, view = placed(page, api, execution_id, step)
    return float(abs(node["y"] + node["height"] / 2 - view["y"] - view["height"] / 2))


def test_it_opens_on_the_failed_step_at_a_scale_that_can_be_read(drawn: Page, execution: tuple[str, LocalApi]) -> None:
    assert seen(drawn, execution[1], execution[0], "check_5_7") and scale(drawn) >= READABLE
    expect(drawn.locator("canvas.map")).to_be_visible()
    expect(drawn.get_by_label("Find a step")).to_have_attribute("placeholder", "208 steps…")
    assert barriers(drawn) == []


@pytest.mark.nightly
def test_it_opens_on_the_step_that_runs(chromium: Browser, tmp_path: Path) -> None:
    with stored(tmp_path, running) as (execution, api), console(api) as server, watched(chromium, server, height=600) as page:
        page.open(f"executions/{execution}/graph", "canvas[data-drawn]")
        assert seen(page.page, api, execution, "check_5_7") and scale(page.page) >= READABLE
        middle = {step: from_middle(page.page, api, execution, step) for step in ("load_5_7", "check_5_7", "merge_5")}
        assert min(middle, key=lambda step: middle[step]) == "check_5_7"


@pytest.mark.nightly
def test_enter_in_the_search_goes_to_a_step_in_a_folded_branch(drawn: Page, execution: tuple[str, LocalApi]) -> None:
    drawn.get_by_label("Find a step").fill("check_7_3")
    drawn.keyboard.press("Enter")
    expect(drawn.locator(".inspector h2")).to_have_text("check_7_3")
    expect(drawn).to_have_url(re.compile("unfold=check_7_3"))
    expect(drawn.get_by_role("button", name="Fold branches")).to_be_visible()
    assert seen(drawn, execution[1], execution[0], "check_7_3") and scale(drawn) >= READABLE


@pytest.mark.nightly
def test_branches_unfold_by_keys_and_all_at_once(drawn: Page, execution: tuple[str, LocalApi]) -> None:
    canvas = drawn.locator(".sheet canvas[role=img]")
    canvas.focus()
    drawn.keyboard.press("ArrowDown")
    expect(drawn.locator(".inspector h2")).to_have_text("fan_0")
    drawn.keyboard.press("ArrowDown")
    expect(drawn.get_by_role("status").filter(has_text="12 branches of fan_0: 24 steps, ok; Enter unfolds them")).to_have_count(1)
    drawn.keyboard.press("Enter")
    expect(drawn).to_have_url(re.compile("unfold=fan_0"))
    assert seen(drawn, execution[1], execution[0], "fan_0")
    drawn.get_by_role("button", name="Unfold all").click()
    expect(drawn.get_by_role("button", name="Unfold all")).to_have_count(0)
    drawn.get_by_role("button", name="Fold branches").click()
    expect(drawn.get_by_role("button", name="Unfold all")).to_have_count(1)


@pytest.mark.nightly
def test_the_map_moves_the_graph(drawn: Page, execution: tuple[str, LocalApi]) -> None:
    box = drawn.locator("canvas.map").bounding_box()
    assert box
    drawn.mouse.click(box["x"] + box["width"] / 2, box["y"] + 3)
    assert seen(drawn, execution[1], execution[0], "fan_0")
    drawn.locator(".sheet canvas[role=img]").focus()
    drawn.keyboard.press("f")
    expect(drawn.locator("canvas.map")).to_be_hidden()
    assert seen(drawn, execution[1], execution[0], "check_5_7") and scale(drawn) < READABLE


@pytest.mark.nightly
def test_a_step_is_found_on_a_telephone(chromium: Browser, execution: tuple[str, LocalApi]) -> None:
    with console(execution[1]) as server, watched(chromium, server, width=390, height=844, dark=True) as page:
        page.open(f"executions/{execution[0]}/graph", "canvas[data-drawn]")
        page.page.get_by_label("Find a step").fill("merge_2")
        page.page.get_by_role("treeitem", name="merge_2").click()
        expect(page.page.locator(".inspector h2")).to_have_text("merge_2")
        assert barriers(page.page) == []
