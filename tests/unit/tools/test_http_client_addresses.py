"""The HTTP client and where it connects to: names, addresses and redirects are checked."""

from __future__ import annotations

import threading

import pytest

from noetl_core.tools.base import ToolCall
from noetl_core.tools.calls.event_loop import EventLoop
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke_evented
from noetl_core.tools.network.lookups import Resolver
from tests.fake_dns import resolve

from .conftest import kind
from .connections import Handler, Server, base, calls, kinds, outcome_of, server, tool

__all__ = ["server", "tool"]


def test_concurrent_requests_share_one_lookup_of_a_name(server: Server, tool: HttpTool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = list[str](), threading.Event()

    def slow(host: str) -> list[str]:
        asked.append(host)
        answer.wait(10)
        return ["127.0.0.1"]

    resolve(monkeypatch, slow)
    server.together(10)
    with EventLoop() as loop:
        urls = [base(server, "slow.test")] * 10
        tasks = [loop.start(invoke_evented(tool, ToolCall("http", {"url": url}, timeout_s=20), loop)) for url in urls]
        other = loop.start(invoke_evented(tool, ToolCall("http", {"url": "http://127.0.0.1:1/"}, {"retry": 1}), loop))
        while not other.done:
            loop.turn(0.5)
        assert kind(outcome_of(other)) == "connection" and not any(task.done for task in tasks), "a lookup stops nobody else"
        answer.set()
        while loop:
            loop.turn(0.5)
    assert kinds([outcome_of(task) for task in tasks]) == {"ok": 10}
    assert asked == ["slow.test"]


def test_a_lookup_that_does_not_end_is_a_timeout(tool: HttpTool, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    resolve(monkeypatch, lambda _: [str(release.wait(10))])
    outcome = calls(tool, "http://stuck.test/", timeout={"connect": 0.05})[0]
    release.set()
    assert kind(outcome) == "timeout" and outcome.error is not None and outcome.error.code == "ConnectTimeout"


def test_addresses_are_checked_where_sockets_are_made_also_when_the_resolver_lets_them_pass(
    server: Server, tool: HttpTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unchecked(self: Resolver, host: str, port: int) -> list[str]:
        return ["169.254.169.254"]

    monkeypatch.setattr(Resolver, "addresses", unchecked)
    for host in ("name.test", "2852039166", "169.254.169.254.", "169.254.43518"):
        outcome = calls(tool, base(server, host))[0]
        assert outcome.error is not None and outcome.error.code == "address_refused", (host, outcome)


def test_a_name_that_has_a_refused_address_too_is_refused(
    server: Server, tool: HttpTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(monkeypatch, lambda _: ["127.0.0.1", "169.254.169.254"])
    outcome = calls(tool, base(server, "both.test"))[0]
    assert outcome.error is not None and outcome.error.code == "address_refused" and not server.connections


def test_a_name_is_checked_again_for_each_connection(server: Server, tool: HttpTool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ["127.0.0.1"]
    resolve(monkeypatch, lambda _: found)
    server.closes = True
    assert kinds(calls(tool, base(server, "moves.test"))) == {"ok": 1}
    found[0] = "169.254.169.254"
    outcome = calls(tool, base(server, "moves.test"))[0]
    assert outcome.error is not None and outcome.error.code == "address_refused" and server.connections == 1


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "2852039166", "0xa9fea9fe", "169.254.43518", "[fe80::1]", "[::ffff:a9fe:a9fe]"],
)
def test_a_redirect_to_an_address_that_is_refused_is_not_followed(server: Server, tool: HttpTool, host: str) -> None:
    class Elsewhere(Handler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"http://{host}/")
            self.send_header("Content-Length", "0")
            self.end_headers()

    server.RequestHandlerClass = Elsewhere
    for url in (base(server), f"http://{host}/"):
        outcome = calls(tool, url)[0]
        assert outcome.error is not None and outcome.error.code == "address_refused", (url, outcome)


@pytest.mark.parametrize("place", ["ftp://127.0.0.1/", "http:///nowhere", "http://[::1", "//"])
def test_a_redirect_to_an_invalid_url_is_an_error(server: Server, tool: HttpTool, place: str) -> None:
    class Elsewhere(Handler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", place)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server.RequestHandlerClass = Elsewhere
    outcome = calls(tool, base(server), max_redirects=1)[0]
    assert kind(outcome) in ("client_error", "connection"), outcome
