"""`kind: http` against a real server."""

from __future__ import annotations

import base64
import email
import email.policy
import gzip
import hashlib
import json
import logging
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret
from noetl_core.ports import TooLarge
from noetl_core.tools import http_exchange, http_storing
from noetl_core.tools.base import ToolCall
from noetl_core.tools.http import HttpTool
from noetl_core.tools.http_body import BodyUnreadable, Decompressor
from noetl_core.tools.invoke import invoke
from noetl_core.tools.net import AddressPolicy
from noetl_core.values import stored_outline

from .conftest import Server, kind

Http = Callable[..., Outcome]


@pytest.fixture
def http() -> Iterator[Http]:
    tool = HttpTool(AddressPolicy(allow_private=True))

    def call(
        url: str,
        timeout_s: float = 10.0,
        spec: dict[str, Any] | None = None,
        secrets: Any = None,
        cancelled: threading.Event | None = None,
        **inputs: Any,
    ) -> Outcome:
        fields: dict[str, Any] = {} if cancelled is None else {"cancelled": cancelled}
        return invoke(
            tool,
            ToolCall(
                "http", {"url": url, **inputs}, spec or {}, "1", "s", "t", "run-1", timeout_s=timeout_s, secrets=secrets, **fields
            ),
        )

    yield call
    tool.close()


def test_the_result_holds_status_lower_case_headers_and_the_parsed_body(http: Http, server: Server) -> None:
    outcome = http(server.base + "/x", params={"page": 2, "all": True, "tag": ["a", "b"], "none": None})
    assert outcome.status == "ok"
    assert outcome.result["status"] == 200 and outcome.result["headers"]["x-mixed-case"] == "Yes"
    assert outcome.result["data"]["query"] == {"page": "2", "all": "true", "tag": "b"}
    assert outcome.result["url"] == server.base + "/x?page=2&all=true&tag=a&tag=b"
    assert isinstance(outcome.result["elapsed_ms"], int)
    assert outcome.helpers["http"] == {"status": 200, "headers": outcome.result["headers"]}


def test_endpoint_and_payload_are_other_names_for_url_and_json(http: Http, server: Server) -> None:
    tool_inputs = {"endpoint": server.base + "/send", "method": "post", "payload": {"to": "ada"}}
    tool = HttpTool(AddressPolicy(allow_private=True))
    outcome = invoke(tool, ToolCall("http", tool_inputs))
    tool.close()
    method, _path, headers, body = server.requests[0]
    assert (method, headers["content-type"], json.loads(body)) == ("POST", "application/json", {"to": "ada"})
    assert outcome.status == "ok"


@pytest.mark.parametrize(
    ("inputs", "content_type", "body"),
    [
        pytest.param({"json": [1, None]}, "application/json", b"[1,null]", id="json"),
        pytest.param({"json": None}, "application/json", b"null", id="json null"),
        pytest.param({"body": "plain ü"}, None, "plain ü".encode(), id="text"),
        pytest.param({"body": {"a": 1}}, "application/json", b'{"a":1}', id="mapping body is JSON"),
        pytest.param({"data": {"a": 1}}, "application/json", b'{"a":1}', id="data is body"),
        pytest.param({"form": {"a": "x y", "b": [1, True]}}, "application/x-www-form-urlencoded", b"a=x+y&b=1&b=true", id="form"),
    ],
)
def test_bodies(http: Http, server: Server, inputs: dict[str, Any], content_type: str | None, body: bytes) -> None:
    assert http(server.base + "/x", method="PUT", **inputs).status == "ok"
    assert server.requests[0][3] == body and server.requests[0][2].get("content-type") == content_type


@pytest.mark.parametrize(
    ("code", "expected", "retryable"),
    [(400, "client_error", False), (401, "auth", False), (403, "auth", False), (404, "not_found", False), (409, "client_error", False),
     (408, "timeout", True), (429, "rate_limit", True), (500, "server_error", True), (503, "server_error", True)],
)  # fmt: skip
def test_a_status_of_400_or_more_is_an_error_of_its_kind(
    http: Http, server: Server, code: int, expected: str, retryable: bool
) -> None:
    outcome = http(f"{server.base}/status?code={code}")
    envelope: Any = outcome.as_dict()
    assert (
        envelope["error"]["kind"] == expected
        and envelope["error"]["retryable"] is retryable
        and envelope["error"]["code"] == code
    )
    assert envelope["http"]["retry_after"] == 7.0
    assert envelope["http"]["status"] == code and envelope["http"]["headers"]["retry-after"] == "7"
    assert envelope["error"]["details"] == {"status": code, "body": '{"why": "because"}', "retry_after": "7"}


def test_an_error_shows_the_beginning_of_its_body_however_large_it_is(http: Http, server: Server) -> None:
    error = http(f"{server.base}/status?code=500&times=1000000").error
    assert error is not None
    assert error.details["body"] == '{"why": "' + ("because" * 300)[:1_991] + "..."


@pytest.mark.parametrize("where", ["url", "params"])
def test_what_is_too_long_for_a_url_is_an_error_of_the_author_that_says_where_to_put_it(
    http: Http, server: Server, where: str
) -> None:
    large = "x" * 1_000_000
    outcome = http(f"{server.base}/{large}") if where == "url" else http(server.base, params={"q": large})
    assert outcome.error is not None
    assert outcome.error.kind == "schema"
    assert f"`{where}` ha" in outcome.error.message and "send what is large as the body" in outcome.error.message
    assert len(outcome.error.message) < 300


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("120", 120.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 90.0),
        ("Wed, 21 Oct 2026 07:26:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("1e9", None),
        ("9" * 400, 366 * 24 * 3600.0),
        ("", None),
    ],
)
def test_how_long_to_wait_is_told_in_seconds(said: str, seconds: float | None) -> None:
    found = http_exchange._waits({"retry-after": said, "date": "Wed, 21 Oct 2026 07:26:30 GMT"})
    assert found == ({} if seconds is None else {"retry_after": seconds})


def test_statuses_can_be_declared_fine(http: Http, server: Server) -> None:
    assert http(f"{server.base}/status?code=404", spec={"ok_statuses": [404]}).result["data"] == {"why": "because"}
    assert http(f"{server.base}/status?code=500", spec={"raise_for_status": False}).result["status"] == 500


def test_a_request_that_changes_something_carries_the_task_run_as_idempotency_key(http: Http, server: Server) -> None:
    http(server.base + "/x", method="POST")
    http(server.base + "/x", method="POST", headers={"idempotency-key": "mine"})
    http(server.base + "/x")
    assert [r[2].get("idempotency-key") for r in server.requests] == ["run-1", "mine", None]


@pytest.mark.parametrize(("method", "code"), [("POST", 307), ("PUT", 308), ("POST", 308), ("PUT", 301), ("PATCH", 302)])
def test_a_body_does_not_follow_a_redirect_to_another_origin(http: Http, server: Server, method: str, code: int) -> None:
    elsewhere = f"http://localhost:{server.server_port}/echo"
    outcome = http(f"{server.base}/redirect?code={code}&to={elsewhere}", method=method, json={"password": "s3cret-in-it"})
    sent = [body for _, path, _, body in server.requests if path.startswith("/echo")]
    assert b"s3cret-in-it" not in b"".join(sent)
    if sent:  # what a redirect turns into a GET has no body to begin with
        assert outcome.status == "ok"
    else:
        assert kind(outcome) == "client_error" and outcome.error is not None
        assert "body" in outcome.error.message and "another origin" in outcome.error.message


def test_a_body_follows_a_redirect_within_its_origin(http: Http, server: Server) -> None:
    outcome = http(f"{server.base}/redirect?code=307&to=/echo", method="POST", json={"a": 1})
    assert outcome.result["data"]["body"] == '{"a":1}'


def test_the_tools_own_retry_happens_only_when_declared(http: Http, server: Server) -> None:
    assert kind(http(server.base + "/flaky")) == "server_error"
    server.failures = 0
    assert http(server.base + "/flaky", spec={"retry": {"attempts": 3, "delay": 0.01}}).result["data"] == {"n": 3}
    assert kind(http(server.base + "/flaky", spec={"retry": {"max_attempts": 3}})) == "schema"


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        pytest.param("basic_cred", "Basic " + base64.b64encode(b"ada:lovelace1").decode(), id="stored basic"),
        pytest.param("token_cred", "Bearer tok-123456", id="stored bearer"),
        pytest.param({"type": "bearer", "credential": "plain"}, "Bearer plain-token-1", id="plain text"),
        pytest.param({"type": "bearer", "token": "inline-token"}, "Bearer inline-token", id="inline bearer"),
        pytest.param(
            {"credential": "basic_cred"}, "Basic " + base64.b64encode(b"ada:lovelace1").decode(), id="mapping naming one"
        ),
    ],
)
def test_auth(http: Http, server: Server, auth: object, header: str) -> None:
    stored = {
        "basic_cred": {"type": "basic", "data": {"username": "ada", "password": "lovelace1"}},
        "plain": {"value": "plain-token-1"},
        "token_cred": {"type": "bearer", "token": "tok-123456"},
    }
    assert http(server.base + "/x", auth=auth, secrets=stored.__getitem__).status == "ok"
    assert server.requests[0][2]["authorization"] == header


def test_auth_by_header_and_by_query(http: Http, server: Server) -> None:
    http(server.base + "/x", auth={"type": "api_key", "name": "X-Key", "value": "k-12345"})
    http(server.base + "/x", auth={"type": "query", "param": "key", "value": "k-12345"}, params={"a": 1})
    assert server.requests[0][2]["x-key"] == "k-12345"
    assert server.requests[1][1] == "/x?a=1&key=k-12345"


def test_an_unknown_credential_is_not_found_and_names_it(http: Http, server: Server) -> None:
    outcome = http(server.base + "/x", auth="nope", secrets={}.__getitem__)
    assert kind(outcome) == "not_found" and outcome.error and "nope" in outcome.error.message


def test_an_echoed_secret_comes_back_masked(http: Http, server: Server) -> None:
    outcome = http(
        server.base + "/echo",
        headers={"X-Token": Secret("s3cr3t-value")},
        secrets={}.__getitem__,
        params={"q": Secret("s3cr3t/value")},
    )
    text = json.dumps(outcome.as_dict())
    assert server.requests[0][2]["x-token"] == "s3cr3t-value"
    assert "s3cr3t" not in text and "***" in text


@pytest.mark.parametrize(
    ("content_type", "body", "data"),
    [
        pytest.param("application/json", b"", None, id="empty"),
        pytest.param("application/problem+json; charset=utf-8", b'{"a": 1}', {"a": 1}, id="+json"),
        pytest.param("text/plain; charset=latin-1", b"\xfc", "ü", id="charset"),
        pytest.param("text/html", b"<p>", "<p>", id="html"),
        pytest.param("image/png", b"\x89PNG", {"base64": "iVBORw=="}, id="bytes"),
        pytest.param("text/plain; charset=klingon", b"x", "x", id="unknown charset"),
    ],
)
def test_data_by_content_type(http: Http, server: Server, content_type: str, body: bytes, data: object) -> None:
    outcome = http(server.base + "/raw", method="POST", params={"type": content_type}, body=body)
    assert outcome.result["data"] == data


@pytest.mark.parametrize("body", [b"{", b"[NaN]", b"[" * 100_000, b'"\\ud800"', b"1" * 5000, b"\xff"])
def test_what_says_it_is_json_and_is_not_is_a_parse_error(http: Http, server: Server, body: bytes) -> None:
    outcome = http(server.base + "/raw", method="POST", params={"type": "application/json"}, body=body)
    assert kind(outcome) == "parse" and outcome.helpers["http"]["status"] == 200


def test_gzip_is_read(http: Http, server: Server) -> None:
    assert http(server.base + "/gzip").result["data"] == {"packed": True}


# --- hostile servers ----------------------------------------------------------------------------------------------------------


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
    outcome = http(f"{server.base}/bomb?size={200_000_000}", spec={"max_response_bytes": 1_000_000})
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


# --- hostile inputs -----------------------------------------------------------------------------------------------------------


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


def test_megabytes_are_sent_whole(http: Http, server: Server) -> None:
    rows = [{"n": n, "text": "ü" * 40} for n in range(40_000)]
    assert http(server.base + "/send", method="POST", json={"rows": rows}, timeout_s=60).status == "ok"
    assert json.loads(server.requests[0][3]) == {"rows": rows}


# --- bodies that are stored ---------------------------------------------------------------------------------------------------


@pytest.fixture
def store() -> Iterator[LazyTempResultStore]:
    store = LazyTempResultStore()
    yield store
    store.close()


@pytest.fixture
def stored(store: LazyTempResultStore) -> Iterator[Http]:
    tool = HttpTool(AddressPolicy(allow_private=True))

    def call(url: str, spec: dict[str, Any] | None = None, secrets: Any = None, timeout_s: float = 60, **inputs: Any) -> Outcome:
        fields: Any = {"results": store, "secrets": secrets, "timeout_s": timeout_s}
        return invoke(
            tool, ToolCall("http", {"url": url, **inputs}, {"store": True, **(spec or {})}, "1", "s", "t", "run-1", **fields)
        )

    yield call
    tool.close()


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait until something done on another thread is done."""
    for _ in range(500):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


def files(store: LazyTempResultStore) -> list[str]:
    return [str(path) for path in store._root.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("kind_", "path", "form"),
    [
        ("application/json; charset=utf-8", "raw", "json"),
        ("application/problem+json", "raw", "json"),
        ("application/x-ndjson", "raw", "jsonl"),
        ("text/csv", "raw", "csv"),
        ("application/vnd.apache.parquet", "raw", "parquet"),
        ("text/html", "raw", "text"),
        ("image/png", "raw", "bytes"),
    ],
)
def test_a_stored_body_is_a_reference_that_says_its_format(
    stored: Http, store: LazyTempResultStore, server: Server, kind_: str, path: str, form: str
) -> None:
    outcome = stored(f"{server.base}/{path}", method="POST", params={"type": kind_}, body="a,b\n1,2\n")
    reference = outcome.result["data"]
    digest = "sha256:" + hashlib.sha256(b"a,b\n1,2\n").hexdigest()
    assert reference == {
        "kind": "result_ref",
        "store": "s3",
        "key": f"1/http/run-1.{form}",
        "size": 8,
        "checksum": digest,
        "format": form,
    }
    assert store.get(reference["key"]) == b"a,b\n1,2\n"
    assert outcome.result["status"] == 200


def test_stored_json_is_outlined_as_it_comes(stored: Http, store: LazyTempResultStore, server: Server) -> None:
    rows = [{"n": n, "name": "x" * 50} for n in range(20_000)]
    for form, body in (("json", json.dumps(rows, indent=1)), ("jsonl", "".join(json.dumps(row) + "\n" for row in rows))):
        kept = stored(f"{server.base}/raw", method="POST", params={"type": "text/plain"}, body=body, spec={"store": form})
        assert kept.error is None, kept.error
        reference = kept.result["data"]
        container = stored_outline(store, reference)
        assert container is not None and container.length == 20_000
        assert reference["schema_hint"] == {"type": "list", "length": 20_000}


def test_the_format_of_a_stored_body_may_be_said(stored: Http, server: Server) -> None:
    outcome = stored(server.base + "/raw", {"store": "jsonl"}, method="POST", body="{}\n")
    assert outcome.result["data"]["format"] == "jsonl"
    outcome = stored(server.base + "/raw", {"store": "xml"}, method="POST", body="{}\n")
    assert kind(outcome) == "schema" and outcome.error is not None and "json, jsonl, csv" in outcome.error.message
    assert kind(stored(server.base + "/raw", {"response": "json"})) == "schema"


def test_the_name_says_the_format_where_the_type_says_nothing() -> None:
    assert http_storing.format_of({"content-type": "binary/octet-stream"}, "/data/flights.parquet") == "parquet"
    assert http_storing.format_of({}, "/data/rows.ndjson") == "jsonl"
    assert http_storing.format_of({"content-type": "text/csv"}, "/data/rows.json") == "csv"
    assert http_storing.format_of({}, "/") == "bytes"


def test_a_compressed_body_is_stored_as_what_it_is(stored: Http, store: LazyTempResultStore, server: Server) -> None:
    assert store.get(stored(server.base + "/gzip").result["data"]["key"]) == b'{"packed": true}'


@pytest.mark.parametrize(
    ("path", "spec", "expected"),
    [
        ("/endless", {"max_response_bytes": 5_000_000}, "limit"),
        ("/truncated_gzip", {}, "parse"),
        ("/drip", {"timeout": {"total": 0.5}}, "timeout"),
        ("/status?code=500", {}, "server_error"),
    ],
)
def test_a_body_that_does_not_come_whole_is_not_stored(
    stored: Http, store: LazyTempResultStore, server: Server, path: str, spec: dict[str, Any], expected: str
) -> None:
    assert kind(stored(server.base + path, spec)) == expected
    wait_for(lambda: files(store) == [])


def test_secrets_that_a_service_repeats_are_masked_in_what_is_stored(
    stored: Http, store: LazyTempResultStore, server: Server
) -> None:
    secret = "s3cret-wörd-of-theirs"
    row = f"x{secret}y".encode() + b"." * 977
    body = (b"." * 500 + row * 3000).decode()
    outcome = stored(
        server.base + "/raw", {"timeout": 60}, method="POST", body=Secret(body), headers={"X-T": Secret("t0ken-in-a-header")}
    )
    assert outcome.status == "ok"
    outcome = stored(server.base + "/raw", method="POST", body=body, headers={"X-T": Secret(secret.encode().decode("latin-1"))})
    found = store.get(outcome.result["data"]["key"])
    assert b"s3cret" not in found and found.count(b"x***y") == 3000
    assert outcome.result["data"]["size"] == len(found)


def test_a_large_body_is_stored_in_constant_memory(stored: Http, store: LazyTempResultStore, server: Server) -> None:
    tracemalloc.start()
    try:
        outcome = stored(f"{server.base}/large?mb=64")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome.result["data"]["size"] == 64 << 20
    assert peak < 16 << 20


# --- bodies that are sent from where they are stored --------------------------------------------------------------------------


class OwnReferences:
    """References of one execution, whose values a test gives."""

    def __init__(self, store: LazyTempResultStore, limit: int = 1 << 20) -> None:
        self._store, self._limit = store, limit

    def owns(self, value: Any) -> bool:
        return isinstance(value, dict) and value.get("kind") == "result_ref" and str(value["key"]).startswith("1/")

    def opened(self, reference: Any, name: str) -> Any:
        return self.load(reference, name)

    def load(self, value: Any, name: str, limit: int | None = None) -> Any:
        if not self.owns(value):
            return value
        if value["size"] > self._limit:
            raise TooLarge("too large")
        return json.loads(self._store.get(value["key"]))


@pytest.fixture
def send(store: LazyTempResultStore) -> Iterator[Http]:
    tool = HttpTool(AddressPolicy(allow_private=True))

    def call(url: str, spec: dict[str, Any] | None = None, **inputs: Any) -> Outcome:
        fields: Any = {"results": store, "references": OwnReferences(store), "timeout_s": 60}
        return invoke(
            tool, ToolCall("http", {"url": url, "method": "POST", **inputs}, spec or {}, "1", "s", "t", "run-1", **fields)
        )

    yield call
    tool.close()


def put(store: LazyTempResultStore, name: str, body: bytes, **more: Any) -> dict[str, Any]:
    return {**store.put(f"1/{name}", body), **more}


@pytest.mark.parametrize(
    ("form", "content_type"),
    [("csv", "text/csv"), ("parquet", "application/vnd.apache.parquet"), ("bytes", "application/octet-stream")],
)
def test_a_stored_file_is_sent_as_it_is(
    send: Http, store: LazyTempResultStore, server: Server, form: str, content_type: str
) -> None:
    assert send(server.base + "/x", body=put(store, "f", b"\x00a,b\n", format=form)).status == "ok"
    (_, _, headers, body) = server.requests[0]
    assert (body, headers["content-length"], headers["content-type"]) == (b"\x00a,b\n", "5", content_type)


def test_a_stored_value_is_sent_as_the_value_that_it_is(send: Http, store: LazyTempResultStore, server: Server) -> None:
    send(server.base + "/x", body=put(store, "v", b'"text of a result"'))
    send(server.base + "/x", body=put(store, "w", b'{"a": 1}', format="json"))
    assert [body for *_, body in server.requests] == [b"text of a result", b'{"a":1}']


def test_a_large_stored_body_is_sent_in_constant_memory(send: Http, store: LazyTempResultStore, server: Server) -> None:
    with store.writer("1/large.json") as out:
        for _ in range(64):
            out.write(b"[0123456789abcd]" * 65536)
        reference = {**out.finish(), "format": "json"}
    tracemalloc.start()
    try:
        outcome = send(server.base + "/count", body=reference)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome.result["data"] == {"bytes": 64 << 20}
    assert peak < 32 << 20


def test_a_stored_body_is_sent_anew_by_a_retry_and_after_a_redirect(
    send: Http, store: LazyTempResultStore, server: Server
) -> None:
    reference = put(store, "f", b"a,b\n", format="csv")
    assert send(f"{server.base}/redirect?to=/echo&code=307", body=reference).result["data"]["body"] == "a,b\n"
    assert send(server.base + "/flaky", {"retry": {"attempts": 3, "delay": 0.01}}, body=reference).status == "ok"
    assert [body for *_, body in server.requests] == [b"a,b\n"] * 5
    outcome = send(f"{server.base}/redirect?to=http://localhost:1/&code=307", body=reference)
    assert outcome.error is not None and outcome.error.code == "body_redirected"


@pytest.mark.parametrize("change", [b"other", b"longer than it was", b""])
def test_a_stored_body_that_was_altered_is_an_error(
    send: Http, store: LazyTempResultStore, server: Server, change: bytes
) -> None:
    reference = put(store, "f", b"a,b\n1", format="csv")
    store.put("1/f", change)
    assert kind(send(server.base + "/x", body=reference, spec={"timeout": 5})) == "storage"


def test_files_are_sent_with_the_fields_of_a_form(send: Http, store: LazyTempResultStore, server: Server) -> None:
    files = {
        "note": "plain täxt",
        "rows": put(store, "rows.csv", b"a,b\n", format="csv"),
        "picture": {"base64": "iVBORw==", "filename": "p.png"},
        "many": [{"content": "1", "filename": "1.txt"}, {"json": {"a": 1}, "filename": "2"}],
    }
    outcome = send(server.base + "/upload", form={"title": "x", "tags": ["a", "b"]}, files=files)
    assert outcome.status == "ok", outcome.error
    parts = parts_of(server.requests[0])
    assert parts == [
        ("title", None, None, b"x"),
        ("tags", None, None, b"a"),
        ("tags", None, None, b"b"),
        ("note", "note", "application/octet-stream", "plain täxt".encode()),
        ("rows", "rows.csv", "text/csv", b"a,b\n"),
        ("picture", "p.png", "image/png", b"\x89PNG"),
        ("many", "1.txt", "text/plain", b"1"),
        ("many", "2", "application/json", b'{"a":1}'),
    ]
    assert int(server.requests[0][2]["content-length"]) == len(server.requests[0][3])


def parts_of(request: tuple[str, str, dict[str, str], bytes]) -> list[tuple[Any, ...]]:
    """The parts of a form: field, name of the file, type, content."""
    head = f"Content-Type: {request[2]['content-type']}\r\n\r\n".encode()
    message = email.message_from_bytes(head + request[3], policy=email.policy.HTTP)
    found = []
    for part in message.iter_parts():
        said = part["content-disposition"].params
        kind_ = part["content-type"].content_type if part["content-type"] else None
        found.append((said["name"], said.get("filename"), kind_, part.get_payload(decode=True)))
    return found


def test_a_large_file_is_sent_in_constant_memory(send: Http, store: LazyTempResultStore, server: Server) -> None:
    with store.writer("1/large.bin") as out:
        for _ in range(64):
            out.write(b"0123456789abcdef" * 65536)
        reference = {**out.finish(), "format": "bytes"}
    tracemalloc.start()
    try:
        outcome = send(server.base + "/count", files={"f": reference})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (64 << 20) < outcome.result["data"]["bytes"] < (64 << 20) + 1000
    assert peak < 32 << 20


@pytest.mark.parametrize(
    "files",
    [
        [1],
        {},
        {"a": {"contents": "x"}},
        {"a": {"content": "x", "base64": "eA=="}},
        {"a": {"base64": "?"}},
        {"a": {"content": "x", "filename": "a\r\nb"}},
        {"a": {"content": "x", "content_type": "text/plain\r\nX: y"}},
    ],
)
def test_files_that_are_none_are_refused(send: Http, server: Server, files: Any) -> None:
    assert kind(send(server.base + "/x", files=files)) == "schema" and not server.requests
