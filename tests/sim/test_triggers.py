"""Triggers under faults: what is installed, and that each occurrence starts one execution."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from noetl_core.control.admit import Started, StartRequest, admit
from noetl_core.control.catalog.registration import install, register
from noetl_core.control.core import Control
from noetl_core.control.triggers.operate import fire, switch
from noetl_core.engine.ids import trigger_id
from noetl_core.views.executions import executions
from tests.properties import CRASHES_IN
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.schedules import PATH, at, playbook, register_in, started, world_at
from tests.sim.world import World


def pass_time(world: World, until: str) -> None:
    """Let everything happen that happens until then; the sweeper looks each minute where something is due."""
    end = at(until)
    while world.clock.time < end:
        due = min(world.index.due_at.values(), default=end)
        idle = not world.records and not world.queue.messages
        if idle and due > world.next_sweep:  # minutes in which a sweep would find nothing
            world.next_sweep += -(-(due - world.next_sweep) // (60 * SECOND)) * 60 * SECOND
        if idle and world.next_sweep >= end:
            world.clock.time = end
            return
        world.step()


def results(world: World) -> list[object]:
    ids = sorted({stream.execution_id for stream in world.store.streams})
    states = sorted((world.state(x) for x in ids), key=lambda state: state.started_at)
    assert {state.status for state in states} <= {"completed"}
    return [executions.summary(world.controls[0], state.execution_id)["result"] for state in states]


def test_an_occurrence_starts_an_execution_with_its_payload() -> None:
    world = world_at("2026-03-28T12:00:30")
    register_in(world, playbook('schedule: "30 2 * * *", timezone: Europe/Berlin, payload: {day: "{{ trigger.scheduled_at }}"}'))
    pass_time(world, "2026-03-31T12:00:00")
    days = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]
    assert results(world) == [[day, "schedule", "schedule", before] for before, day in pairwise(days)]
    assert started(world) == [(day, "schedule") for day in days[1:]]
    listed = [(f.occurrence, f.result) for f in reversed(world.triggers.firings(PATH, "schedule", 0, 10))]
    assert listed == [(day, "started") for day in days[1:]]


@pytest.mark.sized
def test_an_occurrence_starts_one_execution_despite_crashes() -> None:
    """A process dies before, and after, each call that a registration and two occurrences make."""
    calls = 0
    for crash_after in (False, True):
        crash_at = CRASHES_IN // 2 if crash_after else 1
        while True:
            world = world_at("2026-03-28T12:00:30", Faults(crash_at=crash_at, crash_after=crash_after))
            register_in(world, playbook('schedule: "*/30 * * * *"'))
            pass_time(world, "2026-03-28T13:10:00")
            world.faults.quiet = True
            assert started(world) == [(f"2026-03-28T{t}:00Z", "schedule") for t in ("12:30", "13:00")], crash_at
            assert len(results(world)) == 2
            if world.faults.calls < crash_at:
                break
            crash_at += CRASHES_IN
            calls += CRASHES_IN
    assert calls >= 80


def test_another_version_keeps_the_trigger_switch_and_decided_occurrences() -> None:
    world = world_at("2026-03-28T12:00:30")
    register_in(world, playbook('schedule: "0 * * * *"', 'name: other, schedule: "0 * * * *"'))
    pass_time(world, "2026-03-28T13:30:00")
    record = world.triggers.trigger(PATH, "schedule")
    assert record is not None
    world.triggers.put_trigger(replace(record, enabled=False, revision="off"), record.revision)
    register_in(world, playbook('schedule: "5 * * * *"', 'name: third, schedule: "10 * * * *"', more="# 2\n"))
    assert sorted(world.triggers.records) == [(PATH, "schedule"), (PATH, "third")]
    kept = world.triggers.trigger(PATH, "schedule")
    assert kept is not None
    assert (kept.enabled, kept.version, kept.source["cron"]) == (False, 2, "5 * * * *")
    pass_time(world, "2026-03-28T15:30:00")
    assert [name for _, name in started(world)] == ["other", "schedule", "third", "third"]
    assert set(world.index.due_at) == {trigger_id(PATH, "third")}


def test_an_earlier_version_installs_nothing_over_a_later_one() -> None:
    world = world_at("2026-03-28T12:00:30")
    control = world.controls[0]
    first, version = register(control, playbook('schedule: "0 * * * *"'))
    register_in(world, playbook(more="# none\n"))
    assert not world.triggers.records
    install(control, first, version)
    assert not world.triggers.records
    assert not world.index.due_at


# --- overlap, while executions take their time ----------------------------------------------------------------------------

WAITING = "\n  - step: after\n    tool: {kind: wait, seconds: 5400}\n"


def slow(*triggers: str, path: str = PATH) -> str:
    """A playbook whose executions take an hour and a half."""
    return (
        playbook(*triggers, path=path).replace(
            'trigger.previous_at] }}"}', 'trigger.previous_at] }}"}\n    next: {arcs: [{step: after}]}'
        )
        + WAITING
    )


def spans(world: World) -> list[tuple[str, str, int, int]]:
    """Return for each execution its occurrence, its end, and its begin and end in minutes."""
    begin = at("2026-03-28T12:00:00")
    out = []
    for execution_id in {stream.execution_id for stream in world.store.streams}:
        state = world.state(execution_id)
        assert state.trigger is not None
        ended = (state.finished_at or 0) - begin
        out.append(
            (state.trigger["id"][11:16], state.status, (state.started_at - begin) // (60 * SECOND), ended // (60 * SECOND))
        )
    return sorted(out)


def lived(overlap: str, seed: int = 0) -> list[tuple[str, str, int, int]]:
    faults = Faults(seed=seed, crash=0.01 if seed else 0, throttle=0.01 if seed else 0, duplicate=0.1 if seed else 0)
    world = world_at("2026-03-28T12:00:30", faults)
    register_in(world, slow(f'schedule: "0 * * * *", overlap: {overlap}'))
    pass_time(world, "2026-03-28T16:30:00")
    record = world.triggers.trigger(PATH, "schedule") if not seed else None
    faults.quiet = True
    register_in(world, playbook(more="# none\n"))
    pass_time(world, "2026-03-28T23:30:00")
    assert record is None or record.enabled
    return spans(world)


def test_an_overlapping_occurrence_is_skipped_queued_allowed_or_replaces_the_running_one() -> None:
    assert [(o, s, begin) for o, s, begin, _ in lived("skip")] == [("13:00", "completed", 60), ("15:00", "completed", 180)]
    assert [(o, s) for o, s, *_ in lived("allow")] == [(f"{hour}:00", "completed") for hour in (13, 14, 15, 16)]
    cancelled = lived("cancel")
    assert [(o, s) for o, s, *_ in cancelled] == [
        ("13:00", "cancelled"),
        ("14:00", "cancelled"),
        ("15:00", "cancelled"),
        ("16:00", "completed"),
    ]
    assert [begin for *_, begin, _ in cancelled] == [60, 120, 180, 240]
    queued = lived("queue")
    assert [o for o, *_ in queued] == ["13:00", "14:00", "15:00"]
    for before, after in pairwise(queued):
        assert 0 <= after[2] - before[3] <= 2, queued


def test_an_occurrence_fired_early_by_hand_is_not_recorded_as_skipped() -> None:
    world = world_at("2026-03-28T12:00:30")
    register_in(world, slow('schedule: "0 * * * *"'))
    pass_time(world, "2026-03-28T13:30:00")
    fired = fire(world.controls[0], PATH, "schedule", "2026-03-28T14:00:00Z")
    pass_time(world, "2026-03-28T14:10:00")
    shown = {f.occurrence: (f.result, f.execution_id) for f in world.triggers.firings(PATH, "schedule", 0, 10)}
    assert shown["2026-03-28T14:00:00Z"] == ("started", fired["execution_id"])
    assert [o for o, *_ in spans(world)] == ["13:00", "14:00"]
    switch(world.controls[0], PATH, "schedule", on=False)
    assert {f.result for f in world.triggers.firings(PATH, "schedule", 0, 10)} == {"started"}


@pytest.mark.nightly
def test_executions_that_must_not_overlap_never_do_despite_crashes() -> None:
    for seed in range(1, 16):
        for overlap in ("skip", "queue", "cancel"):
            found = sorted(lived(overlap, seed), key=lambda span: span[2])
            assert len({occurrence for occurrence, *_ in found}) == len(found) >= 2
            for before, after in pairwise(found):
                assert after[2] >= before[3], (seed, overlap, found)


# --- failures stay with their trigger -------------------------------------------------------------------------------------


def test_a_playbook_that_does_not_read_any_more_is_refused_and_the_others_fire() -> None:
    world = world_at("2026-03-28T12:00:30")
    for path in ("a/broken", "b/well"):
        register_in(world, playbook('schedule: "0 * * * *"', path=path))
    (version,) = world.catalog.by_path["a/broken"]
    world.catalog.by_path["a/broken"] = [replace(version, source="kind: Nothing")]
    world.controls = [world.new_control()]
    pass_time(world, "2026-03-28T14:30:00")
    assert [o[11:16] for o, _ in started(world)] == ["13:00", "14:00"]
    refused = world.triggers.list_refused(0, 9)
    assert [(r.path, r.occurrence[11:16], r.code) for r in refused] == [
        ("a/broken", "14:00", "invalid_playbook"),
        ("a/broken", "13:00", "invalid_playbook"),
    ]


def test_a_payload_that_cannot_be_rendered_is_refused_with_the_reason() -> None:
    world = world_at("2026-03-28T12:00:30")
    register_in(world, playbook('schedule: "0 * * * *", payload: {day: "{{ trigger.nothing.at_all }}"}'))
    pass_time(world, "2026-03-28T13:30:00")
    (refused,) = world.triggers.list_refused(0, 9)
    assert refused.code == "template"
    assert refused.facts["scheduled_at"] == "2026-03-28T13:00:00Z"
    (firing,) = world.triggers.firings(PATH, "schedule", 0, 9)
    assert (firing.result, firing.reason) == ("refused", refused.reason)


def test_a_trigger_that_ends_processes_is_switched_off_and_stops_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_at("2026-03-28T12:00:30")
    register_in(world, playbook('schedule: "0 * * * *"', path="a/deadly"))
    register_in(world, playbook('schedule: "*/10 * * * *"', path="b/well"))

    def admit_or_die(control: Control, request: StartRequest) -> Started:
        if request.path == "a/deadly":
            raise Crash
        return admit(control, request)

    monkeypatch.setattr("noetl_core.control.triggers.start.admit", admit_or_die)
    pass_time(world, "2026-03-28T15:30:00")
    assert len(started(world)) == 20
    record = world.triggers.trigger("a/deadly", "schedule")
    assert record is not None
    assert not record.enabled
    assert "did not finish" in record.state["stopped"]
    assert [r.code for r in world.triggers.list_refused(0, 9, "a/deadly")] == ["stuck"]
    assert trigger_id("a/deadly", "schedule") not in world.index.due_at


def test_while_the_store_is_throttled_occurrences_stay_due() -> None:
    world = world_at("2026-03-28T12:00:30", Faults(seed=3, throttle=0.1))
    register_in(world, playbook('schedule: "*/10 * * * *", overlap: queue, catch_up: all'))
    pass_time(world, "2026-03-28T15:05:00")
    world.faults.quiet = True
    pass_time(world, "2026-03-28T15:09:00")
    times = [f"{hour}:{minute:02}" for hour in (12, 13, 14, 15) for minute in range(0, 60, 10)][1:19]
    assert [o[11:16] for o, _ in started(world)] == times
