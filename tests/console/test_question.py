"""The page of the link to a callback, in a browser on a telephone."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page, expect

from noetl_core.api.app import Api
from noetl_core.control.callbacks import callback_waits, token_for
from noetl_core.service.api_service import Service
from tests.console.barriers import BEYOND, barriers
from tests.console.stored import APPROVE, Stored
from tests.servers import Handler, serving


class Served(ThreadingHTTPServer):
    """The API of a store, without a session, below the stage of a gateway."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.service = Service(lambda: stored.wiring.control, lambda: b"key")

    def link(self, stored: Stored, execution: str) -> str:
        state = stored.wiring.control.load(execution)
        ((run, wait),) = callback_waits(state)
        return f"http://127.0.0.1:{self.server_port}/v1/api/callbacks/{token_for(stored.wiring.control, state, run, wait)}"


class _Answers(Handler):
    server: Served

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        event = {"httpMethod": self.command, "path": self.path.removeprefix("/v1"), "headers": dict(self.headers), "body": body}
        answer = Api(self.server.service).resolve(event, None)
        headers = {name.replace("-", "_"): values[0] for name, values in answer["multiValueHeaders"].items()}
        self.say(answer["statusCode"], answer["body"].encode(), **headers)

    do_POST = do_GET


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
