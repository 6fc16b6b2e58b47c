"""The page of the link to a callback, in a browser on a telephone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.barriers import BEYOND, barriers
from tests.console.page_addresses import Served
from tests.console.sample_store import APPROVE, Stored
from tests.servers import serving


@pytest.fixture(params=["light", "dark"])
def telephone(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, color_scheme=request.param)
    yield context.new_page()
    context.close()


@pytest.mark.one_in(2)
def test_a_question_is_answered_on_a_telephone_with_one_touch(telephone: Page, acted_on: Stored) -> None:
    execution = acted_on.start(APPROVE, {"amount": 91})
    with serving(Served(acted_on)) as server:
        telephone.goto(server.link(acted_on, execution))
        expect(telephone.get_by_role("heading")).to_have_text("Approve 91 EUR?")
        assert telephone.evaluate(BEYOND) == []
        assert barriers(telephone) == []
        telephone.get_by_label("Why").fill("it is cheap")
        telephone.get_by_role("button", name="Approve").click()
        expect(telephone.get_by_role("heading")).to_have_text("Thank you")
        assert barriers(telephone) == []
        telephone.go_back()
        telephone.reload()
        expect(telephone.get_by_role("heading")).to_have_text("Already answered")
    acted_on.wiring.run(execution, timeout_s=20)
    assert acted_on.wiring.control.load(execution).status == "completed"
