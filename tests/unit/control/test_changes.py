"""Changes of an execution: polling one that stands still reads next to nothing, and polling one in progress returns every event
once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.engine.records import Commit
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.views.reading import newest_first
from tests.api_requests import Answer, ask
from tests.running import events_of, run_text
from tests.unit.control.api_client import WAITS
from tests.unit.control.decode_counts import count_decoded
from tests.unit.control.long_playbooks import chain, loop
from tests.unit.control.workflows import FAN, WORKFLOWS, source
from tests.waiting import run_until_it_waits


class Watched:
    """An API over a local store, asked for changes."""

    def __init__(self, local: LocalWiring) -> None:
        self.local = local
        self.service = Service(lambda: local.control, lambda: b"key")

    def __call__(self, execution_id: str, tag: str | None = None, **query: str) -> Answer:
        headers = {} if tag is None else {"If-None-Match": tag}
        return ask(self.service, "GET", f"/api/executions/{execution_id}/changes", query, headers=headers)

    def drained(self, execution_id: str, after: str) -> tuple[list[Any], Any]:
        """All events after a cursor, and the last answer."""
        events: list[Any] = []
        while True:
            found = self(execution_id, after=after).body
            events += found["events"]
            after = found["cursor"]
            if not found["more"]:
                return events, found


def test_an_execution_that_stands_still_is_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    local = LocalWiring()
    watched = Watched(local)
    execution_id = local.start(StartRequest(playbook=WAITS)).execution_id
    run_until_it_waits(local, execution_id)
    first = watched(execution_id)
    (tag,) = first.headers["ETag"]
    decoded = count_decoded(monkeypatch)
    again = watched(execution_id, tag, after=first.body["cursor"])
    assert (again.status, again.sent, again.headers["ETag"]) == (304, "", [tag])
    assert not decoded
    assert watched(execution_id, after=first.body["cursor"]).body["events"] == []
    local.control.clock.sleep(0)
    ask(watched.service, "POST", "/api/events", body=json.dumps({"execution_id": execution_id, "name": "answer", "data": 1}))
    news = watched(execution_id, tag, after=first.body["cursor"])
    assert news.status == 200 and news.headers["ETag"] != [tag]
    assert "SignalReceived" in [e["name"] for e in news.body["events"]]
    local.close()


def test_commits_of_a_worker_are_changes_before_its_step_ends() -> None:
    local = LocalWiring()
    local.worker.most_buffered = 50
    watched = Watched(local)
    seen: list[Any] = []
    last: dict[str, Any] = {}

    def look(commit: Commit) -> None:
        execution_id = commit.stream.execution_id
        if not last:
            last.update(watched(execution_id).body)
            seen.extend(last["events"])
            return
        answer = watched(execution_id, f'"{last["etag"]}"', after=last["cursor"])
        if commit.stream.run_id is None and last["ended"]:
            assert answer.status == 304, "its transaction has the end of the run, which showed it"
            return
        assert answer.status == 200, "a commit is a change"
        events, found = watched.drained(execution_id, last["cursor"])
        seen.extend(events)
        last.update(found)
        if commit.stream.run_id is not None and not commit.wake and len(commit.events) > 10:
            assert found["steps"]["map"]["status"] == "running"
            assert found["steps"]["map"]["loop"]["total"] == 300

    local.observe(look)
    execution_id = local.start(StartRequest(playbook=source(loop(300, "local")))).execution_id
    assert local.run(execution_id)
    local.observe(None)
    events, found = watched.drained(execution_id, last["cursor"])
    history, _ = events_of(local.control, execution_id)
    local.close()
    assert [e["event_id"] for e in seen + events] == [e["event_id"] for e in history]
    assert found["ended"] and found["status"] == "completed" and found["count"] == len(history)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", WORKFLOWS)
def test_the_last_events_are_the_end_of_the_history(name: str) -> None:
    local, state = run_text(source(WORKFLOWS[name]))
    history, _ = events_of(local.control, state.execution_id)
    state = local.control.load(state.execution_id)
    for limit in (0, 1, 7, 50, len(history), len(history) + 10):
        ends = newest_first.ends_of(local.store, state)
        found = newest_first.tail(newest_first.last_commits(local.store, state, ends), state, limit)
        assert list(found) == history[len(history) - min(limit, len(history)) :]
    answer = Watched(local)(state.execution_id, limit="5", fields="name,step").body
    assert [e["event_id"] for e in answer["events"]] == [e["event_id"] for e in history[-5:]]
    assert all(set(e) <= {"event_id", "name", "step"} for e in answer["events"])
    assert answer["count"] == len(history)
    local.close()


def test_changed_steps_show_their_status_loop_counts_and_fired_arcs() -> None:
    local, state = run_text(source(FAN))
    watched = Watched(local)
    found = watched(state.execution_id).body
    assert found["steps"]["start"]["arcs"] == {"0": 1, "1": 1, "2": 1}
    assert found["steps"]["map"]["loop"] == {"total": 40, "succeeded": 40, "failed": 0}
    assert {step["status"] for step in found["steps"].values()} == {"ok"}
    assert watched(state.execution_id, after=found["cursor"]).body["steps"] == {}
    local.close()


def test_invalid_parameters_and_unknown_executions_are_refused() -> None:
    local, state = run_text(source(chain(1)))
    watched = Watched(local)
    wrong = watched(state.execution_id, fields="nam")
    assert wrong.status == 400 and "did you mean 'name'?" in wrong.sent
    assert watched(state.execution_id, after="cabc").status == 400
    assert watched("1").status == 404
    local.close()
