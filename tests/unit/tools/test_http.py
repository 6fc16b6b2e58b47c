"""`kind: http` against a real server: what is sent, and what comes of the answer."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from noetl_core.expr import Secret
from noetl_core.tools.base import ToolCall
from noetl_core.tools.http import statuses
from noetl_core.tools.http.body import excerpt, reason_in
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke
from noetl_core.tools.network.addresses import AddressPolicy

from .conftest import Server, kind
from .http_calls import Http, http

__all__ = ["http"]


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


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"error": "until  18:00\\n"}', "until 18:00"),
        ('{"error": {"code": 7, "message": "no such user"}}', "no such user"),
        ('{"error": "invalid_grant", "error_description": "expired"}', "expired"),
        ('{"error": "' + "x" * 300 + '"}', "x" * 199 + "…"),
        ('{"error": 7, "message": "seven"}', "seven"),
        ('{"detail": "x"}' + " " * 3_000, ""),
        ('{"errors": ["x"]}', ""),
        ("[" * 2_000, ""),
        ('{"error": ' * 150 + '"deep"' + "}" * 150, ""),
        ("down", ""),
    ],
)
def test_the_reason_that_a_body_gives_for_an_error(body: str, reason: str) -> None:
    assert reason_in(excerpt(body.encode())) == reason


@pytest.mark.parametrize("where", ["url", "params"])
def test_a_value_too_long_for_a_url_is_an_error_with_advice(http: Http, server: Server, where: str) -> None:
    large = "x" * 1_000_000
    outcome = http(f"{server.base}/{large}") if where == "url" else http(server.base, params={"q": large})
    assert outcome.error is not None
    assert outcome.error.kind == "schema"
    assert f"`{where}` ha" in outcome.error.message and "send large values as the body" in outcome.error.message
    assert len(outcome.error.message) < 300


@pytest.mark.parametrize(
    ("header", "seconds"),
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
def test_retry_after_is_in_seconds(header: str, seconds: float | None) -> None:
    found = statuses.waits_of({"retry-after": header, "date": "Wed, 21 Oct 2026 07:26:30 GMT"})
    assert found == ({} if seconds is None else {"retry_after": seconds})


def test_statuses_can_be_declared_fine(http: Http, server: Server) -> None:
    assert http(f"{server.base}/status?code=404", spec={"ok_statuses": [404]}).result["data"] == {"why": "because"}
    assert http(f"{server.base}/status?code=500", spec={"raise_for_status": False}).result["status"] == 500


def test_a_request_that_changes_something_carries_the_task_run_as_idempotency_key(http: Http, server: Server) -> None:
    http(server.base + "/x", method="POST")
    http(server.base + "/x", method="POST", headers={"idempotency-key": "mine"})
    http(server.base + "/x")
    assert [r[2].get("idempotency-key") for r in server.requests] == ["run-1", "mine", None]


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
def test_invalid_json_with_a_json_content_type_is_a_parse_error(http: Http, server: Server, body: bytes) -> None:
    outcome = http(server.base + "/raw", method="POST", params={"type": "application/json"}, body=body)
    assert kind(outcome) == "parse" and outcome.helpers["http"]["status"] == 200


def test_gzip_is_read(http: Http, server: Server) -> None:
    assert http(server.base + "/gzip").result["data"] == {"packed": True}
