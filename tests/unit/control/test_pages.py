"""A page of a long history decodes what it shows; all pages together decode every commit once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.events.event import AnyEvent
from noetl_core.log.decoded_commits import MAX_EVENTS, RecentCommits
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.views.history import pages
from tests.api_requests import ask
from tests.properties import some
from tests.running import page_of_events
from tests.unit.control.decode_counts import count_decoded, observe_decoding
from tests.unit.control.long_playbooks import HEAD, chain, loop


class Decoded:
    """A finished run on a local store, and which commits are decoded from now on: by run, '' for the control stream."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, local: LocalWiring, execution_id: str) -> None:
        self.local, self.execution_id = local, execution_id
        rows = self.local.database.rows("SELECT run_id, body FROM commits WHERE execution_id=?", (self.execution_id,))
        runs = {body: run for run, body in rows}
        self.stored = Counter(run for run, _ in rows)
        self.decoded: Counter[str] = Counter()
        self.sizes: list[int] = []
        """The numbers of events of the commits that were decoded."""

        def counted(body: bytes, events: Sequence[AnyEvent]) -> None:
            if body in runs:
                self.decoded[runs[body]] += 1
                self.sizes.append(len(events))

        observe_decoding(monkeypatch, counted)

    def page(self, **wanted: Any) -> tuple[list[dict[str, Any]], str | None, bool]:
        """A page as a process gives it that has read nothing before, and what was decoded for it."""
        self.local.control.recent = RecentCommits(self.local.store)
        self.decoded.clear()
        self.sizes.clear()
        return page_of_events(self.local.control, self.execution_id, key=b"k", **wanted)

    @property
    def of_runs(self) -> int:
        """Commits of run streams that were decoded."""
        return sum(n for run, n in self.decoded.items() if run)

    def shown(self, events: list[dict[str, Any]]) -> int:
        """Commits of run streams that events come from."""
        return len({e["event_id"].rsplit(".", 1)[0] for e in events if ".control." not in e["event_id"]})


@pytest.fixture(scope="module")
def finished() -> Iterator[Callable[[list[dict[str, Any]]], tuple[LocalWiring, str]]]:
    """The execution of a workflow, run once for all tests: they only read it."""
    local = LocalWiring()

    @cache
    def ran(playbook: str) -> str:
        execution_id = local.start(StartRequest(playbook=playbook)).execution_id
        assert local.run(execution_id)
        return execution_id

    yield lambda workflow: (local, ran(f"{HEAD}workflow: {json.dumps(workflow)}\n"))
    local.close()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch, finished: Any) -> Callable[[list[dict[str, Any]]], Decoded]:
    return lambda workflow: Decoded(monkeypatch, *finished(workflow))


@pytest.mark.one_in(3)
@pytest.mark.sized
@pytest.mark.parametrize("name", [None, "LoopIterationCompleted", "task.processed"])
@pytest.mark.parametrize("limit", some([300, 1, 1_000], 3))
def test_a_page_decodes_the_commits_it_shows_and_one_more_at_most(decoded: Any, name: str | None, limit: int) -> None:
    run = decoded(loop(2_000, "local"))
    assert sum(run.stored.values()) - run.stored[""] >= 3
    cursors: list[str | None] = [None]
    more = True
    while more and len(cursors) < 60:
        found, cursor, more = run.page(after=cursors[-1], limit=limit, name=name)
        assert run.of_runs <= run.shown(found) + 1, f"page {len(cursors)}"
        cursors.append(cursor)


def test_an_event_id_is_found_by_position(decoded: Any) -> None:
    run = decoded(loop(2_000, "local"))
    whole = list(pages.whole(run.local.control, run.execution_id))
    for place in (0, 2_000, 5_000, len(whole) - 10):
        found, _, _ = run.page(after=whole[place]["event_id"], limit=100)
        assert found == whole[place + 1 : place + 101]
        assert run.of_runs <= run.shown(found) + 2, "the commit of the event is looked up"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["LoopStarted", "loop.done", "NextEvaluated", "workflow.finished"])
def test_events_of_the_control_stream_are_found_without_decoding_run_streams(decoded: Any, name: str) -> None:
    run = decoded(loop(3_000, "local"))
    run.page(limit=1_000, name=name)
    assert run.of_runs == 0


@pytest.mark.nightly
def test_a_page_without_matches_ends_at_the_examined_limit_with_a_cursor(decoded: Any) -> None:
    run = decoded(loop(12_000, "local"))
    found: list[dict[str, Any]] = []
    after, more, pages_read = None, True, 0
    while more:
        page, after, more = run.page(limit=1_000, name="TaskRetried", after=after)
        found, pages_read = found + page, pages_read + 1
        assert sum(run.sizes) - max(run.sizes) < pages.MAX_EXAMINED, "a page goes on to the end of one commit at most"
    assert found == []
    assert pages_read >= 4, "of 36,000 events"


def test_a_reader_of_the_whole_history_decodes_each_commit_once(decoded: Any) -> None:
    run = decoded(loop(2_000, "local"))
    run.local.control.recent = RecentCommits(run.local.store)
    assert sum(1 for _ in pages.whole(run.local.control, run.execution_id)) > 8_000
    assert run.decoded == run.stored


class Read:
    """The events of a finished run, asked for page by page, and how many commits were decoded for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, workflow: list[dict[str, Any]], limit: int, kept: int) -> None:
        self.local = LocalWiring()
        self.local.control.recent = RecentCommits(self.local.store, kept)
        execution_id = self.local.start(StartRequest(playbook=f"{HEAD}workflow: {json.dumps(workflow)}\n")).execution_id
        assert self.local.run(execution_id)
        rows = self.local.database.rows("SELECT run_id, body FROM commits WHERE execution_id=?", (execution_id,))
        self.commits = len(rows)
        self.control = sum(not run for run, _ in rows)
        decoded = count_decoded(monkeypatch)
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

    def read(workflow: list[dict[str, Any]], limit: int, kept: int = MAX_EVENTS) -> Read:
        made.append(Read(monkeypatch, workflow, limit, kept))
        return made[-1]

    yield read
    for each in made:
        each.local.close()


@pytest.mark.nightly
@pytest.mark.one_in(2)
@pytest.mark.sized
@pytest.mark.parametrize(
    ("workflow", "limit"),
    some([(loop(3_000, "local"), 500), (loop(2_000, "local"), 30), (loop(1_000, "distributed"), 33), (chain(250), 50)], 2, 1),
    ids=some(["loop", "small pages", "distributed loop", "chain"], 2, 1),
)
def test_all_pages_together_decode_each_commit_once(closing: Any, workflow: list[dict[str, Any]], limit: int) -> None:
    read = closing(workflow, limit)
    assert read.pages > 10
    assert len({e["event_id"] for e in read.events}) == len(read.events) > 1_000
    assert read.decoded <= read.commits + read.control, "the pages, and the state at the end"


@pytest.mark.nightly
def test_commits_larger_than_the_cache_are_read_completely(closing: Any) -> None:
    read = closing(loop(1_000, "local"), 100, kept=10)
    assert len({e["event_id"] for e in read.events}) == len(read.events)
    assert sum(e["name"] == "LoopIterationCompleted" for e in read.events) == 1_000
