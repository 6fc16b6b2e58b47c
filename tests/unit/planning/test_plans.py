"""The operation that forecasts: it reads past executions with bounded work, and says how many."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control.core import Control
from noetl_core.views.explain import past_runs
from tests.unit.control.api_client import HELLO, Client, client, hurry

__all__ = ["client"]
FAILS = HELLO.replace('kind: noop, result: "Hello, {{ workload.name }}!"', 'kind: python, code: "raise ValueError(workload)"')


def planned(client: Client, **body: Any) -> dict[str, Any]:
    found: dict[str, Any]
    status, found = client("POST", "/api/playbooks/plan", body)
    assert status == 200, found
    return found


def run(client: Client, text: str, times: int) -> None:
    for _ in range(times):
        client.run(playbook=text)


def test_a_playbook_without_executions_is_forecast_by_its_structure_alone(client: Client) -> None:
    client("POST", "/api/playbooks", {"playbook": HELLO})
    found = planned(client, path="test/hello")
    assert (found["runs"], found["read"], found["failed"]) == (0, 0, 0)
    assert any(text.startswith("no past execution") for text in found["assumes"])


def test_completed_executions_are_learnt_from_and_failed_ones_counted(client: Client) -> None:
    run(client, HELLO, 2)
    run(client, FAILS, 1)
    found = planned(client, path="test/hello@1", payload={"name": "Ada"})
    assert (found["runs"], found["read"], found["failed"]) == (2, 3, 1)
    assert found["seconds"]["low"] <= found["seconds"]["typical"] <= found["seconds"]["high"]
    assert found["cost"]["currency"] == "USD" and found["steps"][0]["step"] == "start"
    assert planned(client, playbook=HELLO) == found, "the executions are those of the path in the text"
    assert planned(client, path="test/hello", last=2)["read"] == 2
    assert planned(client, path="test/hello", last=0)["runs"] == 0


def test_reading_ends_in_time_and_the_forecast_says_so(client: Client) -> None:
    run(client, HELLO, 3)
    control: Control = client.local.control
    hurry(control, (past_runs.READ_S + 1) / 2)
    found = past_runs.plan(control, control.playbook.parse(HELLO), {})
    assert (found["runs"], found["read"]) == (1, 1)
    assert found["assumes"][0] == "past: 1 of 3 executions, those that could be read in 5 s"


@pytest.mark.parametrize(
    ("body", "status", "where"),
    [
        ({}, 400, "body.path"),
        ({"path": "a", "playbook": HELLO}, 400, "body.path"),
        ({"path": "nowhere"}, 404, None),
        ({"playbook": "x: 1"}, 422, None),
        ({"playbook": HELLO, "last": 101}, 400, "body.last"),
    ],
)
def test_invalid_plan_requests_are_refused(client: Client, body: dict[str, Any], status: int, where: str | None) -> None:
    found, answer = client("POST", "/api/playbooks/plan", body)
    assert found == status
    assert where is None or answer["error"]["details"][0]["loc"] == where
