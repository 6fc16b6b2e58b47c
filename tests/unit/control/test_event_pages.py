"""Parts of a history: every way to ask for one gives what the whole history has there."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.control.cached_states import RULE, SnapshotRule
from noetl_core.engine.fold.control_stream import fold_commits
from noetl_core.engine.records import StreamId
from noetl_core.engine.snapshots import snapshot
from noetl_core.engine.state import State
from noetl_core.log.decoded_commits import RecentCommits
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.views.executions.executions import state_at
from tests.api_requests import ask
from tests.properties import some
from tests.running import events_of, run_text
from tests.unit.control.decode_counts import CountedReads, count_decoded
from tests.unit.control.long_playbooks import loop
from tests.unit.control.workflows import WORKFLOWS, source

WAITING: list[dict[str, Any]] = [
    {
        "step": "start",
        "tool": [{"name": "w", "kind": "wait", "seconds": 0.01}, {"name": "n", "kind": "noop"}],
        "next": {"arcs": [{"step": "again"}]},
    },
    {"step": "again", "tool": [{"name": n, "kind": "wait", "seconds": 0.01} for n in "abc"]},
]
ALL = {**WORKFLOWS, "loop": loop(90, "local"), "chunks": loop(90, "distributed"), "waiting": WAITING}


def cycle(steps: int) -> list[dict[str, Any]]:
    """Two steps that follow each other until `steps` have run."""
    onward = {"when": f"{{{{ event.result < {steps} }}}}", "args": {"n": "{{ event.result }}"}}
    task = {"kind": "noop", "result": "{{ (args.n | default(0)) + 1 }}"}
    return [
        {"step": one, "tool": task, "next": {"arcs": [{"step": other, **onward}]}}
        for one, other in (("start", "b"), ("b", "start"))
    ]


class History:
    """A whole history, and questions about it."""

    def __init__(self, workflow: list[dict[str, Any]], most_buffered: int = 20, snapshots: SnapshotRule = RULE) -> None:
        self.local, state = run_text(source(workflow), most_buffered=most_buffered, snapshots=snapshots)
        self.id = state.execution_id
        self.service = Service(lambda: self.local.control, lambda: b"key")
        self.events, _ = events_of(self.local.control, self.id)
        self.ids = [e["event_id"] for e in self.events]

    def get(self, **query: Any) -> Any:
        asked = {name: str(value) for name, value in query.items()}
        answer = ask(self.service, "GET", f"/api/executions/{self.id}/events", asked)
        assert answer.status == 200, answer.sent
        return answer.body

    def shown(self, **query: Any) -> list[str]:
        return [e["event_id"] for e in self.get(**query)["events"]]


def often(every: int) -> SnapshotRule:
    """Snapshots every few commits, however large the state is."""
    return SnapshotRule(every, commit_bytes=1 << 20)


def search_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches among snapshots go on to the last; one process has one clock."""
    for name, value in (("NEAR", 1), ("MISSES", 24), ("SKEW", 0)):
        monkeypatch.setattr(f"noetl_core.views.reading.snapshot_search.{name}", value)


@pytest.fixture(scope="module")
def histories() -> Iterator[dict[tuple[str, int], History]]:
    """Those that were asked for, each made once: tests only read them."""
    made: dict[tuple[str, int], History] = {}
    yield made
    for each in made.values():
        each.local.close()


@pytest.fixture(
    params=[pytest.param(p, marks=pytest.mark.sized) for p in some([(name, every) for name in ALL for every in (0, 2, 5)], 4)],
    ids=lambda p: f"{p[0]}-{p[1]}",
)
def history(
    request: pytest.FixtureRequest, histories: dict[tuple[str, int], History], monkeypatch: pytest.MonkeyPatch
) -> History:
    name, every = request.param
    if every:
        search_to_the_last(monkeypatch)
    if request.param not in histories:
        histories[request.param] = History(ALL[name], snapshots=often(every) if every else RULE)
    return histories[request.param]


@pytest.mark.one_in(2)
def test_a_page_begins_at_the_event_with_a_number_or_an_id(history: History) -> None:
    chosen = random.Random(3)
    count = len(history.ids)
    for number in {0, 1, count - 1, *(chosen.randrange(count) for _ in range(40))}:
        found = history.get(at=number, limit=3)
        assert [e["event_id"] for e in found["events"]] == history.ids[number : number + 3]
        assert found["position"] == number
        assert history.shown(at=history.ids[number], limit=2) == history.ids[number : number + 2]
        if found["cursor"] is not None:
            assert history.shown(after=found["cursor"], limit=4) == history.ids[number + 3 : number + 7]
    assert history.shown(at=count + 5) == []


def test_a_page_begins_at_an_instant(history: History) -> None:
    stamps = [e["timestamp"] for e in history.events]
    for stamp in stamps[:: max(1, len(stamps) // 30)]:
        found = history.get(at=stamp, limit=5)["events"]
        assert found[0]["timestamp"] >= stamp
        place = history.ids.index(found[0]["event_id"])
        assert place <= stamps.index(stamp)
        assert found[0]["timestamp"] == stamp or place == 0 or stamps[place - 1] < found[0]["timestamp"]
    assert history.shown(at="2001-01-01T00:00:00Z", limit=1) == history.ids[:1]


def test_pages_lead_back_to_the_beginning(history: History) -> None:
    found = history.get(tail=7)
    assert [e["event_id"] for e in found["events"]] == history.ids[-7:]
    walked = [e["event_id"] for e in found["events"]]
    while found["back"] is not None:
        found = history.get(before=found["back"], limit=23)
        walked = [e["event_id"] for e in found["events"]] + walked
        assert len(walked) <= len(history.ids)
    assert walked == history.ids
    chosen = random.Random(5)
    for _ in range(20):
        number = chosen.randrange(len(history.ids))
        assert history.shown(before=history.ids[number], limit=4) == history.ids[max(0, number - 4) : number]


def test_filters_combine_and_read_on(history: History) -> None:
    step = history.events[len(history.events) // 2].get("step") or "start"
    wanted = [e["event_id"] for e in history.events if e.get("step") == step and e["status"] == "success"]
    found: list[str] = []
    page = history.get(step=step, status="success", limit=11)
    while True:
        found += [e["event_id"] for e in page["events"]]
        if not page["more"]:
            break
        page = history.get(step=step, status="success", limit=11, after=page["cursor"])
    assert found == wanted
    assert history.shown(tail=5, step=step, status="success") == wanted[-5:]
    names = history.shown(name="StepDone,task.processed")
    assert names == [e["event_id"] for e in history.events if e["name"] in ("StepDone", "TaskProcessed")]
    trimmed = history.get(fields="name,step", limit=5)["events"]
    assert all(set(e) <= {"event_id", "name", "step"} for e in trimmed)


def test_events_of_an_iteration_are_found() -> None:
    history = History(loop(60, "distributed"))
    found = history.get(iteration="17", step="map")["events"]
    assert {tuple(e["iteration"]) for e in found} == {(17,)} and "TaskProcessed" in [e["name"] for e in found]
    history.local.close()


@pytest.mark.nightly
def test_any_place_of_a_long_loop_decodes_a_few_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(loop(4_000, "local"), most_buffered=100)
    stored = history.local.database.rows("SELECT count(*) FROM commits WHERE execution_id=?", (history.id,))[0][0]
    decoded = count_decoded(monkeypatch)
    local = history.local
    local.control.recent = RecentCommits(local.store)  # as a process that has read nothing
    assert history.shown(at=9_001, limit=2) == history.ids[9_001:9_003]
    assert stored > 100 and sum(decoded.values()) < 30
    history.local.close()


@pytest.mark.nightly
def test_any_place_of_a_long_control_stream_reads_a_few_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_core.views.reading.snapshot_search.SKEW", 0)
    steps = 1_500
    history = History(cycle(steps))
    local, count = history.local, len(history.ids)
    assert local.control.load(history.id).seq == steps
    store = local.control.store = CountedReads(local.store)
    chosen = random.Random(11)
    for number in (chosen.randrange(count) for _ in range(12)):
        event = history.events[number]
        for query, shown in (
            ({"at": number}, history.ids[number : number + 2]),
            ({"at": event["event_id"]}, history.ids[number : number + 2]),
            ({"after": event["event_id"]}, history.ids[number + 1 : number + 3]),
            ({"before": event["event_id"]}, history.ids[max(0, number - 2) : number]),
            ({"at": event["timestamp"]}, None),
        ):
            local.control.recent = RecentCommits(store)  # as a process that has read nothing
            store.commits = 0
            found = history.shown(**query, limit=2)
            assert shown is None or found == shown
            assert store.commits < 450, (query, store.commits)
        store.commits = 0
        state_at(local.control, history.id, event["event_id"])
        assert store.commits < 450
    local.close()


@pytest.mark.nightly
@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", ["local", "distributed"])
def test_the_state_of_a_long_loop_is_found_by_decoding_few_commits(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(loop(600, mode))
    control = history.local.control
    of_runs = [e["event_id"] for e in history.events if ".control." not in e["event_id"]]
    partial = 0
    for event_id in random.Random(5).sample(of_runs, 60):
        whole = state_at(control, history.id, event_id, 1 << 30)
        with monkeypatch.context() as counting:
            decoded = count_decoded(counting)
            control.recent = RecentCommits(history.local.store)
            shown = state_at(control, history.id, event_id, 50)
        assert decoded.total() < 100, "50 of the run, and those that routed since the last snapshot"
        partial += shown["run"].pop("partial", False)
        assert shown == whole
    assert partial > 20 or mode == "distributed"
    history.local.close()


def test_a_log_in_which_routing_did_not_record_how_much_runs_wrote_is_counted_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search_to_the_last(monkeypatch)
    history = History(ALL["chain"], snapshots=often(2))
    for commit in history.local.database.rows("SELECT rowid, body FROM commits WHERE run_id=''"):
        events = json.loads(commit[1])
        for event in events:
            if event[0] == "BoundaryRouted":
                event[2].pop("events", None)
        history.local.database.write("UPDATE commits SET body=? WHERE rowid=?", (json.dumps(events).encode(), commit[0]))
    history.local.database.write("DELETE FROM snapshots")
    kept = State(history.id)
    for each in history.local.store.read(StreamId(history.id)):
        history.local.store.save_snapshot(snapshot(fold_commits(kept, [each])))
    history.local.control.recent = RecentCommits(history.local.store)
    for number in range(0, len(history.ids), 3):
        assert history.shown(at=number, limit=2) == history.ids[number : number + 2]
    history.local.close()


def test_invalid_event_queries_are_refused() -> None:
    history = History(ALL["chain"])
    local = LocalWiring()
    other = local.start(StartRequest(playbook=source(ALL["chain"]))).execution_id
    asked: list[dict[str, str]] = [
        {"at": "x"},
        {"at": "1", "tail": "3"},
        {"before": f"{other}.control.0.0"},
        {"before": f"{history.id}.control.99.0"},
        {"at": f"{history.id}.control.99.0"},
        {"iteration": "a"},
        {"fields": "nam"},
        {"tail": "0"},
    ]
    for query in asked:
        answer = ask(history.service, "GET", f"/api/executions/{history.id}/events", query)
        assert (answer.status, answer.body["error"]["code"]) == (400, "malformed"), query
    assert json.loads(ask(history.service, "GET", "/api/executions/1/events", {"tail": "3"}).sent)["error"]["code"] == "not_found"
    history.local.close()
    local.close()
