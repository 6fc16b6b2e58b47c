"""Webhooks with `respond: validated`: each reason for which a playbook cannot start is in the answer, as its start would say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.control.catalog.registration import register
from noetl_core.control.triggers.deliveries import Deliveries
from noetl_core.control.triggers.validation import RegisteredPlaybooks, why_it_cannot_start
from noetl_core.ports import TriggerRecord, WebhookDelivery
from noetl_core.runtime.local import LocalWiring

ORDER = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: order, path: shop/order}
executor:
  spec:
    triggers:
      - name: placed
        webhook: {form: hmac, credential: hooks/shop, header: X-S, respond: validated}
        payload: {amount: "{{ trigger.event.body.amount }}", half: "{{ trigger.event.body.amount // trigger.event.body.parts }}"}
workload:
  amount: null
  twice: "{{ 10 // workload.amount }}"
  x-schema: {type: object, properties: {amount: {type: number, maximum: 99}}}
workflow: [{step: charge, tool: {kind: noop}}]
"""


@pytest.fixture
def local() -> Iterator[LocalWiring]:
    wiring = LocalWiring()
    register(wiring.control, ORDER)
    yield wiring
    wiring.close()


def _record(local: LocalWiring) -> TriggerRecord:
    found = local.control.triggers.trigger("shop/order", "placed")
    assert found is not None and found.source["respond"] == "validated"
    return found


def _delivery(body: Any) -> WebhookDelivery:
    return WebhookDelivery("shop/order", "placed", "1", {"headers": {}, "body": body}, 1_800_000_000_000_000)


REASONS: dict[str, tuple[Any, str, str]] = {
    "a payload that cannot be rendered": ({"amount": 1, "parts": 0}, "template", "division by zero"),
    "a default that cannot be rendered": ({"amount": 0, "parts": 1}, "workload", "division by zero"),
    "a workload that does not conform": ({"amount": 100, "parts": 1}, "workload", "amount"),
}


@pytest.mark.parametrize(("body", "code", "says"), REASONS.values(), ids=REASONS)
def test_validation_refuses_a_delivery_with_the_reason_its_start_would_have(
    local: LocalWiring, body: Any, code: str, says: str
) -> None:
    wrong = why_it_cannot_start(local.control, _record(local), _delivery(body))
    assert wrong is not None
    assert (wrong["code"], set(wrong)) == (code, {"code", "message", "details"})
    assert says in wrong["message"]
    assert local.control.triggers.firings("shop/order", "placed", 0, 9) == [], "a check writes nothing"
    (firing,) = Deliveries(local.control).take(_delivery(body))
    assert (firing.result, firing.reason) == ("refused", wrong["message"])


def test_a_startable_delivery_validates_with_and_without_a_control_plane(local: LocalWiring) -> None:
    body = {"amount": 4, "parts": 2}
    for playbooks in (local.control, RegisteredPlaybooks(local.control.catalog)):
        assert why_it_cannot_start(playbooks, _record(local), _delivery(body)) is None
    (firing,) = Deliveries(local.control).take(_delivery(body))
    assert firing.result == "started"


def test_a_strict_stack_refuses_undefined_names(local: LocalWiring) -> None:
    register(
        local.control,
        ORDER.replace("{{ trigger.event.body.amount // trigger.event.body.parts }}", "of {{ trigger.event.body.note }}"),
    )
    record, delivery = _record(local), _delivery({"amount": 4})
    assert why_it_cannot_start(RegisteredPlaybooks(local.control.catalog), record, delivery) is None
    wrong = why_it_cannot_start(RegisteredPlaybooks(local.control.catalog, strict=True), record, delivery)
    assert wrong is not None and wrong["code"] == "template" and "note" in wrong["message"]


def test_a_version_that_is_not_there_is_refused(local: LocalWiring) -> None:
    register(local.control, ORDER.replace("- name: placed", "- name: placed\n        version: stable"))
    wrong = why_it_cannot_start(local.control, _record(local), _delivery({"amount": 4, "parts": 2}))
    assert wrong is not None and wrong["code"] == "not_found" and "no alias 'stable'" in wrong["message"]
