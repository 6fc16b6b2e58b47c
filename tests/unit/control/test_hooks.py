"""Requests to webhooks: what a sender is told, what is handed on, and that nobody learns which webhooks there are."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pytest

from noetl_core.adapters.local.rates import LocalRequestRates
from noetl_core.api.document import document
from noetl_core.control.triggers.hooks import MAX_BODY, MOST_KEPT, RATE, Hooks
from noetl_core.dsl.sources import Webhook
from noetl_core.engine import ids
from noetl_core.ports import NotFound, PathRecord, TooLarge, TriggerRecord, Unavailable, WebhookDelivery
from noetl_core.values.instants import SECOND

SECRET = "It's a Secret to Everybody"
NOW = 1_800_000_000
BODY = json.dumps({"ref": "refs/heads/main"}).encode()
GITHUB = TriggerRecord("ci/build", "push", "webhook", 1, "d", True, asdict(Webhook("github", "hooks/github")))


@dataclass
class World:
    """A clock, a catalog with `records`, credentials and a queue, which count what is asked of them."""

    records: dict[tuple[str, str], TriggerRecord] = field(default_factory=lambda: {("ci/build", "push"): GITHUB})
    credentials: dict[str, Any] = field(default_factory=lambda: {"hooks/github": {"data": {"secret": SECRET}}})
    at: int = NOW * SECOND
    asked: list[str] = field(default_factory=list)
    sent: list[WebhookDelivery] = field(default_factory=list)
    fails: Exception | None = None
    deleted: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    """Playbooks that a read a few seconds old still reports as deleted."""

    def about(self, path: str, *, fresh: bool = True) -> PathRecord:
        self.asked.append("about")
        deleted = path in self.deleted or (path in self.kept and not fresh)
        return PathRecord(path, deleted_at=NOW * SECOND if deleted else None)

    def check(self, record: TriggerRecord, delivery: WebhookDelivery) -> Mapping[str, Any] | None:
        self.asked.append("check")
        wrong = {"code": "workload", "message": "no ref", "details": [{"loc": "body.payload", "message": "no ref", "hint": ""}]}
        return None if "ref" in delivery.event["body"] else wrong

    def find(self, path: str, name: str) -> TriggerRecord | None:
        self.asked.append("trigger")
        return self.records.get((path, name))

    def get(self, name: str) -> Mapping[str, Any]:
        self.asked.append("credential")
        assert name.startswith("hooks/")
        if name not in self.credentials:
            raise NotFound(name)
        found: Mapping[str, Any] = self.credentials[name]
        return found

    def forward(self, delivery: WebhookDelivery) -> None:
        if self.fails:
            raise self.fails
        self.sent.append(delivery)

    def now(self) -> int:
        return self.at

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def nonce(self) -> str:
        raise NotImplementedError


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def hooks(world: World) -> Hooks:
    return Hooks(world.find, world, world, world, world.about, world.check, LocalRequestRates())


def signed(body: bytes = BODY, secret: str = SECRET, **more: str) -> dict[str, str]:
    made = hmac.new(secret.encode(), body, "sha256").hexdigest()
    return {"X-Hub-Signature-256": f"sha256={made}", "Content-Type": "application/json", "X-GitHub-Delivery": "guid-1", **more}


def test_a_signed_delivery_is_forwarded_and_the_answer_names_its_execution(world: World, hooks: Hooks) -> None:
    answer = hooks.answer("ci/build", "push", signed(), BODY)
    (delivery,) = world.sent
    assert (delivery.path, delivery.name, delivery.id, delivery.at) == ("ci/build", "push", "guid-1", NOW * SECOND)
    assert delivery.event["body"] == {"ref": "refs/heads/main"}
    execution_id = ids.execution_id_from_key(ids.occurrence_key("ci/build", "push", "guid-1"))
    assert (answer.status, answer.body) == (202, {"status": "accepted", "delivery": "guid-1", "execution_id": execution_id})


def test_a_validating_webhook_refuses_a_workload_that_cannot_start(world: World, hooks: Hooks) -> None:
    assert hooks.answer("ci/build", "push", signed(b"{}"), b"{}").status == 202
    assert "check" not in world.asked, "by default nothing is checked"
    world.records["ci/build", "push"] = replace(GITHUB, source={**GITHUB.source, "respond": "validated"})
    answer = hooks.answer("ci/build", "push", signed(b"{}"), b"{}")
    assert (answer.status, answer.body["error"]["code"], answer.body["error"]["message"]) == (422, "workload", "no ref")
    assert len(world.sent) == 1
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 202
    world.asked.clear()
    assert hooks.answer("ci/build", "push", signed(b"{}", secret="guess"), b"{}").status == 401
    assert "check" not in world.asked, "nothing is evaluated of what is not signed"


def test_forwarded_deliveries_contain_neither_the_secret_nor_the_signature(world: World, hooks: Hooks) -> None:
    hooks.answer("ci/build", "push", signed(Authorization="Bearer t0ken"), BODY)
    handed = json.dumps(asdict(world.sent[0]))
    assert SECRET not in handed
    assert signed()["X-Hub-Signature-256"].partition("=")[2] not in handed
    assert "t0ken" not in handed


def test_on_a_stack_a_secret_names_the_playbooks_it_is_for(world: World) -> None:
    hooks = Hooks(world.find, world, world, world, world.about, world.check, LocalRequestRates(), paths_required=True)
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 401
    world.credentials["hooks/github"]["paths"] = ["ci/*"]
    world.at += 60 * SECOND
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 202


WRONG: dict[str, tuple[str, str, dict[str, str]]] = {
    "another secret": ("ci/build", "push", signed(secret="guess")),
    "no signature": ("ci/build", "push", {}),
    "another body": ("ci/build", "push", signed(b"{}")),
    "no such trigger": ("ci/build", "pull", signed()),
    "no such playbook": ("ci/other", "push", signed()),
    "nothing": ("", "", signed()),
    "a path that no key can hold": ("\ud800" * 10, "x" * 5_000, signed()),
    "a schedule": ("ci/build", "nightly", signed()),
}


@pytest.mark.parametrize(("path", "name", "headers"), WRONG.values(), ids=WRONG)
def test_every_invalid_request_gets_the_same_answer_and_forwards_nothing(
    world: World, hooks: Hooks, path: str, name: str, headers: dict[str, str]
) -> None:
    world.records["ci/build", "nightly"] = replace(GITHUB, name="nightly", kind="schedule", source={})
    answer = hooks.answer(path, name, headers, BODY)
    assert answer.status == 401
    assert answer.body == hooks.answer("ci/build", "push", signed(secret="guess"), BODY).body
    assert world.asked[:2] == ["trigger", "credential"]
    world.asked.clear()
    hooks.answer(path, name, headers, BODY)
    assert world.asked == ["trigger"], "its credential was read a moment ago, whether there is one or not"
    assert world.sent == []


@pytest.mark.parametrize(
    "credential",
    [
        None,
        {"data": {}},
        {"data": {"secret": ""}},
        {"data": {"secret": []}},
        {"data": {"secret": 7}},
        {"data": "x"},
        {"data": {"secret": ["a"] * 4}},
        {"paths": ["other/*"], "data": {"secret": SECRET}},
        {"paths": "ci/build", "data": {"secret": SECRET}},
    ],
    ids=str,
)
def test_a_webhook_with_an_invalid_credential_rejects_every_request_and_logs_it(
    world: World, hooks: Hooks, credential: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world.credentials = {} if credential is None else {"hooks/github": credential}
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 401
    assert "rejects every request" in caplog.text
    assert SECRET not in caplog.text


def test_a_credential_of_another_name_is_never_read(world: World, hooks: Hooks) -> None:
    world.records["ci/build", "push"] = replace(GITHUB, source={**GITHUB.source, "credential": "payroll"})
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 401
    assert world.asked == ["trigger"]


def test_a_credential_is_for_the_playbooks_that_it_names(world: World, hooks: Hooks) -> None:
    world.credentials["hooks/github"] = {"paths": ["ci/*"], "data": {"secret": SECRET}}
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 202


def test_a_rotated_secret_is_valid_after_a_minute_and_overlaps_the_old(world: World, hooks: Hooks) -> None:
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 202
    world.credentials["hooks/github"] = {"data": {"secret": ["new", SECRET]}}
    world.at += 61 * SECOND
    for secret in ("new", SECRET):
        assert hooks.answer("ci/build", "push", signed(secret=secret), BODY).status == 202
    world.credentials["hooks/github"] = {"data": {"secret": "new"}}
    world.at += 61 * SECOND
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 401


def test_only_a_signed_sender_learns_that_a_webhook_is_disabled(world: World, hooks: Hooks) -> None:
    world.records["ci/build", "push"] = replace(GITHUB, enabled=False)
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 409
    assert hooks.answer("ci/build", "push", signed(secret="guess"), BODY).status == 401
    assert world.sent == []


def test_a_playbook_that_was_just_undeleted_accepts_deliveries(world: World, hooks: Hooks) -> None:
    world.kept = {"ci/build"}
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 202
    assert len(world.sent) == 1


def test_only_a_signed_sender_learns_that_a_playbook_is_deleted(world: World, hooks: Hooks) -> None:
    world.deleted = {"ci/build"}
    answer = hooks.answer("ci/build", "push", signed(), BODY)
    assert (answer.status, answer.body["error"]["code"]) == (410, "deleted")
    assert "the playbook ci/build is deleted" in answer.body["error"]["message"]
    world.asked.clear()
    assert hooks.answer("ci/build", "push", signed(secret="guess"), BODY).status == 401
    assert world.asked == ["trigger"]
    assert world.sent == []


def test_a_credential_added_later_works_within_seconds(world: World, hooks: Hooks) -> None:
    kept, world.credentials = world.credentials, {}
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 401
    world.credentials = kept
    world.at += 6 * SECOND
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 202


def test_a_webhook_registered_later_works_at_once(world: World, hooks: Hooks) -> None:
    kept, world.records = world.records, {}
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 401
    world.at += 59 * SECOND
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 401
    assert world.asked == ["trigger", "credential", "trigger"], "no oftener than where there is one"
    world.records = kept
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 202


@pytest.mark.parametrize(
    "body", [b'{"token": "XXYYZZ", "event_id": "Ev1"}', b"token=XXYYZZ&text=hi", b'payload={"token": "XXYYZZ"}']
)
def test_forwarded_deliveries_do_not_contain_the_old_token_of_slack(world: World, hooks: Hooks, body: bytes) -> None:
    world.records["chat", "slack"] = TriggerRecord(
        "chat", "slack", "webhook", 1, "d", True, asdict(Webhook("slack", "hooks/github"))
    )
    made = hmac.new(SECRET.encode(), b"v0:%d:" % NOW + body, "sha256").hexdigest()
    kind = "application/json" if body.startswith(b"{") else "application/x-www-form-urlencoded"
    headers = {"X-Slack-Signature": f"v0={made}", "X-Slack-Request-Timestamp": str(NOW), "Content-Type": kind}
    assert hooks.answer("chat", "slack", headers, body).status == 202
    assert "XXYYZZ" not in json.dumps(asdict(world.sent[0]))


def test_a_delivery_that_does_not_match_is_accepted_and_starts_nothing(world: World, hooks: Hooks) -> None:
    match = {"headers": {"x-github-event": ["push"]}}
    world.records["ci/build", "push"] = replace(GITHUB, source={**GITHUB.source, "match": match})
    answer = hooks.answer("ci/build", "push", {**signed(), "X-GitHub-Event": "ping"}, BODY)
    assert (answer.status, answer.body) == (202, {"status": "ignored"})
    assert world.sent == []
    assert hooks.answer("ci/build", "push", {**signed(), "X-GitHub-Event": "push"}, BODY).body["status"] == "accepted"


def test_an_expired_signature_is_refused(world: World, hooks: Hooks) -> None:
    world.records["pay", "stripe"] = TriggerRecord(
        "pay", "stripe", "webhook", 1, "d", True, asdict(Webhook("stripe", "hooks/github"))
    )
    body = b'{"id": "evt_1"}'
    made = hmac.new(SECRET.encode(), b"%d." % NOW + body, "sha256").hexdigest()
    headers = {"Stripe-Signature": f"t={NOW},v1={made}", "content-type": "application/json"}
    assert hooks.answer("pay", "stripe", headers, body).body["delivery"] == "evt_1"
    world.at += 301 * SECOND
    assert hooks.answer("pay", "stripe", headers, body).status == 401


def test_slack_gets_its_challenge_when_it_has_signed_it(world: World, hooks: Hooks) -> None:
    world.records["chat", "slack"] = TriggerRecord(
        "chat", "slack", "webhook", 1, "d", True, asdict(Webhook("slack", "hooks/github"))
    )
    body = b'{"type": "url_verification", "challenge": "3eZb"}'
    made = hmac.new(SECRET.encode(), b"v0:%d:" % NOW + body, "sha256").hexdigest()
    headers = {"X-Slack-Signature": f"v0={made}", "X-Slack-Request-Timestamp": str(NOW), "Content-Type": "application/json"}
    answer = hooks.answer("chat", "slack", headers, body)
    assert (answer.status, answer.body) == (200, {"challenge": "3eZb"})
    assert hooks.answer("chat", "slack", {**headers, "X-Slack-Signature": "v0=00"}, body).status == 401
    assert world.sent == []


def test_a_large_body_is_refused_before_anything_is_read(world: World, hooks: Hooks) -> None:
    answer = hooks.answer("ci/build", "push", signed(), b"x" * (MAX_BODY + 1))
    assert (answer.status, answer.body["error"]["message"]) == (413, "a body has 4 MB (4,194,304 bytes) at most")
    assert world.asked == []


def test_the_openapi_document_has_the_statuses_and_bodies_that_senders_get(world: World, hooks: Hooks) -> None:
    (route,) = [methods["post"] for path, methods in document()["paths"].items() if path.startswith("/api/hooks/")]
    answers = route["responses"]
    assert set(answers) == {"200", "202", "400", "401", "403", "409", "410", "413", "422", "429", "503"}
    taken = answers["202"]["content"]["application/json"]["schema"]
    for more in ({}, {"match": {"headers": {"x-github-event": ["push"]}}}):
        world.records["ci/build", "push"] = replace(GITHUB, source={**GITHUB.source, **more})
        answer = hooks.answer("ci/build", "push", signed(), BODY)
        assert answer.status == 202
        assert answer.body["status"] in taken["properties"]["status"]["enum"]
        assert answer.body.keys() <= taken["properties"].keys()
    assert "ErrorBody" in document()["components"]["schemas"]


@pytest.mark.parametrize(("error", "status"), [(Unavailable("busy"), 503), (TooLarge("much"), 413)])
def test_a_delivery_that_cannot_be_forwarded_is_not_accepted(world: World, hooks: Hooks, error: Exception, status: int) -> None:
    world.fails = error
    assert hooks.answer("ci/build", "push", signed(), BODY).status == status


def test_guesses_fill_no_memory(world: World, hooks: Hooks) -> None:
    for n in range(MOST_KEPT + 100):
        hooks.answer("ci/build", f"guess-{n}", signed(), BODY)
    assert len(hooks.kept) == MOST_KEPT


def test_a_sender_over_the_rate_of_its_webhook_gets_retry_after(
    world: World, hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    at_once = int(2 * RATE)
    assert {hooks.answer("ci/build", "push", signed(), BODY).status for _ in range(at_once)} == {202}
    answer = hooks.answer("ci/build", "push", signed(), BODY)
    assert (answer.status, answer.body["error"]["code"], answer.headers) == (429, "over_rate", {"Retry-After": "1"})
    assert len(world.sent) == at_once
    assert "webhook push of ci/build is over its rate" in caplog.text
    world.at += SECOND
    assert [hooks.answer("ci/build", "push", signed(), BODY).status for _ in range(int(RATE) + 1)] == [202] * int(RATE) + [429]


def test_wrongly_signed_requests_do_not_use_up_the_rate(world: World, hooks: Hooks) -> None:
    for _ in range(1_000):
        assert hooks.answer("ci/build", "push", signed(secret="guess"), BODY).status == 401
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 202


def test_webhooks_do_not_share_a_rate(world: World, hooks: Hooks) -> None:
    world.records["ci/build", "tag"] = replace(GITHUB, name="tag")
    assert [hooks.answer("ci/build", "push", signed(), BODY).status for _ in range(100)][-1] == 429
    assert hooks.answer("ci/build", "tag", signed(), BODY).status == 202


@pytest.mark.parametrize(("rate", "at_once", "retry_after"), [(5, 10, "1"), (0.1, 1, "10"), (100, 200, "1"), (None, 40, "1")])
def test_a_webhook_may_have_a_rate_of_its_own(
    world: World, hooks: Hooks, rate: float | None, at_once: int, retry_after: str
) -> None:
    world.records["ci/build", "push"] = replace(GITHUB, source={**GITHUB.source, "rate": rate})
    for _ in range(at_once):
        assert hooks.answer("ci/build", "push", signed(), BODY).status == 202
    answer = hooks.answer("ci/build", "push", signed(), BODY)
    assert (answer.status, answer.headers["Retry-After"]) == (429, retry_after)


def test_a_webhook_registered_before_there_were_rates_has_the_usual_one(world: World, hooks: Hooks) -> None:
    older = {key: value for key, value in GITHUB.source.items() if key != "rate"}
    world.records["ci/build", "push"] = replace(GITHUB, source=older)
    assert hooks.answer("ci/build", "push", signed(), BODY).status == 202
