"""The console's server: who is let in, what is served, what is passed on to the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from noetl_console.answering import Answered
from noetl_console.assets import STATIC, assets
from noetl_console.server import MAX_BODY, Console
from tests.console.http_requests import Recorder, console, let_in, own, raw


@pytest.fixture
def api() -> Recorder:
    return Recorder()


@pytest.fixture
def server(api: Recorder) -> Iterator[Console]:
    with console(api) as running:
        yield running


def test_it_listens_on_loopback_alone(server: Console) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_a_sign_in_address_works_only_once(server: Console) -> None:
    url = urlsplit(server.address())
    first = raw(server, "GET", f"/?{url.query}", {"Host": url.netloc})
    assert (first.status, first.headers["Location"]) == (303, "./")
    cookie = str(first.headers["Set-Cookie"])
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert url.query.partition("=")[2] not in cookie
    again = raw(server, "GET", f"/?{url.query}", {"Host": url.netloc})
    assert again.status == 403
    assert "used before" not in again.body, "after a restart it was not: the server cannot tell"
    assert "only until `noetl console` ends" in again.body
    assert "Set-Cookie" not in again.headers


@pytest.mark.parametrize("target", ["/", "/main.js", "/api/health", "/?ticket=", "/?ticket=guessed"])
def test_without_a_cookie_nothing_is_served(server: Console, api: Recorder, target: str) -> None:
    for cookie in ({}, {"Cookie": f"noetl_console_{server.server_port}=guessed"}, {"Cookie": "\x01=;;=;"}):
        assert raw(server, "GET", target, own(server) | cookie).status in (401, 403)
    assert api.asked == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"Host": "evil.example"}, id="a name that leads here by DNS"),
        pytest.param({"Host": "127.0.0.1"}, id="another port"),
        pytest.param({"Host": ""}, id="no name"),
        pytest.param({"Origin": "http://evil.example"}, id="a page of somebody else"),
        pytest.param({"Origin": "http://127.0.0.1:1"}, id="a page of another port"),
        pytest.param({"Origin": "null"}, id="a page of no origin"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, id="across sites"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, id="of another port of this machine"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_of_other_pages_are_refused_whatever_cookie_they_have(
    server: Console, api: Recorder, changed: dict[str, str], method: str
) -> None:
    answer = raw(server, method, "/api/executions", let_in(server) | changed)
    assert answer.status == 403
    assert api.asked == []


def test_requests_that_change_data_need_an_origin(server: Console, api: Recorder) -> None:
    headers = let_in(server)
    del headers["Origin"]
    assert raw(server, "POST", "/api/executions/1/cancel", headers).status == 403
    assert raw(server, "GET", "/api/health", headers).status == 200
    assert [a.method for a in api.asked] == ["GET"]


def test_requests_are_forwarded_and_answers_lose_the_headers_of_the_api_server(server: Console, api: Recorder) -> None:
    headers = let_in(server) | {"Content-Length": "2", "Content-Type": "application/json", "If-None-Match": '"6"'}
    answer = raw(server, "POST", "/api/executions?a=%2F&b=", headers, b"{}")
    assert (answer.status, answer.body, answer.headers["Etag"]) == (200, '{"status": "ok"}', '"7"')
    assert answer.headers["Server"].strip() == "noetl-console"
    assert answer.headers["Cache-Control"] == "no-store"
    (asked,) = api.asked
    assert (asked.method, asked.path, asked.query, asked.body) == ("POST", "/api/executions", "a=%2F&b=", b"{}")
    assert asked.headers["If-None-Match"] == '"6"'


@pytest.mark.parametrize(
    "target",
    [
        "/api/executions/17/callbacks",
        "/api/executions/17/callbacks/",
        "/api/executions/17/%63allbacks",
        "/api/callbacks/17.token",
        "/api/credentials/",
        "/api/credentials?include_data=true",
        "/api/credentials/pg?include_data=true",
        "/api/%63redentials/pg",
    ],
)
def test_tokens_of_callbacks_and_credentials_are_given_to_no_page(server: Console, api: Recorder, target: str) -> None:
    answer = raw(server, "GET", target, let_in(server))
    assert answer.status == 403
    assert "pages may not read" in answer.body
    assert api.asked == []


def test_forms_get_the_names_of_credentials_alone(server: Console, api: Recorder) -> None:
    listed = b'{"credentials": [{"name": "shop/db", "fields": ["password"], "data": {"password": "s3cret"}}]}'
    api.reply = Answered(200, listed, {"Content-Type": "application/json"})
    answer = raw(server, "GET", "/api/credentials", let_in(server))
    assert (answer.status, json.loads(answer.body)) == (200, {"credentials": [{"name": "shop/db"}]})
    assert raw(server, "POST", "/api/credentials", let_in(server)).status == 403
    api.reply = Answered(403, b'{"error": {}}')
    assert raw(server, "GET", "/api/credentials", let_in(server)).status == 403


@pytest.mark.parametrize(
    "headers", [{"Content-Length": str(MAX_BODY + 1)}, {"Transfer-Encoding": "chunked"}, {"Content-Length": "x"}]
)
def test_bodies_have_a_length_within_bounds(server: Console, api: Recorder, headers: dict[str, str]) -> None:
    assert raw(server, "POST", "/api/executions", let_in(server) | headers).status in (400, 413)
    assert api.asked == []


@pytest.mark.parametrize(
    "target",
    [
        "/../server.py",
        "/%2e%2e/server.py",
        "/vendor/../../server.py",
        "/vendor/..%2f..%2fserver.py",
        "/vendor/%252e%252e/server.py",
        "//etc/passwd",
        "/etc/passwd",
        f"/{Path(__file__)}",
        "/vendor",
        "/vendor/",
        "/main.js/",
        "/main.js%00",
        "/.",
        "\\..\\server.py",
        "/vendor/SHA256SUMS",
    ],
)
def test_no_path_leads_out_of_the_pages(server: Console, target: str) -> None:
    assert raw(server, "GET", target, let_in(server)).status == 404


def test_files_are_served_with_their_types_and_revalidated_by_etag(server: Console) -> None:
    headers = let_in(server)
    for path in ("/", "/main.js", "/css/base.css", "/vendor/preact.js", "/icon.svg"):
        answer = raw(server, "GET", path, headers)
        assert answer.status == 200
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert raw(server, "GET", path, headers | {"If-None-Match": str(answer.headers["Etag"])}).status == 304
    assert raw(server, "POST", "/main.js", headers).status == 404


def test_the_policy_lets_nothing_run_but_the_files_here(server: Console) -> None:
    policy = raw(server, "GET", "/", let_in(server)).headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == rules["form-action"] == rules["base-uri"] == "'none'"


def test_no_page_has_a_script_or_a_style_in_its_text_and_none_comes_from_elsewhere() -> None:
    text = (STATIC / "index.html").read_text()
    assert "<style" not in text
    assert text.count("<script") == 1
    assert '<script type="module" src="main.js"></script>' in text
    assert "//" not in text.replace("<!doctype html>", "")


def test_modules_write_no_html_and_stay_under_400_lines() -> None:
    for name, asset in assets().items():
        if name.startswith("vendor/") or not name.endswith(".js"):
            continue
        text = asset.body.decode()
        assert len(text.splitlines()) < 400, name
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "dangerouslySetInnerHTML",
            "eval(",
            "new Function",
        ):
            assert word not in text, f"{name}: {word}"
