"""The keyboard alone: Tab comes to everything that can be pressed, its focus can be seen, nothing keeps it, and it is somewhere
sensible after a page has changed or a dialog was closed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.console.barriers import barriers
from tests.console.browser import Watched, watched
from tests.console.failures import FAILURES
from tests.console.page_addresses import PAGES
from tests.console.sample_store import Stored

ALIKE = {f"executions/{{{failure.name}}}" for failure in FAILURES[1:]}
"""Pages with the controls of another one."""
MOST = 400
SCRIPT = """globalThis.keys = {
    open: () => document.querySelector("dialog[open]") ?? document,
    controls: () => [...keys.open().querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
        .filter(e => e.tabIndex >= 0 && !e.disabled && e.checkVisibility({visibilityProperty: true}) && !e.dataset.walked),
    pressed: () => [...keys.open().querySelectorAll("*")].filter(e => getComputedStyle(e).cursor === "pointer"
        && getComputedStyle(e.parentElement).cursor !== "pointer" && e.checkVisibility()
        && !e.closest("a, button, summary, label, select, [role=option], [role=treeitem], [role=list], .cm-editor") && !e.querySelector("a, button")),
    name: e => e.outerHTML.slice(0, 110),
    ring: e => {
        const target = e.closest(".editor") ?? e, style = getComputedStyle(target), box = target.getBoundingClientRect();
        if (e.matches("main")) return ""; // which has it after a page change
        if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 1) return "has no outline";
        const grow = parseFloat(style.outlineOffset) + parseFloat(style.outlineWidth);
        const clip = {left: 0, top: 0, right: innerWidth, bottom: innerHeight};
        for (let over = target.parentElement; over; over = over.parentElement) {
            const of = over.getBoundingClientRect(), {overflowX, overflowY} = getComputedStyle(over);
            if (overflowX !== "visible") [clip.left, clip.right] = [Math.max(clip.left, of.left), Math.min(clip.right, of.right)];
            if (overflowY !== "visible") [clip.top, clip.bottom] = [Math.max(clip.top, of.top), Math.min(clip.bottom, of.bottom)];
            if (over.matches("dialog")) break;
        }
        if (box.right <= clip.left || box.left >= clip.right || box.bottom <= clip.top || box.top >= clip.bottom) return "is out of sight";
        const sides = [box.left - grow >= clip.left - 1, box.right + grow <= clip.right + 1, box.top - grow >= clip.top - 1, box.bottom + grow <= clip.bottom + 1];
        return sides.some(Boolean) ? "" : "has an outline that is cut off on all sides";
    },
    here: () => {
        const e = document.activeElement;
        if (!e || e === document.body) return null;
        const [again, fault] = [e.dataset.walked && e !== keys.last, keys.ring(e)]; // a date has parts
        keys.last = e;
        e.dataset.walked = "1";
        return {again: Boolean(again), fault: fault && `${keys.name(e)} ${fault}`, inside: keys.open().contains(e)};
    },
    left: () => [...keys.controls().map(e => `not reached: ${keys.name(e)}`), ...keys.pressed().map(e => `only for a pointer: ${keys.name(e)}`)],
}"""


@pytest.fixture
def desk(chromium: Browser, rich: tuple[Stored, dict[str, str]]) -> Iterator[Watched]:
    with watched(chromium, rich[0].server, width=1280, height=800) as opened:
        yield opened


def walked(page: Page, *, modal: bool = False) -> list[str]:
    """Press Tab until the focus has come round; return what is wrong with its way."""
    page.evaluate(SCRIPT)
    page.evaluate("() => document.querySelectorAll('[data-walked]').forEach(e => delete e.dataset.walked)")
    faults: list[str] = []
    for _ in range(MOST):
        here: Any = page.evaluate("() => keys.here()")
        if here is not None and here["again"]:
            break
        if here is not None:
            faults += [here["fault"]] if here["fault"] else []
            if modal and not here["inside"]:
                faults.append("the focus has left the dialog")
        if page.evaluate("() => document.activeElement.matches('.editor')"):
            page.keyboard.press("Escape")  # Tab alone indents
        page.keyboard.press("Tab")
    else:
        faults.append(f"after {MOST} times it has not come round")
    left: list[str] = page.evaluate("() => keys.left()")
    return faults + left


@pytest.mark.nightly
def test_tab_comes_to_every_control_of_every_page_and_its_focus_is_seen(
    desk: Watched, rich: tuple[Stored, dict[str, str]]
) -> None:
    faults = []
    for address, ready in PAGES.items():
        if address in ALIKE or "tests=1" in address or "start=1" in address:
            continue
        desk.open(address.format(**rich[1]))
        desk.page.locator(ready).first.wait_for(state="attached")
        desk.page.wait_for_load_state("networkidle")
        desk.page.evaluate("() => document.activeElement.blur()")
        faults += [f"{address}: {fault}" for fault in walked(desk.page)]
    assert not faults, "\n".join(faults)


DIALOGS = {
    "executions#keys": ("executions", "Keys"),
    "executions#more": ("executions", "More…"),
    "executions#batch": ("executions?status=failed", "Act on all that fit…"),
    "redrive": ("executions/{items}", "Redrive…"),
    "redrive this": ("executions/{items}", "Redrive this…"),
    "signal": ("executions/{waits}", "Signal…"),
    "cancel": ("executions/{waits}", "Cancel…"),
    "start": ("playbooks/demo%2Fshop", "Start…"),
    "tests": ("playbooks/demo%2Fnightly", "Tests…"),
    "register": ("playbooks/new?draft=1", "Register…"),
    "start text": ("playbooks/new?draft=1", "Start this text…"),
}
"""A page, and the button that opens a dialog."""


@pytest.mark.nightly
def test_a_dialog_keeps_the_focus_until_escape_gives_it_back(desk: Watched, rich: tuple[Stored, dict[str, str]]) -> None:
    faults = []
    for name, (address, words) in DIALOGS.items():
        desk.open("limits", "tbody tr")
        desk.open(address.format(**rich[1]))
        opener = desk.page.get_by_role("button", name=words, exact=True).first
        expect(opener).to_be_enabled()
        opener.press("Enter")
        dialog = desk.page.get_by_role("dialog")
        dialog.wait_for()
        expect(dialog.locator(".busy")).to_have_count(0)
        faults += [f"{name}: {fault}" for fault in [*walked(desk.page, modal=True), *barriers(desk.page)]]
        desk.page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        focused = desk.page.evaluate("() => document.activeElement.outerHTML")
        if focused != opener.evaluate("e => e.outerHTML"):
            faults.append(f"{name}: the focus is on {focused[:80]}")
    assert not faults, "\n".join(faults)


@pytest.mark.nightly
def test_the_search_of_everything_is_left_by_escape_and_gives_the_focus_back(desk: Watched) -> None:
    desk.open("executions", "tbody tr")
    choice = desk.page.get_by_label("Order")
    choice.focus()
    desk.page.keyboard.press("Control+k")
    dialog = desk.page.get_by_role("dialog")
    expect(dialog.get_by_role("combobox")).to_be_focused()
    desk.page.keyboard.type("nothing of that name")
    expect(dialog.get_by_role("option")).to_have_count(0)
    assert barriers(desk.page) == []
    desk.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(choice).to_be_focused()


def test_the_focus_moves_to_the_page_when_its_element_disappears(page: Watched) -> None:
    """A link of the rail does not disappear and keeps the focus."""
    page.open("playbooks", "tbody tr")
    page.open("executions?path=demo/items", "tbody tr")
    opened = page.page
    opened.get_by_role("row").get_by_role("link", name="demo/items").press("Enter")
    opened.locator(".tabs").wait_for()
    expect(opened.locator("main")).to_be_focused()
    opened.get_by_role("link", name="Steps").press("Enter")
    expect(opened.get_by_role("link", name="Steps")).to_be_focused()
    opened.go_back()
    opened.go_back()
    opened.locator("tbody tr").first.wait_for()
    opened.get_by_role("link", name="Limits").press("Enter")
    opened.wait_for_url(re.compile("limits"))
    expect(opened.get_by_role("link", name="Limits")).to_be_focused()


@pytest.mark.nightly
def test_arrows_move_in_a_list_that_tab_passes_over(desk: Watched, rich: tuple[Stored, dict[str, str]]) -> None:
    desk.open(f"executions/{rich[1]['items']}/events", ".virtual .line button")
    opened = desk.page
    events = opened.get_by_role("list", name="Events")
    events.focus()
    for key, number in (("ArrowDown", 1), ("ArrowDown", 2), ("End", 12_024), ("ArrowUp", 12_023), ("Home", 1)):
        opened.keyboard.press(key)
        expect(events.locator("button:focus")).to_be_in_viewport()
        opened.keyboard.press("Enter")
        expect(opened.locator(".slider .where")).to_have_text(re.compile(f"^{number:,} of"))
    desk.open(f"executions/{rich[1]['items']}/decisions", ".virtual .line button")
    opened.get_by_role("list", name="Decisions").press("ArrowDown")
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("Enter")
    expect(opened.locator(".inspector h2")).to_have_text("items")


def test_the_focus_stays_where_a_key_moved_it_while_the_row_before_is_still_loading(
    desk: Watched, rich: tuple[Stored, dict[str, str]]
) -> None:
    desk.open(f"executions/{rich[1]['items']}/events", ".virtual .line button")
    opened = desk.page
    events = opened.get_by_role("list", name="Events")
    held: list[Route] = []
    opened.route(re.compile(r"/events\?.*limit=1\b"), lambda route: held.append(route))
    events.focus()
    opened.keyboard.press("ArrowDown")
    opened.keyboard.press("Enter")
    opened.wait_for_timeout(200)
    opened.keyboard.press("End")
    expect(events.locator("button:focus")).to_be_in_viewport()
    for route in held:
        route.continue_()
    expect(opened.locator(".slider .where")).to_have_text(re.compile("^1 of"))
    expect(events.locator("button:focus")).to_be_in_viewport()
    opened.unroute_all()
    opened.keyboard.press("Enter")
    expect(opened.locator(".slider .where")).to_have_text(re.compile("^12,024 of"))
