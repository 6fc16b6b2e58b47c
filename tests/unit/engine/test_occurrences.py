"""Occurrences of schedules: times of day and real time, clock changes, leap days; the same from every starting point."""

from __future__ import annotations

from itertools import islice, pairwise, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.dsl.model import Schedule
from noetl_core.engine.schedules.occurrences import (
    earlier_occurrences,
    name_of,
    next_occurrence,
    occurrences,
    previous_occurrence,
    spread,
)
from tests.properties import examples
from tests.unit.engine.times import SECOND, at

DAY = 86_400 * SECOND


def names(schedule: Schedule, after: str, count: int) -> list[str]:
    return [name_of(one) for one in islice(occurrences(schedule, at(after)), count)]


@pytest.mark.parametrize(
    ("cron", "zone", "after", "found"),
    [
        pytest.param("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:30"], id="left out"),
        pytest.param(
            "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30"], id="shown twice"
        ),
        pytest.param(
            "*/30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00",
            ["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-26T01:00"],
            id="real time, shown twice",
        ),
        pytest.param("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-30T00:00"], id="real time, left out"),
        pytest.param("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T16:00", ["2026-10-03T15:30"], id="half an hour left out"),
        pytest.param(
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-03T16:00",
            ["2026-04-04T14:45", "2026-04-05T15:15"],
            id="half an hour twice",
        ),
        pytest.param(
            "30 2 * * *", "America/New_York", "2026-03-07T12:00", ["2026-03-08T07:00", "2026-03-09T06:30"], id="in the west"
        ),
        pytest.param(
            "30 2 * * *", "Pacific/Auckland", "2026-09-25T15:00", ["2026-09-26T14:00", "2026-09-27T13:30"], id="in the south"
        ),
        pytest.param("0 0 * * *", "Africa/Cairo", "2026-04-23T00:00", ["2026-04-23T22:00", "2026-04-24T21:00"], id="no midnight"),
        pytest.param("*/30 0 * * 5", "Africa/Cairo", "2026-04-22T10:00", ["2026-04-30T21:00"], id="an hour that no clock showed"),
        pytest.param(
            "15,45 2 * * *", "Antarctica/Troll", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:15"], id="two hours"
        ),
        pytest.param("0 0 29 2 *", "UTC", "2026-01-01T00:00", ["2028-02-29T00:00", "2032-02-29T00:00"], id="leap day"),
        pytest.param("0 0 29 2 *", "UTC", "2096-03-01T00:00", ["2104-02-29T00:00"], id="2100 has none"),
        pytest.param("0 12 L * *", "UTC", "2028-02-01T00:00", ["2028-02-29T12:00", "2028-03-31T12:00"], id="last day"),
        pytest.param("0 0 1 1 1", "UTC", "2026-01-01T00:00", ["2026-01-05T00:00"], id="either day, as cron has it"),
    ],
)
def test_occurrences_follow_clock_changes_and_leap_days(cron: str, zone: str, after: str, found: list[str]) -> None:
    assert names(Schedule(cron, timezone=zone), after, len(found)) == [f"{one}:00Z" for one in found]


def test_a_rate_counts_from_1970_on() -> None:
    assert names(Schedule(every_s=300), "2026-11-22T10:02", 2) == ["2026-11-22T10:05:00Z", "2026-11-22T10:10:00Z"]
    assert names(Schedule(every_s=7 * 86_400), "2026-11-22T10:02", 1) == ["2026-11-26T00:00:00Z"]
    assert previous_occurrence(Schedule(every_s=300), 0) is None


CRONS = [
    "30 2 * * *",
    "0,30 1-3 * * *",
    "*/7 * * * *",
    "15 */2 * * 1-5",
    "59 23 L * *",
    "5 0 * * SUN",
    "*/20 1-2 * * *",
    "0 0 29 2 *",
]
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Cairo", "Antarctica/Troll", "Asia/Kathmandu"]


@examples(150)
@given(st.sampled_from(CRONS), st.sampled_from(ZONES), st.integers(at("2025-01-01T00:00"), at("2028-12-31T00:00")))
def test_occurrences_are_the_same_from_any_starting_point(cron: str, zone: str, begin: int) -> None:
    """Counted forward from an instant, from each occurrence, and backward."""
    schedule = Schedule(cron, timezone=zone)
    found = list(islice(occurrences(schedule, begin), 8))
    assert found == sorted(set(found))
    assert found[0] > begin
    for one, following in pairwise(found):
        assert next_occurrence(schedule, one) == following
        assert next_occurrence(schedule, following - 1) == following
        assert previous_occurrence(schedule, following) == one
    back = list(takewhile(lambda one: one > begin, earlier_occurrences(schedule, found[-1] + 1)))
    assert back == found[::-1]


def test_starts_are_spread_and_the_same_each_time() -> None:
    schedule = Schedule("0 2 * * *", jitter_s=600)
    drawn = [spread(schedule, "trigger:a:b", number * DAY) for number in range(500)]
    assert drawn == [spread(schedule, "trigger:a:b", number * DAY) for number in range(500)]
    assert 0 <= min(drawn) < 30 * SECOND
    assert 570 * SECOND < max(drawn) < 600 * SECOND
    assert drawn[0] != spread(schedule, "trigger:a:c", 0)
    assert spread(Schedule("0 2 * * *"), "trigger:a:b", DAY) == 0
