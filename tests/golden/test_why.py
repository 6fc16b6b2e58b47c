"""`why` on every recorded history: no step is left without an explanation, and what is said of guards is what was decided."""

from __future__ import annotations

from functools import cache

import pytest

from noetl_core.engine.records import StreamId
from noetl_core.engine.snapshots import snapshot
from noetl_core.views.explain.diff import diff
from noetl_core.views.explain.why import why
from noetl_core.views.reading.log_parts import ReadLimits
from tests.golden import logs
from tests.golden.logs import FOLDER, Golden
from tests.golden.scenarios import SCENARIOS

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def golden(name: str) -> Golden:
    return logs.read(name)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_no_step_is_unexplained(name: str) -> None:
    world = golden(name).world()
    control = world.controls[0]
    for execution_id in golden(name).executions():
        state = world.state(execution_id)
        for step in control.playbook(state.digest).steps:
            answer = why(control, execution_id, step.name)
            commits = world.store.streams[StreamId(execution_id)]
            ran = any(e.name == "StepScheduled" and e.data["step"] == step.name for c in commits for e in c.events)
            kinds = {fact["fact"] for fact in answer["facts"] if fact["depth"] == 0}
            assert kinds, (name, step.name)
            assert bool(kinds & {"ran", "failed", "open"}) == ran, (name, step.name, kinds)
            if not ran:
                assert kinds & {"skipped", "expired", "held", "join", "not_reached", "unreachable", "admission"}
                assert len(answer["facts"]) > 1, (name, step.name)
            for fact in answer["facts"]:
                assert fact["text"] and "None" not in fact["text"]
                for arc in fact.get("arcs", ()):
                    if "guard" in arc and not arc.get("not_looked_at") and arc["guard"]["holds"] is not None:
                        assert arc["guard"]["holds"] == arc["fired"], (name, step.name, arc)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", NAMES)
def test_every_step_at_a_past_event_is_explained_by_earlier_events(name: str) -> None:
    world = golden(name).world()
    control = world.controls[0]
    for execution_id in golden(name).executions():
        commits = world.store.streams[StreamId(execution_id)]
        steps = control.playbook(world.state(execution_id).digest).steps
        for last in commits[:: max(1, len(commits) // 8)]:
            then = f"{execution_id}.control.{last.seq}.0"
            scheduled = {e.data["step"] for c in commits[: last.seq + 1] for e in c.events if e.name == "StepScheduled"}
            for step in steps:
                answer = why(control, execution_id, step.name, then)
                kinds = {fact["fact"] for fact in answer["facts"] if fact["depth"] == 0}
                assert kinds, (name, step.name, last.seq)
                assert bool(kinds & {"ran", "failed", "open"}) == (step.name in scheduled), (name, step.name, last.seq, kinds)
                for fact in answer["facts"]:
                    assert fact["text"] and "None" not in fact["text"]
                    if "event_id" in fact:
                        assert int(fact["event_id"].split(".")[2]) <= last.seq
            now = why(control, execution_id, None, f"{execution_id}.control.{commits[-1].seq}.0")
            assert now == why(control, execution_id)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", NAMES)
def test_explanations_from_parts_of_a_history_equal_those_of_the_whole(name: str) -> None:
    """As for a long history, of which only some commits are read, with snapshots between them."""
    world = golden(name).world()
    control = world.controls[0]
    asked: list[tuple[str, str | None, str | None]] = []
    for execution_id in golden(name).executions():
        state = control.load(execution_id)
        for seq in range(2, state.seq, 3):
            world.store.save_snapshot(snapshot(control.load(execution_id, seq)))
        steps = [step.name for step in control.playbook(state.digest).steps]
        moments = [None, *(f"{execution_id}.control.{seq}.0" for seq in range(0, state.seq, max(1, state.seq // 4)))]
        asked += [(execution_id, step, at) for step in (None, *steps) for at in moments]
    whole = [why(control, *each) for each in asked]
    for each, expected in zip(asked, whole, strict=True):
        found = why(control, *each, limits=ReadLimits(whole=0, tail=2, block=2))
        told = found.pop("partial", None)
        assert told is None or (told["unevaluated"] == 0 and told["read"] <= told["commits"])
        assert found == expected, each


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_partly_compared_history_does_not_differ_from_itself(name: str) -> None:
    control = golden(name).world().controls[0]
    whole = {each: len(diff(control, each, each)["durations"]) for each in golden(name).executions()}
    for execution_id, all_visits in whole.items():
        found = diff(control, execution_id, execution_id, ReadLimits(whole=0, ends=2))
        assert found["differences"] == []
        if told := found.get("partial"):
            assert told["visits"] == all_visits
            assert len(found["durations"]) == told["compared"] > 0
        else:
            assert len(found["durations"]) == all_visits


@pytest.mark.parametrize("name", NAMES)
def test_failures_have_their_causes(name: str) -> None:
    world = golden(name).world()
    for execution_id in golden(name).executions():
        answer = why(world.controls[0], execution_id)
        failure = world.state(execution_id).failure
        assert bool(answer["causes"]) == (failure is not None and failure["kind"] != "cancelled")
        for cause in answer["causes"]:
            assert cause["message"] and cause.get("line"), cause


@pytest.mark.parametrize("name", NAMES)
def test_a_history_does_not_differ_from_itself(name: str) -> None:
    control = golden(name).world().controls[0]
    for execution_id in golden(name).executions():
        assert diff(control, execution_id, execution_id)["differences"] == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [name for name in NAMES if name in SCENARIOS])
def test_two_plays_of_a_scenario_do_not_differ(name: str) -> None:
    world, one, sources = SCENARIOS[name].play(name, "one")
    found = diff(world.controls[0], one, one)
    again, other, _ = SCENARIOS[name].play(name, "other")
    for stream, commits in again.store.streams.items():
        world.store.streams[stream] = commits
    world.results.objects.update(again.results.objects)
    assert found["differences"] == []
    assert diff(world.controls[0], one, other)["differences"] == [], sources
