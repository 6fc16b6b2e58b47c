"""Recorded histories, replayed: every decision comes out as it was, the state folds to the same end, envelopes read."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import asdict
from functools import cache
from random import Random

import pytest

from noetl_cli.display.progress import Progress
from noetl_core.engine.fold.control_stream import fold_commits
from noetl_core.engine.records import LOG_VERSION, StreamId
from noetl_core.engine.snapshots import restore, snapshot
from noetl_core.engine.state import State
from noetl_core.log.codec import decode_events, encode_events
from noetl_core.observe.cost import Meter
from noetl_core.observe.timeline import Timeline
from noetl_core.views.executions import executions as control_read
from noetl_core.views.explain.replay import replay
from noetl_core.views.history import event_pages
from noetl_core.views.reading import positions
from noetl_core.views.reading.cursor import history
from noetl_core.views.reading.envelopes import expand
from tests.golden import logs, record
from tests.golden.logs import FOLDER, Golden
from tests.golden.scenarios import SCENARIOS
from tests.properties import some

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def golden(name: str) -> Golden:
    return logs.read(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_decision_is_taken_again_as_it_was(name: str) -> None:
    world = golden(name).world()
    for execution_id in golden(name).executions():
        done = replay(world.controls[0], execution_id)
        assert done.over
        assert done.differences == (), f"{name}: {execution_id}"


@pytest.mark.parametrize("name", NAMES)
def test_the_log_folds_to_the_same_end(name: str) -> None:
    assert logs.came_to(golden(name).world(), golden(name).execution_id) == golden(name).expect


@pytest.mark.parametrize("name", NAMES)
def test_the_fold_goes_on_from_a_snapshot_taken_anywhere(name: str) -> None:
    for execution_id in golden(name).executions():
        commits = golden(name).world().store.streams[StreamId(execution_id)]
        whole = asdict(fold_commits(State(execution_id), commits))
        for upto in range(1, len(commits)):
            kept = snapshot(fold_commits(State(execution_id), commits[:upto]))
            assert asdict(fold_commits(restore(kept), commits[upto:])) == whole


@pytest.mark.one_in(3)
@pytest.mark.sized
@pytest.mark.parametrize("name", NAMES)
def test_every_place_and_state_is_the_same_from_snapshots_as_from_the_beginning(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl_core.views.reading.snapshot_search.NEAR", 1)
    bare, kept = golden(name).world(), golden(name).world()
    for execution_id in golden(name).executions():
        state = State(execution_id)
        for commit in kept.store.streams[StreamId(execution_id)]:
            kept.store.save_snapshot(deepcopy(snapshot(fold_commits(state, [commit]))))
        events = [envelope["event_id"] for envelope in expand(history(bare.store, execution_id), execution_id)]
        chosen = Random(7).sample(range(len(events)), min(len(events), 200))
        for number in some(chosen, 4):
            seen: list[object] = []
            for world in (bare, kept):
                control = world.controls[0]
                found = event_pages.page(control, execution_id, b"k", event_pages.Filter(), at=str(number), limit=1)
                before = event_pages.page(control, execution_id, b"k", event_pages.Filter(), before=events[number], limit=1)
                behind = positions.position_behind(control, events[number], execution_id, None)
                seen.append((found, before, behind, control_read.state_at(control, execution_id, events[number])))
                assert [e["event_id"] for e in found.events] == [events[number]]
            assert seen[0] == seen[1]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_every_reader_accepts_the_recorded_history(name: str) -> None:
    """Commits as bytes, envelopes, the summary, every view."""
    world = golden(name).world()
    for commit in golden(name).commits:
        assert commit.v <= LOG_VERSION
        assert decode_events(encode_events(commit.events, compress=True), commit.v) == commit.events
    for execution_id in golden(name).executions():
        control = world.controls[0]
        envelopes = list(expand(history(world.store, execution_id), execution_id))
        assert len({e["event_id"] for e in envelopes}) == len(envelopes)
        progress, line, meter = Progress(), Timeline(), Meter(execution_id)
        progress.observe(envelopes)
        line.observe(envelopes)
        meter.observe(history(world.store, execution_id))
        summary = control_read.summary(control, execution_id)
        assert progress.status == line.status == summary["status"]
        assert meter.as_dict()["total"]["cost"] > 0
        for envelope in envelopes:
            control_read.state_at(control, execution_id, envelope["event_id"])


def test_there_is_a_history_for_every_feature() -> None:
    assert set(SCENARIOS) <= set(NAMES), "python -m tests.golden.record records what is missing"


def test_a_history_that_is_there_is_not_written_over(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("written")

    monkeypatch.setattr(record, "write", refuse)
    assert record.main([]) == 0
    assert record.main(["chain"]) == 1
    assert "--force" in capsys.readouterr().err
    with pytest.raises(AssertionError, match="written"):
        record.main(["chain", "--force"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_each_scenario_run_today_ends_as_its_recorded_history(name: str) -> None:
    """A change of a feature fails this test before it breaks the histories of users."""
    world, execution_id, _ = SCENARIOS[name].play(name)
    assert _in_seconds(logs.came_to(world, execution_id)) == _in_seconds(golden(name).expect)


def _in_seconds(end: object) -> object:
    """Cut the instants of a JSON value to seconds: this world's clock advances by a microsecond each time it is read."""
    return json.loads(re.sub(r"(T\d\d:\d\d:\d\d)\.\d+", r"\1", json.dumps(end)))
