"""Labels of executions: given at the start, kept in log and lists, and asked for page by page."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.views.executions.listing import SEARCH_S
from tests.unit.control.api_client import HELLO, Client, client, hurry, refusal

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


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list looks at three executions at a time."""
    monkeypatch.setattr("noetl_core.views.executions.listing.LOOKED_AT", 3)


def test_filtered_executions_are_listed_across_pages(client: Client, few: None) -> None:
    started = [client.start(labels={"n": str(number % 3)}) for number in range(10)]
    assert found(client, label="n:1", limit="1") == [started[n] for n in (7, 4, 1)]
    assert found(client, q="test/he", limit="2") == started[::-1]
    assert found(client, q=started[4]) == [started[4]]
    assert found(client, q="nowhere") == []


def test_an_id_that_has_expired_is_not_found(client: Client) -> None:
    """Stores delete what has expired some time later."""
    (gone, kept) = (client.run(), client.run())
    client.local.database.write("UPDATE heads SET expires_at=1 WHERE execution_id=?", (gone,))
    assert (found(client), found(client, q=gone), found(client, q=kept)) == ([kept], [], [kept])


def test_a_search_answers_instead_of_handing_out_cursors(client: Client, few: None) -> None:
    started = [client.start(labels={"n": str(number)}) for number in range(10)]

    def page(**query: Any) -> Any:
        return client("GET", "/api/executions", **query)[1]

    oldest = page(label="n:0")
    assert ([e["execution_id"] for e in oldest["executions"]], oldest["searched"]) == ([started[0]], 10)
    assert page(q="nowhere") == {"executions": [], "cursor": None, "searched": 10}
    direct = page(q=started[0])
    assert ([e["execution_id"] for e in direct["executions"]], direct["searched"], direct["cursor"]) == ([started[0]], 1, None)
    assert page(q=started[0], status="failed")["executions"] == []
    assert found(client, q=started[4][-8:]) == [started[4]], "as lists show it"
    hurry(client.local.control, SEARCH_S + 1)
    part = page(q="nowhere", limit="2")
    assert (part["executions"], part["searched"]) == ([], 3), "what takes too long says how far it came"
    assert part["cursor"] is not None


def test_a_search_finds_errors_labels_and_a_range_of_time(client: Client) -> None:
    failed = client.run(playbook=HELLO.replace("Hello, {{ workload.name }}!", "{{ 1 / 0 }}"))
    labelled = client.run(labels={"customer": "Acme"})
    assert found(client, q="Division by ZERO") == [failed]
    assert found(client, q="acme") == found(client, q="customer:acme") == [labelled]
    began = client("GET", f"/api/executions/{failed}")[1]["started_at"]
    assert [e["execution_id"] for e in client("GET", "/api/executions", until=began)[1]["executions"]] == [failed]
    assert refusal(client("GET", "/api/executions", until="later")) == (400, "malformed")


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
def test_invalid_labels_are_refused_and_start_nothing(client: Client, labels: Any) -> None:
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
