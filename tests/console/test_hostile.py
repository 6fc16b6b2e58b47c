"""Values that would like to be something else: markup, very long, written from right to left; and secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from noetl_console.local import LocalApi
from noetl_core.runtime.local import LocalWiring
from tests.console.browser import Watched, watched
from tests.console.http_requests import console
from tests.console.sample_store import HEAD, IMAGE, Stored, carried_out
from tests.properties import some

CANARY = "canary-7f3d9a51c2"
VIEWS = ("graph", "timeline", "steps", "iterations", "events", "logs", "ctx", "cost", "decisions")
KEPT = (
    HEAD
    + """metadata: { name: kept, path: demo/kept }
keychain: [{ name: door, kind: credential, credential: door.key }]
workflow:
  - step: start
    tool:
      kind: python
      args: { key: "{{ keychain.door.password }}" }
      code: |
        import sys
        print("opened with", key)
        print(key, file=sys.stderr)
        result = {"key": key}
    next: { arcs: [{ step: fails, args: { key: "{{ event.result }}" } }] }
  - step: fails
    tool: { kind: python, args: { key: "{{ keychain.door.password }}" }, code: "raise ValueError(f'{key} does not fit')" }
"""
)


@pytest.mark.one_in(9)
@pytest.mark.sized
@pytest.mark.parametrize("view", some(VIEWS, 2))
def test_no_value_becomes_markup(page: Watched, looked_at: Stored, view: str) -> None:
    dialogs: list[str] = []
    page.page.on("dialog", lambda d: dialogs.append(d.message))
    page.open(f"executions/{looked_at.hostile}/{view}?step=fails", ".inspector")
    page.page.wait_for_load_state("networkidle")
    assert page.page.locator("img[onerror], img[src='x']").count() == 0
    assert dialogs == []
    if view != "iterations":
        expect(page.page.locator(".brief, .overview .failure").first).to_contain_text(IMAGE)


@pytest.mark.nightly
def test_texts_from_right_to_left_stay_in_their_place(page: Watched, looked_at: Stored) -> None:
    page.open(f"executions/{looked_at.hostile}/logs", ".log article")
    for element in page.page.locator(".log pre").all():
        assert element.locator("bdi").count() == 1
    page.open("executions", "tbody tr")
    assert page.page.locator("tbody td:nth-child(7)", has_text="<img").locator("bdi").count() > 0


@pytest.mark.nightly
def test_nothing_is_wider_than_the_page_however_long_it_is(page: Watched, looked_at: Stored) -> None:
    for address in (
        "executions",
        f"executions/{looked_at.hostile}/steps?step=start",
        f"executions/{looked_at.hostile}/graph?step=fails",
        f"compare?a={looked_at.hostile}&b={looked_at.shop}",
    ):
        page.open(address, "h1")
        page.page.wait_for_load_state("networkidle")
        assert page.page.evaluate(
            "document.documentElement.scrollWidth <= innerWidth && document.querySelector('main').scrollWidth <= innerWidth"
        )


@pytest.fixture
def with_a_secret(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Watched, str]]:
    """A page, and the execution that read a secret."""
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    (tmp_path / "credentials.json").write_text(json.dumps({"door.key": {"type": "password", "data": {"password": CANARY}}}))
    (tmp_path / "credentials.json").chmod(0o600)
    store = str(tmp_path / "runs.db")
    wiring = LocalWiring(store)
    execution = carried_out(wiring, KEPT)
    error = wiring.control.load(execution).failure
    wiring.close()
    assert "does not fit" in str(error), error
    api = LocalApi(store)
    with console(api) as server, watched(chromium, server) as page:
        yield page, execution
    api.close()


def test_a_secret_comes_into_no_page(with_a_secret: tuple[Watched, str]) -> None:
    page, execution = with_a_secret
    answers: list[str] = []
    page.page.on("response", lambda r: answers.append(r.text()) if "/api/" in r.url and r.status != 304 else None)
    for view, step in zip(VIEWS, cycle(("start", "fails")), strict=False):  # both show the same in a view
        page.open(f"executions/{execution}/{view}?step={step}", ".inspector")
        page.page.wait_for_load_state("networkidle")
        if page.page.locator(".inspector").get_by_role("button", name="Show", exact=True).count():
            page.page.locator(".inspector").get_by_role("button", name="Show", exact=True).click()
        page.page.wait_for_load_state("networkidle")
        assert CANARY not in page.page.content()
    assert len(answers) > 20
    assert not [a for a in answers if CANARY in a]
