"""One operation on many executions: as its preview says, page by page, and what one refuses stops no other."""

from __future__ import annotations

from typing import Any

from tests.unit.control.api_client import HELLO, WAITS, Client, client, refusal
from tests.waiting import run_until_it_waits

__all__ = ["client"]


def waiting(client: Client, count: int) -> list[str]:
    started = [client.start(playbook=WAITS) for _ in range(count)]
    for execution_id in started:
        run_until_it_waits(client.local, execution_id)
    return started


def outcomes(body: Any) -> list[tuple[str, str]]:
    return [(each["execution_id"], each["outcome"]) for each in body["executions"]]


def test_a_batch_acts_on_the_executions_of_its_preview(client: Client) -> None:
    started = waiting(client, 3)
    ended = client.run()
    asked = {"filter": {"status": "waiting"}, "action": "cancel", "with": {"reason": "enough"}}
    status, shown = client("POST", "/api/executions/batch", {**asked, "preview": True})
    assert status == 200 and shown["cursor"] is None
    assert outcomes(shown) == [(each, "would") for each in started[::-1]]
    assert {client("GET", f"/api/executions/{each}")[1]["status"] for each in started} == {"waiting"}
    status, done = client("POST", "/api/executions/batch", asked)
    assert status == 202 and outcomes(done) == [(each, "done") for each in started[::-1]]
    assert {each["status"] for each in done["executions"]} == {"cancelled"}
    assert client("GET", f"/api/executions/{ended}")[1]["status"] == "completed"


def test_a_batch_goes_on_by_its_cursor(client: Client) -> None:
    started = waiting(client, 5)
    body: dict[str, Any] = {"filter": {"path": "test/waits"}, "action": "pause", "limit": 2}
    found: list[tuple[str, str]] = []
    cursor = None
    for _ in range(4):
        page = client("POST", "/api/executions/batch", body if cursor is None else {**body, "cursor": cursor})[1]
        found += outcomes(page)
        cursor = page["cursor"]
        if cursor is None:
            break
    assert found == [(each, "done") for each in started[::-1]]


def test_a_batch_may_be_filtered_by_label(client: Client) -> None:
    ours, others = (
        [client.start(playbook=WAITS, labels={"team": team, "env": "prod"}) for _ in range(2)] for team in ("data", "web")
    )
    for execution_id in (*ours, *others):
        run_until_it_waits(client.local, execution_id)
    shown = client("POST", "/api/executions/batch", {"filter": {"label": "team:web,env"}, "action": "pause", "preview": True})[1]
    assert outcomes(shown) == [(each, "would") for each in others[::-1]]
    body: dict[str, Any] = {"filter": {"label": "team:data", "status": "waiting"}, "action": "pause", "limit": 1}
    first = client("POST", "/api/executions/batch", body)[1]
    rest = client("POST", "/api/executions/batch", {**body, "cursor": first["cursor"]})[1]
    assert outcomes(first) + outcomes(rest) == [(each, "done") for each in ours[::-1]]
    statuses = [client("GET", f"/api/executions/{each}")[1]["status"] for each in (*ours, *others)]
    assert statuses == ["paused"] * 2 + ["waiting"] * 2
    for wrong in ({"label": "!"}, {"label": "team", "ids": ours}, {"label": ""}):
        assert refusal(client("POST", "/api/executions/batch", {"filter": wrong, "action": "pause"})) == (400, "malformed")


def test_a_refusal_is_reported_for_its_execution_alone(client: Client) -> None:
    ended = client.run()
    (held,) = waiting(client, 1)
    body = {"filter": {"ids": [ended, "1", held]}, "action": "pause"}
    found = client("POST", "/api/executions/batch", body)[1]["executions"]
    assert [(each["outcome"], (each.get("error") or {}).get("code")) for each in found] == [
        ("refused", "conflict"),
        ("refused", "not_found"),
        ("done", None),
    ]


def test_failed_ones_are_redriven_from_a_step(client: Client) -> None:
    bad = HELLO.replace("Hello, {{ workload.name }}!", "{{ 1 / 0 }}")
    failed = client.start(playbook=bad)
    assert client.local.run(failed, timeout_s=20)
    client.run()
    body = {"filter": {"path": "test/hello"}, "action": "redrive", "with": {"from": "start"}}
    assert outcomes(client("POST", "/api/executions/batch", body)[1]) == [(failed, "done")]


def test_a_batch_for_everything_is_refused(client: Client) -> None:
    assert refusal(client("POST", "/api/executions/batch", {"filter": {}, "action": "cancel"})) == (400, "malformed")
    assert refusal(client("POST", "/api/executions/batch", {"action": "cancel"})) == (400, "malformed")
    assert refusal(client("POST", "/api/executions/batch", {"filter": {"statu": "failed"}, "action": "cancel"})) == (
        400,
        "malformed",
    )
    assert refusal(client("POST", "/api/executions/batch", {"filter": {"ids": []}, "action": "cancel"})) == (400, "malformed")
    assert refusal(client("POST", "/api/executions/batch", {"filter": {"status": "failed"}, "action": "kill"})) == (
        400,
        "malformed",
    )
