"""`kind: email` as playbooks use it, over a mocked SES."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws import email
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from tests.unit.tools.aws_playbooks import Ran, mocked

MAIL = {"from": "a@example.org", "to": "b@example.org", "subject": "S", "text": "T"}


@pytest.fixture
def asked() -> Iterator[list[dict[str, Any]]]:
    """Yield the requests that SES receives."""
    with mocked():
        client("sesv2").create_email_identity(EmailIdentity="a@example.org")
        requests: list[dict[str, Any]] = []
        ses = client("sesv2", None, email.ANSWER_S)
        ses.meta.events.register("before-parameter-build.sesv2.SendEmail", lambda params, **_: requests.append(params))
        yield requests


def send(**inputs: Any) -> Outcome:
    return invoke(email.EmailTool(), ToolCall("email", {**MAIL, **inputs}))


def test_a_mail_goes_to_all_its_recipients(asked: list[dict[str, Any]]) -> None:
    more = {"from": "Jürg <a@example.org>", "to": ["b@example.org"], "cc": "Ann B <c@example.org>"}
    ran = Ran({"kind": "email", **MAIL, **more, "bcc": ["d@example.org"], "reply_to": "e@example.org", "html": "<b>T</b>"})
    (mail,) = asked
    assert mail["FromEmailAddress"] == "=?utf-8?b?SsO8cmc=?= <a@example.org>"
    assert mail["Destination"] == {
        "ToAddresses": ["b@example.org"], "CcAddresses": ["Ann B <c@example.org>"], "BccAddresses": ["d@example.org"]
    }  # fmt: skip
    assert mail["ReplyToAddresses"] == ["e@example.org"]
    simple = mail["Content"]["Simple"]
    assert simple["Subject"]["Data"] == "S"
    assert {name: body["Data"] for name, body in simple["Body"].items()} == {"Text": "T", "Html": "<b>T</b>"}
    assert ran.result["recipients"] == 3 and ran.result["message_id"]


@pytest.mark.parametrize(
    ("attachment", "content", "content_type"),
    [
        ({"name": "a.txt", "data": "ü"}, "ü".encode(), "text/plain"),
        ({"name": "a.csv", "data": [{"a": 1}]}, b"a\n1\n", "text/csv"),
        ({"name": "a.json", "data": [{"a": 1}]}, b'[{"a":1}]', "application/json"),
        ({"name": "rows", "data": [{"a": 1}], "format": "jsonl"}, b'{"a":1}\n', "application/octet-stream"),
        ({"name": "a.pdf", "data": "AAE=", "format": "base64"}, b"\0\1", "application/pdf"),
        ({"name": "a", "data": "x", "content_type": "text/x-mine"}, b"x", "text/x-mine"),
    ],
)
def test_an_attachment_is_a_file(asked: list[dict[str, Any]], attachment: Any, content: bytes, content_type: str) -> None:
    assert send(attachments=[attachment]).status == "ok"
    (attached,) = asked[0]["Content"]["Simple"]["Attachments"]
    assert (attached["FileName"], attached["RawContent"], attached["ContentType"]) == (attachment["name"], content, content_type)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("inputs", "kind", "told"),
    [
        ({"from": "a@example.org, b@evil.org"}, "schema", "`from` must be an address"),
        ({"from": "a@example.org\nBcc: x@evil.org"}, "schema", "`from` must be an address"),
        ({"from": "a@example.org <b@evil.org>"}, "schema", "`from` must be an address"),
        ({"from": "nobody"}, "schema", "`from` must be an address"),
        ({"to": "ü@example.org"}, "schema", "`to` must be an address"),
        ({"to": ["b@example.org", 5]}, "schema", "`to` must be an address"),
        ({"to": []}, "schema", "needs recipients"),
        ({"to": [f"b{n}@example.org" for n in range(51)]}, "limit", "51 recipients"),
        ({"subject": "a\r\nBcc: x@evil.org"}, "schema", "`subject` must be one line"),
        ({"text": None}, "schema", "`html` or `text`"),
        ({"attachments": [{"name": "a"}]}, "schema", "an attachment is a mapping"),
        ({"attachments": [{"name": "../a", "data": ""}]}, "schema", "the name of a file"),
        ({"attachments": [{"name": "a", "data": "ü", "format": "base64"}]}, "schema", "cannot be written as base64"),
        ({"attachments": [{"name": "a", "data": 1, "format": "csv"}]}, "schema", "cannot be written as csv"),
        ({"attachments": [{"name": "a", "data": 1, "format": "xls"}]}, "schema", "is one of"),
        ({"attachments": [{"name": "a", "data": "x" * (email.MAX_BYTES + 1)}]}, "limit", "presign"),
        ({"from": "unknown@example.com"}, "client_error", ""),
    ],
)
def test_invalid_mails_are_refused_with_the_reason(
    asked: list[dict[str, Any]], inputs: dict[str, Any], kind: str, told: str
) -> None:
    error = send(**inputs).as_dict()["error"]
    assert error["kind"] == kind and told in error["message"]
    assert (asked == []) == (kind != "client_error")


def test_the_client_does_not_retry_sending_a_mail(asked: list[dict[str, Any]]) -> None:
    config = client("sesv2", None, email.ANSWER_S).meta.config
    assert config.retries["total_max_attempts"] == 1


def test_a_stack_sends_only_from_the_senders_of_its_parameter(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACK_RESOURCES", "{}")
    monkeypatch.setenv("NOETL_TOOL_SENDERS", "a@*")
    assert send(**{"from": "Ann <a@example.org>"}).status == "ok"
    error = send(**{"from": '"a@example.org" <b@example.org>'}).as_dict()["error"]
    assert error["kind"] == "auth" and "ToolSenders does not name sender `b@example.org`" in error["message"]
