"""The page of the link to a callback: it shows the question, takes one answer, and says kindly where it does neither."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from noetl_core.engine.records import StreamId
from noetl_core.values.answer_forms import answer_of, decision_of
from tests.api_requests import Answer, ask
from tests.unit.control.api_client import ASK, Client, client
from tests.waiting import run_until_it_waits

__all__ = ["client"]

ORDER = (
    ASK.replace("Ship it?", "Ship <b>2</b> parcels?")
    .replace("heartbeat: 1h", "timeout: 2h")
    .replace(
        "properties: { ok: { type: boolean } }",
        "properties: { ok: { type: boolean, default: true }, day: { type: string, format: date, title: 'The \"day\"' }, note: { type: string }, at: { type: string, format: date-time, default: '2026-03-01T12:30:00+01:00' } }",
    )
)


class Asked:
    """An execution that waits, and its link."""

    def __init__(self, client: Client, playbook: str = ORDER) -> None:
        self.client = client
        self.id = client.start(playbook=playbook)
        run_until_it_waits(client.local, self.id)
        (found,) = client("GET", f"/api/executions/{self.id}/callbacks")[1]["callbacks"]
        self.link = f"/api/callbacks/{found['token']}"

    def get(self, link: str = "") -> Answer:
        return ask(self.client.api, "GET", link or self.link)

    def send(self, link: str = "", **form: str) -> Answer:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return ask(self.client.api, "POST", f"{link or self.link}/answer", body=urlencode(form), headers=headers)

    def commits(self) -> list[Any]:
        return list(self.client.local.control.store.read(StreamId(self.id)))


@pytest.fixture
def asked(client: Client) -> Asked:
    return Asked(client)


def words(answer: Answer) -> str:
    assert answer.content_type == "text/html; charset=utf-8"
    return unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", answer.sent, flags=re.DOTALL))


def test_a_link_shows_the_question_with_buttons_and_changes_nothing(asked: Asked) -> None:
    """Scanners of mails open every link, some of them often."""
    before = asked.commits()
    for _ in range(3):
        page = asked.get()
    assert page.status == 200
    assert "Ship <b>2</b> parcels?" in words(page) and "<b>2</b>" not in page.sent
    assert re.search(r"before +20", words(page)), "when it is too late"
    assert re.findall(r"<button[^>]*value=(\w+)>(\w+)", page.sent) == [("yes", "Approve"), ("no", "Reject")]
    assert "selected" not in page.sent and "checked" not in page.sent, "nothing is decided by default"
    assert "type=date" in page.sent and "The &quot;day&quot;" in page.sent
    assert "<script" not in page.sent
    (policy,) = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "form-action 'self'" in policy
    assert page.headers["Referrer-Policy"] == ["no-referrer"], "the address is the secret"
    assert page.headers["Cache-Control"] == ["no-store"]
    assert asked.commits() == before


def test_a_form_is_the_answer_once(asked: Asked, client: Client) -> None:
    assert "type=datetime-local" in asked.get().sent and "value='2026-03-01T11:30:00'" in asked.get().sent, "its default, in UTC"
    done = asked.send(decision="yes", **{"field.day": "2026-03-01", "field.note": "", "field.at": "2026-03-01T10:00"})
    assert (done.status, "Thank you" in words(done)) == (200, True)
    for again in (asked.send(decision="no"), asked.get()):
        assert (again.status, "Already answered" in words(again)) == (410, True)
    assert client.local.run(asked.id, timeout_s=20)
    assert client("GET", f"/api/executions/{asked.id}")[1]["result"] == {
        "ok": True,
        "day": "2026-03-01",
        "at": "2026-03-01T10:00:00Z",
    }
    assert asked.get().status == 410


def test_an_invalid_answer_shows_the_form_again_with_the_entered_values(asked: Asked) -> None:
    undecided = asked.send(**{"field.note": 'a "<note>'})
    assert (undecided.status, "choose Approve or Reject" in words(undecided)) == (422, True)
    assert "value='a &quot;&lt;note&gt;'" in undecided.sent
    wrong = asked.send(decision="yes", **{"field.day": "tomorrow"})
    assert (wrong.status, "the answer.day is not a date" in words(wrong)) == (422, True)
    assert "action='answer'" in wrong.sent, "relative to where it was sent"
    assert asked.get().status == 200, "it still waits"


def test_a_link_that_was_tampered_with_or_crossed_is_refused_kindly(asked: Asked, client: Client) -> None:
    other = Asked(client)
    body, _, mark = asked.link.removeprefix("/api/callbacks/").rpartition(".")
    crossed = ".".join([other.id, *body.split(".")[1:], mark])
    for token in (f"{body}.{mark[:-1]}{'A' if mark[-1] != 'A' else 'B'}", crossed, "nothing", f"{body}.{mark}x"):
        for answer in (asked.get(f"/api/callbacks/{token}"), asked.send(f"/api/callbacks/{token}", decision="yes")):
            assert (answer.status, "This link is not valid" in words(answer)) == (403, True)
    assert asked.get().status == other.get().status == 200, "both still wait"


def test_a_link_that_is_too_late_says_so(client: Client) -> None:
    asked = Asked(client, ORDER.replace("timeout: 2h", "timeout: 0.2"))
    assert client.local.run(asked.id, timeout_s=20)
    for answer in (asked.get(), asked.send(decision="yes")):
        assert (answer.status, "Too late" in words(answer)) == (410, True)


def test_a_question_without_a_schema_takes_json(client: Client) -> None:
    asked = Asked(client, re.sub(r"      schema: .*\n", "", ASK))
    assert "<textarea" in asked.get().sent
    assert asked.send(**{"field.": "{not json"}).status == 422
    assert asked.send(**{"field.": '{"a": [1]}'}).status == 200
    assert client.local.run(asked.id, timeout_s=20)
    assert client("GET", f"/api/executions/{asked.id}")[1]["result"] == {"a": [1]}


@pytest.mark.parametrize(
    ("schema", "decision"),
    [
        ({"properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}, ("approved", "Approve", "Reject")),
        ({"properties": {"disapproved": {"type": "boolean"}}, "required": ["disapproved"]}, ("disapproved", "disapproved: yes", "disapproved: no")),
        ({"properties": {"needs_approval": {"type": "boolean"}}, "required": ["needs_approval"]}, ("needs_approval", "needs_approval: yes", "needs_approval: no")),
        ({"properties": {"urgent": {"type": "boolean", "title": "Urgent"}}, "required": ["urgent"]}, ("urgent", "Urgent: yes", "Urgent: no")),
        ({"properties": {"ok": {"type": "boolean"}}}, None),
        ({"properties": {"ok": {"type": "boolean"}, "now": {"type": "boolean"}}, "required": ["ok", "now"]}, None),
        (None, None),
    ],
)  # fmt: skip
def test_buttons_decide_the_one_boolean_that_is_needed(schema: Any, decision: tuple[str, str, str] | None) -> None:
    found = decision_of(schema)
    assert (found and tuple(found.values())) == decision


def test_texts_of_a_form_are_values_of_their_types() -> None:
    properties = {
        "n": {"type": "integer"}, "x": {"type": ["number", "null"]}, "b": {"type": "boolean"}, "who": {"enum": ["ann", 7]},
        "many": {"type": "array"}, "text": {"type": "string"}, "left": {"type": "string"},
    }  # fmt: skip
    schema = {"type": "object", "required": ["n"], "properties": properties}
    texts = {"n": "3", "x": "2.5", "b": "false", "who": "1", "many": "[1]", "text": "a\r\nb", "left": ""}
    assert answer_of(schema, texts) == {"n": 3, "x": 2.5, "b": False, "who": 7, "many": [1], "text": "a\nb"}
    with pytest.raises(ValueError, match="n is missing"):
        answer_of(schema, {})
    assert answer_of({"type": "number"}, {"": "4"}) == 4
    assert answer_of({"properties": {"": {"type": "number"}}}, {"": "4"}) == {"": 4}


@pytest.mark.parametrize("text", ["NaN", "1e999", "[" * 100_000, '["\\ud800"]', '{"a": 1, "a": 2}', "9" * 5_000])
def test_json_that_requests_refuse_is_refused_in_a_form_too(client: Client, text: str) -> None:
    asked = Asked(client, re.sub(r"      schema: .*\n", "", ASK))
    wrong = asked.send(**{"field.": text})
    assert (wrong.status, "the answer must be JSON" in words(wrong)) == (422, True)
    assert asked.get().status == 200, "it still waits"


@pytest.mark.parametrize("text", ["2", "ann", "²", "٣", "9" * 5_000])
def test_a_form_takes_only_the_choices_that_it_offers(text: str) -> None:
    with pytest.raises(ValueError, match="who must be one of the choices"):
        answer_of({"properties": {"who": {"enum": ["ann", 7]}}}, {"who": text})
