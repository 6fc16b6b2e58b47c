"""The API of triggers: what is shown, switched, fired, refused and fired again."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from noetl_core.control.triggers.schedules import fire_due
from noetl_core.engine.ids import trigger_id
from noetl_core.values.instants import SECOND
from tests.unit.control.api_client import Client, client, refusal

__all__ = ["client"]

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: nightly, path: reports/nightly }
executor:
  spec:
    triggers:
      - { schedule: "0 2 * * *", payload: { day: "{{ trigger.scheduled_at[:10] }}" } }
      - { name: often, schedule: { rate: 5m }, enabled: false }
workload: { day: null, x-schema: { properties: { day: { type: [string, "null"], maxLength: 10 } } } }
workflow:
  - step: start
    tool: { kind: noop, result: "{{ [workload.day, trigger] }}" }
"""
AT = "/api/triggers/reports/nightly"


@pytest.fixture
def registered(client: Client) -> Client:
    assert client("POST", "/api/playbooks", PLAYBOOK)[0] == 201
    return client


def result_of(client: Client, fired: dict[str, Any]) -> Any:
    assert fired["result"] == "started"
    client.local.run(fired["execution_id"])
    return client("GET", f"/api/executions/{fired['execution_id']}")[1]


def test_triggers_are_listed_with_their_next_occurrence(registered: Client) -> None:
    status, body = registered("GET", "/api/triggers")
    assert status == 200
    often, nightly = body["triggers"]
    assert (often["name"], often["enabled"], often["next_at"]) == ("often", False, None)
    assert (nightly["path"], nightly["name"], nightly["kind"], nightly["version"]) == (
        "reports/nightly",
        "schedule",
        "schedule",
        1,
    )
    assert nightly["next_at"].endswith("T02:00:00Z")
    assert registered("GET", "/api/triggers", path="reports/nightly", kind="event")[1] == {"triggers": []}
    assert registered("GET", "/api/triggers", path="reports")[1] == {"triggers": []}


def test_a_trigger_is_shown_with_its_next_occurrences(registered: Client) -> None:
    status, body = registered("GET", f"{AT}/schedule")
    assert status == 200
    assert body["payload"] == {"day": "{{ trigger.scheduled_at[:10] }}"}
    assert len(body["upcoming"]) == 10
    assert body["upcoming"][0] == body["next_at"]
    assert body["firings"] == []
    answer = registered("GET", f"{AT}/scheduel")
    assert refusal(answer) == (404, "not_found")
    assert "it has: often, schedule" in answer[1]["error"]["message"]


def test_a_switch_stays_where_it_was_put(registered: Client) -> None:
    for _ in range(2):
        status, body = registered("POST", f"{AT}/often/enable")
        assert (status, body["enabled"]) == (200, True)
    assert trigger_id("reports/nightly", "often") in due(registered)
    registered("POST", "/api/playbooks", PLAYBOOK + "# again\n")
    assert registered("GET", f"{AT}/often")[1]["enabled"] is True
    assert registered("POST", f"{AT}/often/disable")[1]["enabled"] is False
    assert trigger_id("reports/nightly", "often") not in due(registered)


def due(client: Client) -> set[str]:
    return {one.execution_id for one in client.local.index.due(1 << 62)}


def test_repeated_requests_fire_an_occurrence_once(registered: Client) -> None:
    status, fired = registered("POST", f"{AT}/schedule/fire", {"at": "2026-11-22T02:00:00Z"})
    assert status == 202
    assert registered("POST", f"{AT}/schedule/fire", {"at": "2026-11-22T03:00:00+01:00"})[1] == fired
    shown = result_of(registered, fired)
    trigger = {"kind": "schedule", "name": "schedule", "id": "2026-11-22T02:00:00Z", "scheduled_at": "2026-11-22T02:00:00Z"}
    trigger["previous_at"] = "2026-11-21T02:00:00Z"
    assert shown["trigger"] == trigger
    assert shown["result"] == ["2026-11-22", trigger]
    (listed,) = registered("GET", "/api/executions")[1]["executions"]
    assert listed["trigger"] == {"kind": "schedule", "name": "schedule"}
    (past,) = registered("GET", f"{AT}/schedule")[1]["firings"]
    assert past == {**fired, "execution": {key: shown[key] for key in ("status", "started_at", "duration_ms")}}
    assert past["execution"]["status"] == "completed"


def test_a_disabled_trigger_is_fired_by_request(registered: Client) -> None:
    clock, fired = registered.local.control.clock, []
    for later in (0, 5):
        registered.local.control.clock = Mock(wraps=clock, now=lambda later=later: clock.now() + later * SECOND)
        fired.append(registered("POST", f"{AT}/often/fire", {}, headers={"Idempotency-Key": "k"})[1])
    assert fired[0] == fired[1], "it was fired once, when it was fired first"
    (past,) = registered("GET", f"{AT}/often")[1]["firings"]
    assert past == {**fired[0], "execution": past["execution"]}
    assert fired[0]["id"] == "fired:k"
    assert registered("POST", f"{AT}/often/fire")[1]["execution_id"] != fired[0]["execution_id"]


def test_an_idempotency_key_over_the_size_limit_fires_once(registered: Client) -> None:
    key = "Ω " * 2_000
    fired = [registered("POST", f"{AT}/schedule/fire", {"idempotency_key": key})[1] for _ in range(2)]
    assert fired[0]["execution_id"] == fired[1]["execution_id"]
    assert fired[0]["id"].startswith("sha256:")


@pytest.mark.parametrize(
    ("at", "hint"),
    [
        ("2026-11-22T02:30:00Z", "nearest: 2026-11-22T02:00:00Z and 2026-11-23T02:00:00Z"),
        ("soon", "2026-11-22T02:00:00Z"),
        ("0001-01-01T02:00:00Z", ""),
        ("9999-01-01T02:00:00Z", ""),
    ],
)
def test_firing_at_a_time_without_an_occurrence_is_refused(registered: Client, at: str, hint: str) -> None:
    answer = registered("POST", f"{AT}/schedule/fire", {"at": at})
    assert refusal(answer) == (400, "malformed")
    assert answer[1]["error"]["details"][0]["hint"] == hint


def test_a_refused_firing_is_kept_and_starts_once_the_playbook_is_corrected(registered: Client) -> None:
    wrong = PLAYBOOK.replace("[:10]", "")
    registered("POST", "/api/playbooks", wrong)
    status, fired = registered("POST", f"{AT}/schedule/fire", {"at": "2026-11-22T02:00:00Z"})
    assert (status, fired["result"]) == (202, "refused")
    (refused,) = registered("GET", "/api/refused", path="reports/nightly")[1]["refused"]
    assert (refused["trigger"], refused["occurrence"], refused["code"]) == ("schedule", "2026-11-22T02:00:00Z", "workload")
    assert "day" in refused["reason"]
    assert registered("POST", f"/api/refused/{refused['id']}/fire")[1]["result"] == "refused"
    registered("POST", "/api/playbooks", PLAYBOOK + "# mended\n")
    status, again = registered("POST", f"/api/refused/{refused['id']}/fire")
    assert (status, again["result"]) == (202, "started")
    assert result_of(registered, again)["result"][0] == "2026-11-22"
    assert registered("GET", "/api/refused")[1] == {"refused": []}
    assert registered("POST", f"/api/refused/{refused['id']}/fire")[0] == 404


def test_a_refused_firing_is_deleted_on_request(registered: Client) -> None:
    registered("POST", "/api/playbooks", PLAYBOOK.replace("[:10]", ""))
    registered("POST", f"{AT}/schedule/fire")
    (refused,) = registered("GET", "/api/refused")[1]["refused"]
    assert registered("DELETE", f"/api/refused/{refused['id']}") == (200, {"id": refused["id"], "deleted": True})
    assert registered("DELETE", f"/api/refused/{refused['id']}")[0] == 404


def test_an_execution_started_by_request_has_no_trigger(registered: Client) -> None:
    started = registered("POST", "/api/executions", {"path": "reports/nightly"})[1]
    shown = result_of(registered, {"result": "started", **started})
    nobody = {"kind": "request", "name": None, "id": None, "scheduled_at": None, "previous_at": None}
    assert shown["result"] == [None, nobody]
    assert "trigger" not in shown
    assert registered("GET", "/api/executions")[1]["executions"][0]["trigger"] is None


def test_firing_due_triggers_changes_nothing_when_none_is_due(registered: Client) -> None:
    before = registered("GET", f"{AT}/schedule")[1]
    record = registered.local.triggers.trigger("reports/nightly", "schedule")
    fire_due(registered.local.control, "reports/nightly", "schedule")
    assert registered.local.triggers.trigger("reports/nightly", "schedule") == record
    assert registered("GET", f"{AT}/schedule")[1] == before


def test_idempotency_keys_of_triggers_are_refused_in_requests(registered: Client) -> None:
    at = "2026-11-22T02:00:00Z"
    other = PLAYBOOK.replace("reports/nightly", "evil/other")
    key = f"trigger:reports/nightly:schedule:{at}"
    status, body = registered("POST", "/api/executions", {"playbook": other, "idempotency_key": key})
    assert (status, body["error"]["code"]) == (409, "conflict")
    assert (
        body["error"]["message"] == "an idempotency key that begins with trigger: is reserved for the engine: choose another one"
    )
    assert registered("POST", "/api/executions", {"playbook": other, "idempotency_key": "backfill:[]"})[0] == 409
    started = result_of(registered, registered("POST", f"{AT}/schedule/fire", {"at": at})[1])
    assert started["playbook"]["path"] == "reports/nightly"


def test_a_queue_trigger_is_fired_by_request_with_a_supplied_event(registered: Client) -> None:
    source = 'queue: { name: q, match: { body: { n: [1] } } }, payload: { day: "{{ trigger.event.body.n }}" }'
    taker = PLAYBOOK.replace('schedule: "0 2 * * *", payload: { day: "{{ trigger.scheduled_at[:10] }}" }', source)
    taker = taker.replace("[workload.day, trigger]", "[workload.day, trigger.kind, trigger.event.body.pad | length]")
    assert registered("POST", "/api/playbooks", taker)[0] == 201
    fire = f"{AT}/queue/fire"
    body = {"event": {"body": {"n": "2", "pad": "x" * 9_000}}, "idempotency_key": "k"}
    fired = registered("POST", fire, body)[1]
    assert (fired["id"], result_of(registered, fired)["result"]) == ("fired:k", ["2", "queue", 9_000])
    assert registered("POST", fire, body)[1]["execution_id"] == fired["execution_id"]
    for wrong in ({}, {"event": {}, "at": "2026-11-22T02:00:00Z"}, {"event": [1]}):
        assert registered("POST", fire, wrong)[0] == 400
    assert registered("POST", f"{AT}/often/fire", {"event": {}})[0] == 400


def test_a_trigger_starts_the_version_that_its_alias_names_then(registered: Client) -> None:
    followed = PLAYBOOK.replace('"0 2 * * *", ', '"0 2 * * *", version: prod, ')
    assert registered("POST", "/api/playbooks", followed)[0] == 201
    assert registered("GET", f"{AT}/schedule")[1]["starts"] == "prod"
    at = "2026-11-{:02}T02:00:00Z"
    fired = registered("POST", f"{AT}/schedule/fire", {"at": at.format(1)})[1]
    assert fired["result"] == "refused"
    assert "has no alias 'prod'" in fired["reason"]
    assert registered("POST", "/api/playbooks/reports/nightly/aliases", {"name": "prod", "version": 1})[0] == 200
    (refused,) = registered("GET", "/api/refused")[1]["refused"]
    again = registered("POST", f"/api/refused/{refused['id']}/fire")[1]
    assert result_of(registered, again)["playbook"]["version"] == 1
    assert registered("POST", "/api/playbooks/reports/nightly/aliases", {"name": "prod", "version": 2})[0] == 200
    fired = registered("POST", f"{AT}/schedule/fire", {"at": at.format(2)})[1]
    assert result_of(registered, fired)["playbook"]["version"] == 2
    assert registered("POST", f"{AT}/schedule/fire", {"at": at.format(1)})[1]["execution_id"] == again["execution_id"]


def test_a_trigger_of_a_deleted_playbook_says_so(registered: Client) -> None:
    assert registered("DELETE", "/api/playbooks/reports/nightly")[0] == 200
    for shown in (*registered("GET", "/api/triggers")[1]["triggers"], registered("GET", f"{AT}/schedule")[1]):
        assert shown["deleted_at"]
        assert shown["next_at"] is None
    assert registered("GET", f"{AT}/schedule")[1]["upcoming"] == []
    assert registered("POST", "/api/playbooks/reports/nightly/undelete")[0] == 200
    assert all("deleted_at" not in shown for shown in registered("GET", "/api/triggers")[1]["triggers"])
