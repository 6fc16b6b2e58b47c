"""The console of a stack: requests are passed on, and what is done there is carried out there."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from noetl_console.remote import RemoteApi
from noetl_core.client import Client
from noetl_infra.stack import Stack
from tests.console.asking import console
from tests.console.barriers import barriers
from tests.console.browser import watched
from tests.console.stored import APPROVE, SHOP

pytestmark = pytest.mark.e2e
PATIENCE_MS = 180_000


def test_a_playbook_is_started_followed_answered_and_looked_at(stack: Stack, chromium: Browser) -> None:
    client = Client(stack.api_url)
    client.register(SHOP)
    client.register(APPROVE)
    api = RemoteApi(stack.api_url, None)
    with console(api) as server, watched(chromium, server) as hands:
        page = hands.page
        hands.open("playbooks/demo%2Fshop?start=1", "dialog input")
        page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).click()
        page.wait_for_url(re.compile(r"executions/\d+"))
        expect(page.locator(".head .chip")).to_have_text("completed", timeout=PATIENCE_MS)
        for view in ("graph", "timeline", "steps", "events", "logs", "ctx", "cost"):
            page.keyboard.press("Escape")
            page.get_by_role("link", name=view.capitalize(), exact=True).click()
            page.wait_for_load_state("networkidle")
            expect(page.get_by_role("alert")).to_have_count(0)
            assert barriers(page) == []
        client.start(path="demo/approve", payload={"amount": 79})
        hands.open("inbox", "h1")
        card = page.locator("li.card", has_text="Approve 79 EUR?")
        card.get_by_role("button", name="Answer…").click(timeout=PATIENCE_MS)
        card.get_by_label("Approved").check()
        card.get_by_role("button", name="Answer", exact=True).click()
        expect(card).to_have_count(0, timeout=PATIENCE_MS)
        hands.open("executions?path=demo/approve", "tbody tr")
        expect(page.locator("tbody tr").first).to_contain_text("completed", timeout=PATIENCE_MS)
    api.close()
