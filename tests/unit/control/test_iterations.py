"""Iterations of a loop: every one is found, by page, by status, by text and by index, without reading the whole stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.control.lifecycle.operate import cancel
from noetl_core.engine.records import Commit
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from tests.api_requests import ask
from tests.unit.control.decode_counts import count_decoded
from tests.unit.control.summary_playbooks import HEAD, source

FAILING = {"result": "{{ 1 / (iter.n % 700) }}"}
"""0, 700, 1400, 2100, 2800."""


class Loop:
    """A loop that has run on a local store."""

    def __init__(self, text: str) -> None:
        self.local = LocalWiring()
        self.local.worker.most_buffered = 100
        self.service = Service(lambda: self.local.control, lambda: b"key")
        self.id = self.local.start(StartRequest(playbook=text)).execution_id
        assert self.local.run(self.id)

    def get(self, what: str = "", wants: int = 200, begin: str = "", **query: str) -> Any:
        asked = {**query, "from": begin}
        answer = ask(self.service, "GET", f"/api/executions/{self.id}/steps/map/iterations{what}", asked if not what else {})
        assert answer.status == wants, answer.sent
        return answer.body

    def all(self, *, status: str = "", limit: str = "") -> list[Any]:
        found: list[Any] = []
        page = self.get(status=status, limit=limit)
        while True:
            found += page["iterations"]
            if not page["more"]:
                return found
            page = self.get(status=status, limit=limit, after=page["cursor"])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", ["local", "distributed"])
def test_every_iteration_is_on_one_page_once(where: str) -> None:
    loop = Loop(source(1_500, where, **FAILING))
    found = loop.all(limit="400")
    assert sorted(entry["index"] for entry in found) == list(range(1_500))
    assert [e["index"] for e in found if e["status"] == "error"] == [0, 700, 1400]
    assert all("duration_ms" in entry and entry["attempts"] == 1 for entry in found)
    assert loop.get()["total"] == 1_500
    later = loop.get(begin="900", limit="5")["iterations"]
    assert len(later) == 5 and all(900 <= e["index"] < 920 for e in later)
    loop.local.close()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", ["local", "distributed"])
def test_failed_iterations_are_found_without_reading_the_others(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(source(3_000, where, **FAILING))
    stored = loop.local.database.rows("SELECT count(*) FROM commits WHERE run_id!='' AND execution_id=?", (loop.id,))[0][0]
    decoded = count_decoded(monkeypatch)
    page = loop.get(status="error")
    assert [e["index"] for e in page["iterations"]] == [0, 700, 1400, 2100, 2800] and not page["more"]
    assert page["iterations"][0]["error"]["kind"] == "template"
    assert len(decoded) < stored / 2
    assert [e["index"] for e in loop.all(status="error", limit="2")] == [0, 700, 1400, 2100, 2800]
    assert [e["index"] for e in loop.get(q="DIVISION by", begin="1000")["iterations"]] == [1400, 2100, 2800]
    assert loop.get(q="no such error")["iterations"] == []
    assert [e["index"] for e in loop.get(q="1234")["iterations"]] == [1234]
    loop.local.close()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", ["local", "distributed"])
def test_one_iteration_has_its_item_and_its_tasks(where: str) -> None:
    loop = Loop(source(900, where, **FAILING))
    failed = loop.get("/700")
    assert (failed["status"], failed["item"], failed["index"]) == ("error", 700, 700)
    (task,) = failed["tasks"]
    assert task["error"]["kind"] == "template" and task["directive"] == "fail"
    assert loop.get("/701")["result"] == 1.0
    assert loop.get("/900", 404)["error"]["code"] == "not_found"
    assert loop.get("/x", 400)["error"]["code"] == "malformed"
    loop.local.close()


def test_nested_loops_show_the_innermost() -> None:
    inner = {"in": "{{ range(3) | list }}", "iterator": "m"}
    step = {
        "step": "map",
        "loop": {"in": "{{ range(4) | list }}", "iterator": "n", "loop": inner},
        "tool": {"kind": "noop", "result": "{{ iter.parent.n * 10 + iter.m }}"},
    }
    loop = Loop(HEAD + f"workflow: {json.dumps([step])}\n")
    assert sorted(e["path"] for e in loop.all()) == [[n, m] for n in range(4) for m in range(3)]
    one = loop.get("/2.1")
    assert (one["path"], one["result"], one["item"]) == ([2, 1], 21, 1)
    loop.local.close()


def test_a_running_loop_shows_the_iterations_that_have_begun() -> None:
    local = LocalWiring()
    local.worker.most_buffered = 50
    service = Service(lambda: local.control, lambda: b"key")
    seen: list[Any] = []

    def look(commit: Commit) -> None:
        if commit.stream.run_id is not None and not commit.wake and len(commit.events) > 10:
            path = f"/api/executions/{commit.stream.execution_id}/steps/map/iterations"
            seen.append(
                (ask(service, "GET", path, {"limit": "1000"}).body, ask(service, "GET", path, {"status": "running"}).body)
            )

    local.observe(look)
    assert local.run(local.start(StartRequest(playbook=source(200, "local"))).execution_id)
    local.observe(None)
    local.close()
    assert seen and all(e["status"] == "running" for _, running in seen for e in running["iterations"])
    assert any(running["iterations"] for _, running in seen)
    sizes = [len(page["iterations"]) for page, _ in seen]
    assert sizes == sorted(sizes) and seen[0][0]["total"] == 200


def test_a_step_without_a_loop_lists_no_iterations() -> None:
    loop = Loop(source(3, "local"))
    ended = ask(loop.service, "GET", f"/api/executions/{loop.id}/steps/end/iterations").body
    assert (ended["iterations"], ended["more"]) == ([], False)
    assert ask(loop.service, "GET", f"/api/executions/{loop.id}/steps/emd/iterations").status == 404
    foreign = loop.get(limit="1")["cursor"]
    other = Loop(source(3, "local"))
    assert other.get(after=foreign, wants=400)["error"]["code"] == "malformed"
    for each in (loop, other):
        each.local.close()


def test_a_run_that_ended_before_a_worker_began_it_has_no_iterations() -> None:
    """Its stream has one commit, with the end that the control plane wrote."""
    local = LocalWiring()
    service = Service(lambda: local.control, lambda: b"key")
    execution_id = local.start(StartRequest(playbook=source(3, "local"))).execution_id
    cancel(local.control, execution_id, "no longer needed")
    assert local.run(execution_id, timeout_s=10)
    answer = ask(service, "GET", f"/api/executions/{execution_id}/steps/map/iterations")
    assert answer.status == 200, answer.sent
    assert answer.body["iterations"] == []
    local.close()
