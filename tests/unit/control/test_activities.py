"""Activities and waits of executions in lists: they agree with the counts, and batches select by them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from noetl_core.engine.statuses import LISTED_STATUSES
from noetl_core.events.shapes import ListedStatus
from tests.unit.control.api_client import HELLO, WAITS, Client, client, failing_store
from tests.waiting import run_until_it_waits

__all__ = ["client"]


def playbook(name: str, **tool: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "noetl.io/v2",
            "kind": "Playbook",
            "metadata": {"name": name, "path": f"test/{name}"},
            "workflow": [{"step": "start", "tool": tool}],
        }
    )


RETRY = {"policy": {"rules": [{"else": {"then": {"do": "retry", "attempts": 3, "delay": 600}}}]}}
ASKS = playbook("asks", kind="callback")
SLEEPS = playbook("sleeps", kind="wait", duration=600)
CALLS = playbook("calls", kind="playbook", path="test/waits")
RETRIES = playbook("again", kind="noop", result="{{ 1 / 0 }}", spec=RETRY)


def rows(client: Client, **asked: Any) -> list[dict[str, Any]]:
    status, body = client("GET", "/api/executions", **asked)
    assert status == 200
    found: list[dict[str, Any]] = body["executions"]
    return found


@pytest.fixture
def busy(client: Client) -> dict[str, str]:
    """Executions that wait for something each, by what; one that has not begun, one that ended, and a child."""
    client("POST", "/api/playbooks", WAITS)
    started = {}
    for word, text in {"callback": ASKS, "signal": WAITS, "timer": SLEEPS, "child": CALLS, "retry": RETRIES}.items():
        started[word] = client.start(playbook=text)
        run_until_it_waits(client.local, started[word])
    client.run()
    started["nothing"] = client.start(playbook=HELLO)
    return started


def test_a_row_shows_what_its_execution_waits_for_and_since_when(client: Client, busy: dict[str, str]) -> None:
    found = {row["execution_id"]: row for row in rows(client)}
    for word in ("callback", "signal", "timer", "child", "retry"):
        row = found[busy[word]]
        (wait,) = row["waiting_for"]
        assert (wait["kind"], row["status"]) == (word, "retrying" if word == "retry" else "waiting")
        assert row["started_at"] <= wait["since"]
        assert wait["step"] == ("ask" if word == "signal" else "start")
    assert found[busy["child"]]["waiting_for"][0]["child"] in found
    assert found[busy["retry"]]["waiting_for"][0]["task"] == "start_task"
    assert found[busy["retry"]]["waiting_for"][0]["until"] > found[busy["retry"]]["waiting_for"][0]["since"]
    assert (found[busy["nothing"]]["status"], "waiting_for" in found[busy["nothing"]]) == ("running", False)


def test_a_list_of_very_many_reads_no_state(client: Client, busy: dict[str, str]) -> None:
    """For example, a list in which a client searches for an id."""
    client.local.control.store = failing_store(AssertionError("the log was read"))
    assert {row["status"] for row in rows(client, limit="101")} == {"running", "completed"}


def test_counts_lists_and_batches_agree_on_every_status(client: Client, busy: dict[str, str]) -> None:
    counts = client("GET", "/api/executions/stats")[1]["counts"]
    assert Counter(row["status"] for row in rows(client)) == {word: n for word, n in counts.items() if n}
    assert {word: n for word, n in counts.items() if n} == {"running": 1, "waiting": 5, "retrying": 1, "completed": 1}
    for status in LISTED_STATUSES:
        found = rows(client, status=status)
        assert len(found) == counts[status] and {row["status"] for row in found} <= {status}
        asked = {"filter": {"status": status}, "action": "cancel", "preview": True}
        chosen = client("POST", "/api/executions/batch", asked)[1]["executions"]
        under_way = status in ("running", "waiting", "retrying")
        assert [(e["execution_id"], e["status"]) for e in chosen] == (
            [(r["execution_id"], status) for r in found] if under_way else []
        )


def test_a_batch_filtered_by_retrying_cancels_only_retrying_executions(client: Client, busy: dict[str, str]) -> None:
    asked = {"filter": {"status": "retrying"}, "action": "cancel"}
    done = client("POST", "/api/executions/batch", asked)[1]["executions"]
    assert [(e["execution_id"], e["status"], e["outcome"]) for e in done] == [(busy["retry"], "cancelled", "done")]
    assert rows(client, status="retrying") == []


@pytest.mark.parametrize("status", ["waiting", "running"])
def test_pages_list_each_execution_once_with_a_small_read_limit(
    client: Client, status: ListedStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("views.executions.activity", "service.batch", "views.executions.listing"):
        monkeypatch.setattr(f"noetl_core.{module}.STATES_READ", 2)
    wanted: list[str] = []
    for number in range(7):
        execution_id = client.start(playbook=WAITS if number < 4 else HELLO, labels={"n": str(number)})
        if number < 4:
            run_until_it_waits(client.local, execution_id)
        wanted += [execution_id] if (number < 4) == (status == "waiting") else []
    for more in ({}, {"label": "n"}):
        found: list[str] = []
        cursor: str | None = None
        for _ in range(9):
            asked: dict[str, Any] = {"status": status, "limit": "1", **more, **({} if cursor is None else {"cursor": cursor})}
            body = client("GET", "/api/executions", **asked)[1]
            found += [row["execution_id"] for row in body["executions"]]
            cursor = body["cursor"]
            if cursor is None:
                break
        assert found == wanted[::-1] and cursor is None
    batched: list[str] = []
    for _ in range(9):
        asked_for: dict[str, Any] = {"filter": {"status": status}, "action": "cancel", "preview": True, "limit": 1}
        body = client("POST", "/api/executions/batch", asked_for | ({} if cursor is None else {"cursor": cursor}))[1]
        batched += [each["execution_id"] for each in body["executions"]]
        cursor = body["cursor"]
        if cursor is None:
            break
    assert batched == wanted[::-1] and cursor is None
