"""Decisions of a schedule: a table of policies, occurrences, and the state of the previous execution."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from noetl_core.dsl.model import CatchUp, Overlap, Schedule
from noetl_core.engine.schedules.occurrences import name_of
from noetl_core.engine.schedules.schedules import (
    MOST_AT_ONCE,
    MOST_CAUGHT_UP,
    MOST_WAITING,
    ScheduleState,
    decide,
    due_at,
    has_started,
    installed,
    schedule_of,
    switched_on,
)
from tests.unit.engine.times import SECOND, at

KEY = "trigger:a:b"
HOUR = 3600 * SECOND
NOON = at("2026-11-22T12:00")
RUNNING = ScheduleState(next_at=NOON, last_at=NOON - HOUR, execution_id="17")


def hourly(overlap: Overlap = "skip", catch_up: CatchUp = "latest", jitter: float = 0) -> Schedule:
    return Schedule("0 * * * *", overlap=overlap, catch_up=catch_up, jitter_s=jitter)


def hours(*numbers: int) -> tuple[int, ...]:
    return tuple(NOON + n * HOUR for n in numbers)


@pytest.mark.parametrize(
    ("overlap", "alive", "starting", "waiting", "skipped", "cancel"),
    [
        ("skip", False, hours(0), (), 0, None),
        ("skip", True, (), (), 1, None),
        ("queue", False, hours(0), (), 0, None),
        ("queue", True, (), hours(0), 0, None),
        ("allow", False, hours(0), (), 0, None),
        ("cancel", False, hours(0), (), 0, None),
        ("cancel", True, (), hours(0), 0, "17"),
    ],
)
def test_an_occurrence_that_comes_in_time(
    overlap: Overlap, alive: bool, starting: tuple[int, ...], waiting: tuple[int, ...], skipped: int, cancel: str | None
) -> None:
    decided = decide(hourly(overlap), KEY, RUNNING, NOON + SECOND, alive=alive)
    assert decided.state.next_at == NOON + HOUR
    assert (decided.state.starting, decided.state.waiting) == (starting, waiting)
    assert (len(decided.skipped), decided.cancel) == (skipped, cancel)
    if skipped:
        assert decided.skipped[0].reason == "execution 17 of 2026-11-22T11:00:00Z still runs"


@pytest.mark.parametrize(
    ("catch_up", "overlap", "late_s", "starting", "waiting", "missed"),
    [
        (
            "none",
            "skip",
            5 * 3600 + 60,
            hours(5),
            (),
            "nothing could start 5 occurrences in time, from 2026-11-22T12:00:00Z on; catch_up is none",
        ),
        (
            "none",
            "skip",
            5 * 3600 + 301,
            (),
            (),
            "nothing could start 6 occurrences in time, from 2026-11-22T12:00:00Z on; catch_up is none",
        ),
        ("none", "skip", 301, (), (), "nothing could start it in time; catch_up is none"),
        ("none", "skip", 300, hours(0), (), ""),
        (
            "latest",
            "skip",
            5 * 3600 + 301,
            hours(5),
            (),
            "nothing could start 5 occurrences in time, from 2026-11-22T12:00:00Z on; a later one is started",
        ),
        (
            "latest",
            "skip",
            5 * 3600 + 60,
            hours(5),
            (),
            "nothing could start 5 occurrences in time, from 2026-11-22T12:00:00Z on; a later occurrence is on time",
        ),
        ("all", "queue", 3 * 3600 + 60, hours(0), hours(1, 2, 3), ""),
        ("all", "allow", 3 * 3600 + 400, hours(0, 1, 2, 3), (), ""),
    ],
)
def test_catch_up_decides_which_late_occurrences_start_wait_or_are_missed(
    catch_up: CatchUp, overlap: Overlap, late_s: int, starting: tuple[int, ...], waiting: tuple[int, ...], missed: str
) -> None:
    decided = decide(hourly(overlap, catch_up), KEY, RUNNING, NOON + late_s * SECOND, alive=False)
    assert (decided.state.starting, decided.state.waiting) == (starting, waiting)
    assert [one.reason for one in decided.skipped if one.missed] == ([missed] if missed else [])


def test_a_year_that_was_missed_is_made_up_for_as_far_as_is_sensible() -> None:
    minutely = Schedule("* * * * *", overlap="queue", catch_up="all")
    now = NOON + 365 * 24 * HOUR
    decided = decide(minutely, KEY, ScheduleState(NOON), now, alive=False)
    taken = (*decided.state.starting, *decided.state.waiting)
    assert len(decided.state.starting) == 1
    assert len(decided.state.waiting) == MOST_WAITING
    assert taken[0] > now - (MOST_CAUGHT_UP + 10) * 60 * SECOND
    assert decided.skipped[0].reason.startswith(
        "nothing could start more than 1,000 occurrences in time, from 2026-11-22T12:00:00Z"
    )
    assert all(one.reason == "1,000 wait before it" for one in decided.skipped[1:])


def test_occurrences_that_may_overlap_start_some_at_a_time() -> None:
    state = decide(hourly("allow", "all"), KEY, RUNNING, NOON + 50 * HOUR, alive=True).state
    assert state.starting == hours(*range(MOST_AT_ONCE))
    assert due_at(hourly("allow"), KEY, replace(state, starting=()), NOON) == NOON


def test_a_later_occurrence_replaces_waiting_ones_with_one_cancel_request() -> None:
    first = decide(hourly("cancel"), KEY, RUNNING, NOON, alive=True)
    again = decide(hourly("cancel"), KEY, first.state, NOON + 5 * SECOND, alive=True)
    assert (first.cancel, again.cancel) == ("17", None)
    later = decide(hourly("cancel"), KEY, again.state, NOON + HOUR, alive=True)
    assert (later.state.waiting, later.cancel) == (hours(1), None)
    assert [one.occurrence for one in later.skipped] == [NOON]
    over = decide(hourly("cancel"), KEY, later.state, NOON + HOUR + SECOND, alive=False)
    assert over.state.starting == hours(1)
    assert has_started(over.state, NOON + HOUR, "18").cancelled is None


def test_nothing_is_decided_before_its_time_and_jitter_moves_it() -> None:
    for schedule in (hourly(), hourly(jitter=1800)):
        due = due_at(schedule, KEY, RUNNING, NOON - HOUR)
        assert due is not None
        assert NOON <= due < NOON + 1800 * SECOND
        assert decide(schedule, KEY, RUNNING, due - 1, alive=False).state == RUNNING
        assert decide(schedule, KEY, RUNNING, due, alive=False).state.starting == hours(0)


def test_a_schedule_that_never_comes_again_is_never_due() -> None:
    assert due_at(hourly(), KEY, ScheduleState(), NOON) is None
    assert due_at(hourly(), KEY, ScheduleState(starting=hours(0)), NOON) == NOON


def test_another_version_with_the_same_times_goes_on_and_with_others_begins_now() -> None:
    kept = installed(hourly("queue"), hourly(), RUNNING, NOON + 9 * HOUR)
    assert kept == RUNNING
    moved = installed(Schedule("30 * * * *"), hourly(), RUNNING, NOON + HOUR)
    assert moved == replace(RUNNING, next_at=NOON + HOUR + HOUR // 2)
    assert installed(hourly(), None, ScheduleState(), NOON).next_at == NOON + HOUR


def test_occurrences_missed_while_switched_off_are_not_caught_up() -> None:
    on = switched_on(hourly(), replace(RUNNING, stopped="why"), NOON + 9 * HOUR)
    assert (on.next_at, on.stopped) == (NOON + 10 * HOUR, None)


def test_a_state_is_stored_and_read_back() -> None:
    state = ScheduleState(NOON, hours(1, 2), hours(3), NOON, "17", "16", "why")
    assert ScheduleState.read(json.loads(json.dumps(state.plain()))) == state
    assert ScheduleState.read({}) == ScheduleState()
    assert ScheduleState().plain() == {}
    assert schedule_of({"cron": "0 * * * *", "every_s": None, "overlap": "skip"}) == hourly()
    assert name_of(NOON) == "2026-11-22T12:00:00Z"
