"""`kind: eventbridge` as playbooks use it, over a mocked EventBridge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.aws import eventbridge
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from tests.unit.tools.aws_playbooks import Ran, mocked

ARN = "arn:aws:events:us-east-1:123456789012:event-bus/shop"


@pytest.fixture
def asked() -> Iterator[list[list[dict[str, Any]]]]:
    """The entries of every request."""
    with mocked():
        client("events").create_event_bus(Name="shop")
        requests: list[list[dict[str, Any]]] = []
        for region in (None, "us-east-1"):
            client("events", region).meta.events.register(
                "before-parameter-build.events.PutEvents", lambda params, **_: requests.append(params["Entries"])
            )
        yield requests


def put(timeout_s: float | None = None, **inputs: Any) -> Outcome:
    all_inputs = {"bus": "shop", "source": "shop.orders", "detail_type": "OrderPlaced", **inputs}
    return invoke(eventbridge.EventBridgeTool(), ToolCall("eventbridge", all_inputs, timeout_s=timeout_s))


@pytest.mark.parametrize("bus", ["shop", ARN])
def test_an_event_is_put_on_a_bus_by_name_or_arn(asked: list[list[dict[str, Any]]], bus: str) -> None:
    event = {"source": "shop.orders", "detail_type": "OrderPlaced", "detail": {"ü": 1}, "resources": ["arn:aws:s3:::a"]}
    ran = Ran({"kind": "eventbridge", "bus": bus, **event})
    ((entry,),) = asked
    assert json.loads(entry.pop("Detail")) == {"ü": 1}
    assert entry == {
        "EventBusName": bus, "Source": "shop.orders", "DetailType": "OrderPlaced", "Resources": ["arn:aws:s3:::a"]
    }  # fmt: skip
    assert ran.result["bus"] == "shop" and ran.result["sent"] == len(ran.result["event_ids"]) == 1


def test_many_events_go_in_as_few_requests_as_they_fit_in(asked: list[list[dict[str, Any]]]) -> None:
    details = [{"t": "x" * 500_000}] * 3 + [{"t": "y"}] * 12
    assert put(details=details).result["sent"] == 15
    assert list(map(len, asked)) == [2, 10, 3]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("inputs", "kind", "told"),
    [
        ({}, "schema", "a mapping"),
        ({"detail": "{}"}, "schema", "a mapping"),
        ({"details": {"a": 1}}, "schema", "`details` must be a list"),
        ({"details": [{}, [1]]}, "schema", "a mapping"),
        ({"detail": {}, "source": None}, "schema", "`source`"),
        ({"detail": {}, "detail_type": ""}, "schema", "`detail_type`"),
        ({"detail": {}, "resources": "arn:aws:s3:::a"}, "schema", "`resources`"),
        ({"detail": {}, "bus": "arn:aws:sns:us-east-1:123456789012:shop"}, "schema", "a name or an ARN"),
        ({"detail": {}, "bus": "a:event-bus/b"}, "schema", "a name or an ARN"),
        ({"details": [*[{}] * 11, {"t": "x" * (1024 * 1024)}]}, "limit", "message 11 has"),
        ({"detail": {}, "timeout_s": 0}, "timeout", "not done"),
    ],
)
def test_invalid_events_are_refused_with_the_reason_and_none_is_put(
    asked: list[list[dict[str, Any]]], inputs: dict[str, Any], kind: str, told: str
) -> None:
    error = put(**inputs).as_dict()["error"]
    assert error["kind"] == kind and told in error["message"]
    assert asked == []


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("ThrottlingException", "rate_limit", True),
        ("InternalFailure", "server_error", True),
        ("NotAuthorizedForSourceException", "auth", False),
        ("MalformedDetail", "client_error", False),
    ],
)
def test_one_event_that_is_refused_among_others_fails_the_task(
    asked: list[list[dict[str, Any]]], code: str, kind: str, retryable: bool
) -> None:
    def refuse(parsed: dict[str, Any], **_: Any) -> None:
        if len(parsed["Entries"]) < 10:
            parsed["Entries"][1] = {"ErrorCode": code, "ErrorMessage": "no"}

    client("events").meta.events.register("after-call.events.PutEvents", refuse)
    error = put(details=[{"n": n} for n in range(13)]).as_dict()["error"]
    assert (error["kind"], error["retryable"], error["code"]) == (kind, retryable, code)
    assert error["message"] == "eventbridge: event 11 was not put: no" and error["details"] == {"sent": 12, "of": 13}


def test_a_stack_puts_events_only_on_buses_its_parameter_names(
    asked: list[list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACK_RESOURCES", "{}")
    monkeypatch.setenv("NOETL_TOOL_EVENT_BUSES", "shop")
    assert put(detail={}, bus=ARN).status == "ok"
    error = put(detail={}, bus=None).as_dict()["error"]
    assert error["kind"] == "auth" and "ToolEventBuses does not name event bus `default`" in error["message"]
