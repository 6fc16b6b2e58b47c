"""Barriers in a page that axe finds: what a person who does not see, or uses no mouse, cannot use."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

BEYOND = """() => [...document.querySelectorAll("body, main *")]
    .filter(e => !e.parentElement.closest(".scroll, .tabs, .cut, figure, .json, .editor, .box, .virtual, .log, .unseen"))
    .filter(e => { const box = e.getBoundingClientRect(); return box.width > 1 && (box.right > innerWidth + 1 || box.left < -1) })
    .map(e => e.outerHTML.slice(0, 120))"""
"""The elements beyond the edges of the window."""


@cache
def _axe() -> str:
    return (Path(__file__).parent / "vendor/axe.min.js").read_text()


def barriers(page: Page) -> list[str]:
    """Return every finding of axe, with its place."""
    if not page.evaluate("() => 'axe' in globalThis"):
        page.evaluate(_axe())
    found: dict[str, Any] = page.evaluate(
        "() => axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations'], preload: false})"
    )
    return [
        f"{v['id']}: {v['help']}: {n['target']} {n['any'][0]['message'] if n['any'] else ''}"
        for v in found["violations"]
        for n in v["nodes"]
    ]
