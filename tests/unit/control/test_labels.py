"""Labels of executions: given at the start, kept in log and lists, and asked for page by page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.control.api_client import HELLO, Client, client, refusal

__all__ = ["client"]


def found(client: Client, *, label: str = "", q: str = "", limit: str = "50") -> list[str]:
    listed: list[str] = []
    page = client("GET", "/api/executions", label=label, q=q, limit=limit)[1]
    while True:
        listed += [each["execution_id"] for each in page["executions"]]
        if page["cursor"] is None:
            return listed
        page = client("GET", "/api/executions", label=label, q=q, limit=limit, cursor=page["cursor"])[1]


def test_executions_are_found_by_their_labels(client: Client) -> None:
    prod = client.run(labels={"env": "prod", "team": "a/b"})
    test = client.run(labels={"env": "test"})
    none = client.run()
    assert found(client, label="env:prod") == [prod]
    assert found(client, label="env") == [test, prod]
    assert found(client, label="env,team:a/b") == [prod]
    assert found(client, label="env:none") == []
    assert found(client) == [none, test, prod]
    listed = client("GET", "/api/executions", label="team")[1]["executions"][0]
    assert listed["labels"] == {"env": "prod", "team": "a/b"}
    assert client("GET", f"/api/executions/{prod}")[1]["labels"] == {"env": "prod", "team": "a/b"}
    assert "labels" not in client("GET", f"/api/executions/{none}")[1]
    assert client.local.control.load(prod).labels == {"env": "prod", "team": "a/b"}
    assert client("GET", "/api/executions/stats", label="env")[1]["counts"]["completed"] == 2


def test_pages_of_what_is_asked_for_go_on(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_core.views.executions.listing.LOOKED_AT", 3)
    started = [client.start(labels={"n": str(number % 3)}) for number in range(10)]
    assert found(client, label="n:1", limit="1") == [started[n] for n in (7, 4, 1)]
    assert found(client, q="test/he", limit="2") == started[::-1]
    assert found(client, q=started[4]) == [started[4]]
    assert found(client, q="nowhere") == []


@pytest.mark.parametrize(
    "labels",
    [
        {"a b": "x"},
        {"": "x"},
        {"k" * 65: "x"},
        {"k": "x" * 257},
        {"k": "line\nbreak"},
        {str(n): "x" for n in range(21)},
        {"k": 1},
    ],
)
def test_what_is_no_label_is_refused(client: Client, labels: Any) -> None:
    body = {"path": "test/hello", "labels": labels}
    client("POST", "/api/playbooks", HELLO)
    assert refusal(client("POST", "/api/executions", body)) == (400, "malformed")
    assert refusal(client("GET", "/api/executions", label="a b:c")) == (400, "malformed")
    assert client("GET", "/api/executions")[1]["executions"] == []


def test_the_same_key_with_other_labels_is_another_request(client: Client) -> None:
    first = client("POST", "/api/executions", {"playbook": HELLO, "labels": {"a": "1"}, "idempotency_key": "k"})
    again = client("POST", "/api/executions", {"playbook": HELLO, "labels": {"a": "1"}, "idempotency_key": "k"})
    assert first[1]["execution_id"] == again[1]["execution_id"]
    other = client("POST", "/api/executions", {"playbook": HELLO, "labels": {"a": "2"}, "idempotency_key": "k"})
    assert refusal(other) == (409, "conflict")
