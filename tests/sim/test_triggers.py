"""Triggers under faults: what is installed, and that each occurrence starts one execution."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

from noetl_core.control import read
from noetl_core.control.registration import install, register
from noetl_core.engine.ids import trigger_id
from noetl_core.engine.records import request_of
from noetl_core.ports import PortError
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.world import World

PATH = "reports/nightly"


def playbook(*triggers: str, path: str = PATH, more: str = "") -> str:
    listed = "\n".join(f"      - {{{trigger}}}" for trigger in triggers)
    return f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: nightly, path: {path}}}
executor:
  spec:
    triggers:
{listed or "      []"}
workload: {{day: null}}
workflow:
  - step: start
    tool: {{kind: noop, result: "{{{{ [workload.day, trigger.kind, trigger.name, trigger.previous_at] }}}}"}}
{more}"""


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


def world_at(text: str, faults: Faults | None = None) -> World:
    world = World(faults=faults or Faults())
    world.clock.time = at(text)
    world.next_sweep = world.clock.time + 60 * SECOND
    return world


def started(world: World) -> list[tuple[str, str]]:
    """Of every execution, which trigger started it at which occurrence, in order."""
    requests = [request_of(commits[0]) for stream, commits in world.store.streams.items() if stream.run_id is None]
    return sorted((t["id"], t["name"]) for r in requests if (t := r.get("trigger")) is not None)


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


def register_in(world: World, source: str) -> None:
    """A client that retries until it has its answer."""
    while True:
        try:
            register(world.controls[0], source)
            return
        except (Crash, PortError):
            world.controls[0] = world.new_control()


def results(world: World) -> list[object]:
    ids = sorted({stream.execution_id for stream in world.store.streams})
    states = sorted((world.state(x) for x in ids), key=lambda state: state.started_at)
    assert {state.status for state in states} <= {"completed"}
    return [read.summary(world.controls[0], state.execution_id)["result"] for state in states]


def test_an_occurrence_starts_an_execution_with_its_payload() -> None:
    world = world_at("2026-03-28T12:00:30")
    register_in(world, playbook('schedule: "30 2 * * *", timezone: Europe/Berlin, payload: {day: "{{ trigger.scheduled_at }}"}'))
    pass_time(world, "2026-03-31T12:00:00")
    days = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]
    assert results(world) == [[day, "schedule", "schedule", before] for before, day in pairwise(days)]
    assert started(world) == [(day, "schedule") for day in days[1:]]
    listed = [(f.occurrence, f.result) for f in reversed(world.triggers.firings(PATH, "schedule", 0, 10))]
    assert listed == [(day, "started") for day in days[1:]]


def test_whatever_crashes_an_occurrence_starts_one_execution() -> None:
    """A process dies before, and after, each call that a registration and two occurrences make."""
    calls = 0
    for crash_after in (False, True):
        crash_at = 0
        while True:
            crash_at += 1
            world = world_at("2026-03-28T12:00:30", Faults(crash_at=crash_at, crash_after=crash_after))
            register_in(world, playbook('schedule: "*/30 * * * *"'))
            pass_time(world, "2026-03-28T13:10:00")
            world.faults.quiet = True
            assert started(world) == [(f"2026-03-28T{t}:00Z", "schedule") for t in ("12:30", "13:00")], crash_at
            assert len(results(world)) == 2
            if world.faults.calls < crash_at:
                break
            calls += 1
    assert calls >= 80


def test_another_version_keeps_the_switch_and_what_was_decided() -> None:
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
