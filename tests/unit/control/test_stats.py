"""Executions counted by what they do: those that wait, and those that try again, apart from those that run."""

from __future__ import annotations

import json
from typing import Any

from noetl_core.views.executions.statistics import DAY_S, stats
from tests.unit.control.api_client import HELLO, WAITS, Client, client, hurry, refusal
from tests.waiting import run_until_it_waits

__all__ = ["client"]

RETRIES = json.dumps(
    {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "again", "path": "test/again"},
        "workflow": [
            {
                "step": "start",
                "tool": {
                    "kind": "noop",
                    "result": "{{ 1 / 0 }}",
                    "spec": {"policy": {"rules": [{"else": {"then": {"do": "retry", "attempts": 3, "delay": 600}}}]}},
                },
            }
        ],
    }
)


def counts(body: Any) -> dict[str, int]:
    return {word: n for word, n in body.items() if n}


def test_waiting_and_retrying_are_apart_from_running(client: Client) -> None:
    for text in (WAITS, RETRIES):
        run_until_it_waits(client.local, client.start(playbook=text))
    client.run()
    client.run()
    failed = client.start(playbook=HELLO.replace("Hello, {{ workload.name }}!", "{{ 1 / 0 }}").replace("test/hello", "test/bad"))
    assert client.local.run(failed, timeout_s=20)
    client.start()  # nobody carries it out
    status, body = client("GET", "/api/executions/stats")
    assert status == 200 and body["exact"]
    assert counts(body["counts"]) == {"waiting": 1, "retrying": 1, "running": 1, "completed": 2, "failed": 1}
    by_path = {each["path"]: counts(each["counts"]) for each in body["paths"]}
    assert by_path["test/hello"] == {"completed": 2, "running": 1} and by_path["test/again"] == {"retrying": 1}
    only = client("GET", "/api/executions/stats", path="test/waits")[1]
    assert counts(only["counts"]) == {"waiting": 1}
    assert counts(client("GET", "/api/executions/stats", since="2999-01-01T00:00:00Z")[1]["counts"]) == {}
    assert refusal(client("GET", "/api/executions/stats", since="soon")) == (400, "malformed")


def test_active_executions_are_counted_whatever_their_age(client: Client) -> None:
    run_until_it_waits(client.local, client.start(playbook=WAITS))
    client.run()
    hurry(client.local.control, DAY_S + 60)
    body = client("GET", "/api/executions/stats")[1]
    assert counts(body["counts"]) == {"waiting": 1}
    assert counts(client("GET", "/api/executions/stats", since=body["since"])[1]["counts"]) == {}


def test_counts_are_bounded_and_say_so(client: Client) -> None:
    for _ in range(3):
        client.run()
    found = stats(client.local.control, limit=2)
    assert (found["counts"]["completed"], found["exact"]) == (2, False)
