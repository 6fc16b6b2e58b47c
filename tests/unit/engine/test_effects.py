"""Effects as a function of the log: none is missing or repeated, and later decisions change none of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy

import pytest

from noetl_core.dsl.model import Playbook
from noetl_core.engine.dispatch.effects import (
    SNAPSHOT_EVENTS,
    AcquirePlace,
    ClearDue,
    Effect,
    EndChild,
    HandleFailure,
    ReleasePlace,
    SaveSnapshot,
    SendCommands,
    SetDue,
    StartChild,
    TellParent,
    WakeAt,
    WriteHead,
    effects_of,
)
from noetl_core.engine.fold.control_stream import fold_commits
from noetl_core.engine.records import Commit, StreamId, control_events
from noetl_core.engine.snapshots import restore
from noetl_core.engine.state import State, caller_of
from noetl_core.engine.waits import due_at
from tests.golden import logs
from tests.unit.engine.tables import History, fact, failed, parsed, sliced

NAMES = sorted(path.stem for path in logs.FOLDER.glob("*.json"))


def steps_of(name: str) -> Iterator[tuple[Playbook, State, Commit, tuple[Effect, ...]]]:
    """Yield for every control commit of a recorded history the state after it, and its effects. The state is folded on
    afterwards."""
    golden = logs.read(name)
    world = golden.world()
    for execution_id in golden.executions():
        state = State(execution_id)
        for commit in world.store.streams[StreamId(execution_id)]:
            fold_commits(state, [commit])
            playbook = world.controls[0].playbook(state.digest)
            yield playbook, state, commit, effects_of(playbook, state, control_events(commit), commit.events[0].ts)


@pytest.mark.parametrize("name", NAMES)
def test_every_run_is_commanded_by_the_commit_that_scheduled_it(name: str) -> None:
    for _, state, commit, effects in steps_of(name):
        due = Counter(
            r.id
            for r in state.runs.values()
            if r.status == "scheduled" and r.scheduled_seq == commit.seq and r.loop is None and r.claim is None
        )
        resumed = any(e.name == "ExecutionResumed" for e in commit.events)
        sent = Counter(c.run_id for e in effects if isinstance(e, SendCommands) for c in e.commands)
        assert sent == due or (resumed and sent >= due)


@pytest.mark.parametrize("name", NAMES)
def test_every_wait_for_a_time_is_woken_for_by_the_commit_it_begins_with(name: str) -> None:
    for _, state, commit, effects in steps_of(name):
        begun = {e.data["run"] for e in commit.events if e.name == "BoundaryRouted"} & state.runs.keys()
        times = {at for run in begun for w in state.runs[run].waits if (at := due_at(w)) is not None}
        assert not times or min(times) in {e.at for e in effects if isinstance(e, WakeAt)}


@pytest.mark.parametrize("name", NAMES)
def test_an_end_writes_the_head_and_tells_the_parent_before_clearing_due(name: str) -> None:
    for _, state, _, effects in steps_of(name):
        if not state.finished:
            assert ClearDue() not in effects
            continue
        *told, last = [e for e in effects if isinstance(e, WriteHead | TellParent | ClearDue)]
        assert last == ClearDue()
        assert isinstance(told[0], WriteHead)
        assert told[0].head.status == state.status
        assert len(told) == (2 if caller_of(state.parent) else 1)


@pytest.mark.parametrize("name", NAMES)
def test_every_child_is_started_by_the_commit_that_asks_for_it(name: str) -> None:
    for _, state, commit, effects in steps_of(name):
        asked = [e.data["child"] for e in commit.events if e.name == "ChildRequested" and e.data["child"] in state.children]
        assert [e.child for e in effects if isinstance(e, StartChild)] == asked


@pytest.mark.parametrize("name", NAMES)
def test_no_later_decision_changes_an_effect(name: str) -> None:
    """The state continues while effects are carried out: by what a child's start brings about, or in another thread."""
    made = [(effects, deepcopy(effects)) for _, _, _, effects in steps_of(name)]
    assert [effects for effects, _ in made] == [before for _, before in made]


def test_the_histories_have_effects_of_every_kind() -> None:
    seen = {type(effect) for name in NAMES for *_, effects in steps_of(name) for effect in effects}
    assert seen == {
        SendCommands,
        WakeAt,
        StartChild,
        WriteHead,
        TellParent,
        HandleFailure,
        AcquirePlace,
        ReleasePlace,
        SetDue,
        ClearDue,
    }
    # the others are of long decisions (below) and of runs that end without their child (`test_child_table`)
    assert not seen & {SaveSnapshot, EndChild}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("events", "kept"), [(SNAPSHOT_EVENTS, True), (SNAPSHOT_EVENTS - 1, False)])
def test_the_state_is_kept_behind_a_decision_of_thousands_of_events(events: int, kept: bool) -> None:
    loop = "loop: { in: [], iterator: n, spec: { mode: parallel, policy: { exec: distributed } } }"
    history = History(parsed(f"- {{ step: each, {loop}, tool: {{ kind: noop }} }}\n"))
    history.decide(None)
    chunks = events - 2
    decision = history.decide(sliced("each", items=chunks, size=1, window=chunks))
    assert len(decision.events) == events
    snapshots = [e.snapshot for e in decision.effects if isinstance(e, SaveSnapshot)]
    assert len(snapshots) == kept
    for snap in snapshots:
        assert snap.seq == decision.seq
        assert restore(snap).runs == decision.state.runs


def test_the_error_of_a_head_omits_fields_that_only_decisions_read() -> None:
    history = History(parsed("- { step: start, tool: { kind: noop } }\n"))
    late = {"kind": "timeout", "message": "late", "fatal": True}
    for news in (None, fact("fail", error=late)):
        history.decide(news)
    (head,) = [e.head for e in history.decide(failed("start")).effects if isinstance(e, WriteHead)]
    assert head.error == {"kind": "timeout", "message": "late"}
