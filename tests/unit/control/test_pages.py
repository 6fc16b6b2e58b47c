"""Reading a long history page by page decodes every commit once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.adapters.local import events as adapter
from noetl_core.codec import decode_events
from noetl_core.control import recent
from noetl_core.control.admit import StartRequest
from noetl_core.control.api import Service
from noetl_core.local import LocalWiring
from tests.asking import ask

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"


def loop(items: int, where: str) -> list[dict[str, Any]]:
    spec = {"mode": "parallel", "max_in_flight": 2, "policy": {"exec": where}}
    return [
        {
            "step": "map",
            "loop": {"in": f"{{{{ range({items}) | list }}}}", "iterator": "n", "spec": spec},
            "tool": {"kind": "noop"},
        }
    ]


def chain(steps: int) -> list[dict[str, Any]]:
    return [
        {
            "step": f"s{i}",
            "tool": {"kind": "noop", "result": i},
            "next": {"arcs": [{"step": f"s{i + 1}"}] if i + 1 < steps else []},
        }
        for i in range(steps)
    ]


class Read:
    """The events of a finished run, asked for page by page, and how many commits were decoded for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, workflow: list[dict[str, Any]], limit: int) -> None:
        self.local = LocalWiring()
        execution_id = self.local.start(StartRequest(playbook=f"{HEAD}workflow: {json.dumps(workflow)}\n")).execution_id
        assert self.local.run(execution_id)
        rows = self.local.database.rows("SELECT run_id, body FROM commits WHERE execution_id=?", (execution_id,))
        self.commits = len(rows)
        self.control = sum(not run for run, _ in rows)
        decoded: Counter[bytes] = Counter()

        def counted(body: bytes, v: int) -> Any:
            decoded[body] += 1
            return decode_events(body, v)

        monkeypatch.setattr(adapter, "decode_events", counted)
        service = Service(lambda: self.local.control, lambda: b"key")
        self.events: list[dict[str, Any]] = []
        self.pages, after, more = 0, None, True
        while more:
            query = {"limit": str(limit), **({"after": after} if after else {})}
            page = ask(service, "GET", f"/api/executions/{execution_id}/events", query, checked=False).body
            self.events += page["events"]
            after, more = page["cursor"], page["more"]
            self.pages += 1
        assert after is None
        self.decoded = sum(decoded.values())


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made: list[Read] = []

    def read(workflow: list[dict[str, Any]], limit: int) -> Read:
        made.append(Read(monkeypatch, workflow, limit))
        return made[-1]

    yield read
    for each in made:
        each.local.close()


@pytest.mark.parametrize(
    ("workflow", "limit"),
    [(loop(3_000, "local"), 500), (loop(2_000, "local"), 30), (loop(1_000, "distributed"), 33), (chain(250), 50)],
    ids=["loop", "small pages", "distributed loop", "chain"],
)
def test_all_pages_together_decode_each_commit_once(closing: Any, workflow: list[dict[str, Any]], limit: int) -> None:
    read = closing(workflow, limit)
    assert read.pages > 10
    assert len({e["event_id"] for e in read.events}) == len(read.events) > 1_000
    assert read.decoded <= read.commits + read.control, "the pages, and the state at the end"


def test_commits_larger_than_what_is_kept_are_read_all_the_same(closing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "MAX_EVENTS", 10)
    read = closing(loop(1_000, "local"), 100)
    assert len({e["event_id"] for e in read.events}) == len(read.events)
    assert sum(e["name"] == "LoopIterationCompleted" for e in read.events) == 1_000
