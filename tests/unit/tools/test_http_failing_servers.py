"""`kind: http` and servers that misbehave: what is too large, too slow, cut off, or leads elsewhere."""

from __future__ import annotations

import gzip
import json
import logging
import threading
from typing import Any

import pytest

from noetl_core.tools.http.body import BodyUnreadable, Decompressor

from .conftest import Server, kind
from .http_calls import Http, http

__all__ = ["http"]


@pytest.mark.parametrize(("method", "code"), [("POST", 307), ("PUT", 308), ("POST", 308), ("PUT", 301), ("PATCH", 302)])
def test_a_body_does_not_follow_a_redirect_to_another_origin(http: Http, server: Server, method: str, code: int) -> None:
    elsewhere = f"http://localhost:{server.server_port}/echo"
    outcome = http(f"{server.base}/redirect?code={code}&to={elsewhere}", method=method, json={"password": "s3cret-in-it"})
    sent = [body for _, path, _, body in server.requests if path.startswith("/echo")]
    assert b"s3cret-in-it" not in b"".join(sent)
    if sent:  # a request that a redirect turns into a GET has no body
        assert outcome.status == "ok"
    else:
        assert kind(outcome) == "client_error" and outcome.error is not None
        assert "body" in outcome.error.message and "another origin" in outcome.error.message


def test_a_body_follows_a_redirect_within_its_origin(http: Http, server: Server) -> None:
    outcome = http(f"{server.base}/redirect?code=307&to=/echo", method="POST", json={"a": 1})
    assert outcome.result["data"]["body"] == '{"a":1}'


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_gzip_of_several_members_is_read_whole(size: int) -> None:
    body = gzip.compress(b"first ") + gzip.compress(b"") + gzip.compress(b"second") + bytes(8)
    decoder = Decompressor("gzip")
    read = [piece for at in range(0, len(body), size) for piece in decoder.pieces(body[at : at + size])]
    assert b"".join(read) + decoder.end() == b"first second"


def test_a_member_that_is_cut_off_is_no_body() -> None:
    decoder = Decompressor("gzip")
    list(decoder.pieces(gzip.compress(b"first ") + gzip.compress(b"second")[:-9]))
    with pytest.raises(BodyUnreadable):
        decoder.end()


def test_a_gzip_bomb_is_stopped_at_the_limit(http: Http, server: Server) -> None:
    outcome = http(f"{server.base}/bomb?size={50_000_000}", spec={"max_response_bytes": 1_000_000})
    assert kind(outcome) == "limit" and outcome.error and outcome.error.retryable is False


def test_an_endless_body_is_stopped_at_the_limit(http: Http, server: Server) -> None:
    assert kind(http(server.base + "/endless", spec={"max_response_bytes": 5_000_000})) == "limit"


def test_a_body_one_byte_over_is_refused_and_at_the_limit_is_not(http: Http, server: Server) -> None:
    at, over = b"x" * 1000, b"x" * 1001
    assert http(server.base + "/raw", method="POST", body=at, spec={"max_response_bytes": 1000}).status == "ok"
    assert kind(http(server.base + "/raw", method="POST", body=over, spec={"max_response_bytes": 1000})) == "limit"


def test_a_truncated_body_is_an_error_not_half_an_answer(http: Http, server: Server) -> None:
    assert kind(http(server.base + "/truncated_gzip")) == "parse"


def test_a_dripping_body_ends_with_the_time(http: Http, server: Server) -> None:
    assert kind(http(server.base + "/drip", timeout_s=0.6)) == "timeout"


def test_a_silent_server_times_out(http: Http, server: Server) -> None:
    assert kind(http(server.base + "/silent", spec={"timeout": {"read": 0.3}})) == "timeout"
    assert kind(http(server.base + "/silent", spec={"timeout": 0.3})) == "timeout"


def test_a_cancelled_call_returns_soon(http: Http, server: Server) -> None:
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    assert kind(http(server.base + "/silent", cancelled=cancelled, timeout_s=None)) == "cancelled"


def test_a_connection_that_fails_is_of_that_kind(http: Http, server: Server) -> None:
    assert kind(http(server.base + "/hang-up")) == "connection"
    assert kind(http("http://127.0.0.1:1/")) == "connection"
    assert kind(http("http://no-such-host.invalid/")) == "connection"


def test_redirects_are_followed_within_a_limit(http: Http, server: Server) -> None:
    assert http(f"{server.base}/redirect?to=/echo").result["url"] == server.base + "/echo"
    assert kind(http(f"{server.base}/redirect?to=/redirect%3Fto%3D/redirect", spec={"max_redirects": 2})) != "ok"
    assert http(f"{server.base}/redirect?to=/echo", spec={"follow_redirects": False}).result["status"] == 302


def test_no_library_writes_down_where_a_redirect_leads(http: Http, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert http(f"{server.base}/redirect?to=/echo", params={"token": "s3cr3t"}).status == "ok"
    assert "s3cr3t" not in caplog.text and "/echo" not in caplog.text


def test_a_307_keeps_method_body_and_idempotency_key(http: Http, server: Server) -> None:
    assert http(f"{server.base}/redirect?to=/echo&code=307", method="POST", body="x").result["data"]["body"] == "x"
    assert server.requests[1][0] == "POST" and server.requests[1][2]["idempotency-key"] == "run-1"


def test_credentials_do_not_follow_a_redirect_to_another_origin(http: Http, server: Server) -> None:
    other = server.base.replace("127.0.0.1", "localhost")
    http(
        f"{server.base}/redirect?to={other}/echo",
        auth={"type": "header", "name": "X-Key", "value": "k-12345"},
        headers={"Authorization": "x"},
    )
    assert server.requests[0][2]["x-key"] == "k-12345"
    assert "x-key" not in server.requests[1][2] and "authorization" not in server.requests[1][2]


def test_cookies_of_one_call_are_not_sent_by_the_next(http: Http, server: Server) -> None:
    http(server.base + "/cookie")
    http(server.base + "/echo")
    assert "cookie" not in server.requests[1][2]


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param({"headers": {"X-A": "a\r\nX-B: b"}}, id="line break in a value"),
        pytest.param({"headers": {"X-A\r\nX-B": "b"}}, id="line break in a name"),
        pytest.param({"headers": {"X-A": "a\x00"}}, id="NUL"),
        pytest.param({"headers": {"X-A": "☃"}}, id="outside latin-1"),
        pytest.param({"headers": {"Content-Length": "5"}}, id="framing"),
        pytest.param({"headers": {"Transfer-Encoding": "chunked"}}, id="smuggling"),
        pytest.param({"headers": ["a"]}, id="list of headers"),
        pytest.param({"headers": {"X-A": {"a": 1}}}, id="mapping as a value"),
        pytest.param({"cookies": {"a": "b\r\nX: y"}}, id="line break in a cookie"),
        pytest.param({"auth": {"type": "bearer", "token": "a\r\nX: y"}}, id="line break in a token"),
        pytest.param({"params": {"a": {"b": 1}}}, id="nested parameter"),
        pytest.param({"method": "GET / HTTP/1.1\r\nX: y"}, id="method"),
        pytest.param({"json": float("nan")}, id="NaN"),
        pytest.param({"url": "http://127.0.0.1/a\r\nX: y"}, id="line break in the URL"),
        pytest.param({"url": "file:///etc/passwd"}, id="file"),
        pytest.param({"url": "gopher://127.0.0.1/"}, id="gopher"),
        pytest.param({"url": "http://"}, id="no host"),
        pytest.param({"url": 5}, id="a number"),
        pytest.param({"spec": {"timeout": -1}}, id="negative timeout"),
        pytest.param({"spec": {"timeout": "soon"}}, id="timeout in words"),
        pytest.param({"spec": {"timeout": {"read": float("nan")}}}, id="NaN timeout"),
        pytest.param({"spec": {"response": "xml"}}, id="unknown response form"),
    ],
)
def test_inputs_that_cannot_be_sent_safely_are_refused(http: Http, server: Server, inputs: dict[str, Any]) -> None:
    outcome = http(**{"url": server.base + "/x", **inputs})
    assert kind(outcome) == "schema" and not server.requests


def test_one_client_serves_many_threads(http: Http, server: Server) -> None:
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(http(f"{server.base}/x?n={n}").result["data"]["query"]["n"]))
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found, key=str) == sorted((str(n) for n in range(20)), key=str)


@pytest.mark.nightly
def test_megabytes_are_sent_whole(http: Http, server: Server) -> None:
    rows = [{"n": n, "text": "ü" * 40} for n in range(40_000)]
    assert http(server.base + "/send", method="POST", json={"rows": rows}, timeout_s=60).status == "ok"
    assert json.loads(server.requests[0][3]) == {"rows": rows}
