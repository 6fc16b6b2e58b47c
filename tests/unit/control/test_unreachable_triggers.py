"""A trigger to which nothing comes says so, where it is registered and where it is listed, and names the parameter."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.deployment.inbound_sources import InboundSources, OnThisMachine
from tests.unit.control.api_client import Client, client

__all__ = ["client"]

WAYS = InboundSources(frozenset({"payments", "orders.fifo"}), "shop", ("shop.orders", "aws.s3"), frozenset({"inbox", "scans"}))
QUEUES = (
    "no message comes: none of the stack's parameters TriggerQueue, TriggerQueue2, TriggerQueue3 and TriggerQueue4 names queue"
)
SOURCES = "no event comes: the stack's parameter EventSources lets in only shop.orders, aws.s3; the pattern matches none of them"


@pytest.mark.parametrize(
    ("kind", "source", "says"),
    [
        ("queue", {"queue": "payments"}, None),
        ("queue", {"queue": "orders.fifo"}, None),
        ("queue", {"queue": "payment"}, f'{QUEUES} payment (did you mean "payments"?)'),
        ("queue", {"queue": "x"}, f"{QUEUES} x"),
        ("event", {"pattern": {"source": ["shop.orders"]}}, None),
        ("event", {"pattern": {"source": [{"prefix": "shop."}]}}, None),
        ("event", {"pattern": {"detail": {"n": [1]}}}, None),
        ("event", {"pattern": {"$or": [{"source": ["else"]}, {"detail-type": ["Placed"]}]}}, None),
        ("event", {"pattern": {"source": ["shop.stock"]}}, SOURCES),
        ("upload", {"bucket": None, "prefix": "uploads/"}, None),
        ("upload", {"bucket": "inbox"}, None),
        ("upload", {"bucket": "scans"}, None),
        ("upload", {"bucket": "other"}, "no upload comes: the stack's parameter UploadBuckets does not name bucket other"),
        ("webhook", {"form": "github"}, None),
        ("schedule", {"cron": "* * * * *"}, None),
    ],
)
def test_a_trigger_source_that_the_stack_does_not_receive_is_explained(
    kind: str, source: dict[str, Any], says: str | None
) -> None:
    assert WAYS.why_unreachable(kind, source) == says


HEADER = "no delivery matches: no event has the header x-kind (list it in `headers` of the webhook)"


def webhook(match: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"form": "github", "headers": (), "match": match, **more}


@pytest.mark.parametrize(
    ("kind", "source", "says"),
    [
        ("webhook", webhook({"headers": {"x-github-event": ["push"]}, "body": {"ref": ["main"]}}), None),
        ("webhook", webhook({"headers": {"x-kind": ["push"]}}), HEADER),
        ("webhook", webhook({"headers": {"x-kind": ["push"]}}, headers=("x-kind",)), None),
        ("webhook", webhook({"headers": {"x-kind": [{"exists": False}]}}), None),
        ("webhook", webhook({"$or": [{"headers": {"x-kind": ["push"]}}, {"body": {"a": [1]}}]}), None),
        (
            "webhook",
            webhook({"boddy": {"a": [1]}}),
            'no delivery matches: no event has boddy (did you mean "body"?)',
        ),
        (
            "queue",
            {"queue": "payments", "match": {"amount": [1]}},
            (
                "no delivery matches: no event has amount"
                " (events have: attributes, body, deduplication_id, group, message_id, queue, sent_at)"
            ),
        ),
        ("queue", {"queue": "payments", "match": {"body": {"amount": [1]}}}, None),
        (
            "event",
            {"pattern": {"source": ["aws.s3"], "detail_type": ["Placed"]}},
            'no delivery matches: no event has detail_type (did you mean "detail-type"?)',
        ),
    ],
)
def test_a_pattern_with_a_field_that_events_lack_is_explained(kind: str, source: dict[str, Any], says: str | None) -> None:
    assert WAYS.why_unreachable(kind, source) == says


def test_one_machine_also_reports_a_webhook_that_never_matches() -> None:
    assert OnThisMachine().why_unreachable("webhook", webhook({"headers": {"x-kind": ["push"]}})) == HEADER


def test_events_need_a_bus_and_a_bus_without_sources_accepts_all() -> None:
    event = {"pattern": {"source": ["shop.stock"]}}
    assert InboundSources().why_unreachable("event", event) == "no event comes: the stack's parameter EventBus names no bus"
    assert InboundSources(event_bus="default").why_unreachable("event", event) is None


def test_inbound_sources_are_read_from_environment_variables() -> None:
    arn = "arn:aws:sqs:us-east-1:000000000000"
    named = {
        "TRIGGER_QUEUES": f"{arn}:payments,,{arn}:orders.fifo,",
        "EVENT_BUS": "shop",
        "EVENT_SOURCES": "shop.orders, aws.s3",
        "UPLOAD_BUCKETS": "scans",
        "INBOX_BUCKET": "inbox",
    }
    assert InboundSources.from_environment(named) == WAYS
    assert InboundSources.from_environment({"TRIGGER_QUEUES": ",,,", "EVENT_BUS": "", "EVENT_SOURCES": ""}) == InboundSources()


PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: charge, path: orders/charge }
executor: { spec: { triggers: [{ queue: payment }, { schedule: "@daily" }] } }
workflow: [{ step: start, tool: { kind: noop } }]
"""


def test_registering_validating_and_listing_report_unreachable_triggers(client: Client) -> None:
    client.local.control.inbound_sources = WAYS
    says = f'{QUEUES} payment (did you mean "payments"?)'
    for path, status in (("/api/playbooks", 201), ("/api/playbooks/validate", 200)):
        answered, body = client("POST", path, PLAYBOOK)
        assert (answered, body["warnings"]) == (status, [f"trigger queue: {says}"])
    queue, schedule = client("GET", "/api/triggers")[1]["triggers"]
    assert queue["unreached"] == says
    assert "unreached" not in schedule
    assert client("GET", "/api/triggers/orders/charge/queue")[1]["unreached"] == says
    client.local.control.inbound_sources = None
    assert client("POST", "/api/playbooks", PLAYBOOK)[1]["warnings"] == [], "what is not known is not said"


def test_one_machine_warns_that_no_message_reaches_a_queue_trigger(client: Client) -> None:
    assert isinstance(client.local.control.inbound_sources, OnThisMachine)
    assert client("POST", "/api/playbooks", PLAYBOOK)[1]["warnings"] == [
        "trigger queue: no message comes: messages reach deployed stacks only"
    ]
