"""Tests `tests.api_requests`: it refuses a history whose events do not match their schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api_requests import validator_of

EVENT = {
    "event_id": "1",
    "execution_id": "1",
    "timestamp": "2026-11-20T10:00:00.000000Z",
    "source": "server",
    "name": "WorkflowStarted",
    "event_type": "workflow.started",
    "entity": "workflow",
    "entity_id": "1",
    "status": "in_progress",
    "data": {"entry": "start"},
}


def refused(**changes: Any) -> list[str]:
    schema = json.dumps({"$ref": "#/components/schemas/Event"})
    return [wrong.message for wrong in validator_of(schema).iter_errors(EVENT | changes)]


def test_an_event_that_is_as_its_name_says_passes() -> None:
    assert refused() == []


@pytest.mark.parametrize(
    "changes",
    [{"name": "WorkflowEnded"}, {"entity": "step"}, {"data": {}}, {"event_type": "workflow.finished"}, {"other": 1}],
    ids=str,
)
def test_another_one_is_refused(changes: dict[str, Any]) -> None:
    assert len(refused(**changes)) == 1
