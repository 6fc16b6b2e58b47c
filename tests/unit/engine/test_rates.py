"""Permits of a rate: never more in a second than the rate and its burst, hardly less."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.engine.limits.keys import BadKey, limit_key
from noetl_core.engine.limits.rates import Pace
from noetl_core.expr import Secret
from noetl_core.values.instants import SECOND

NOW = 1_800_000_000 * SECOND
PACES = st.builds(Pace, st.floats(0.01, 5_000), st.integers(1, 50))


def reserved(pace: Pace, count: int, idle_s: float = 3600) -> list[int]:
    """Return the instants of permits that are all requested at once, after an idle time."""
    return pace.permits(NOW, NOW, count)


@given(PACES)
def test_a_second_has_no_more_than_the_rate_and_the_burst_however_late_they_are_used(pace: Pace) -> None:
    permits = reserved(pace, min(int(2 * pace.per_second) + pace.burst + 2, 12_000))
    window, first = SECOND + pace.late, 0
    for last, at in enumerate(permits):  # the earliest of a second as late as may be, the last of it in time
        while at - permits[first] >= window:
            first += 1
        assert last - first + 1 <= ceil(pace.per_second) + pace.burst


@given(PACES)
def test_over_a_long_time_it_is_within_six_per_cent_of_the_rate(pace: Pace) -> None:
    count = min(int(100 * pace.per_second) + 100, 20_000)
    permits = reserved(Pace(pace.per_second), count)
    took = (permits[-1] - permits[0]) / SECOND
    assert 0.94 * pace.per_second <= (count - 1) / took <= 0.951 * pace.per_second or pace.interval < 1_000


def test_a_burst_is_granted_at_once_and_later_permits_are_spaced() -> None:
    pace = Pace(10, 3)
    permits = [at - NOW for at in reserved(pace, 5)]
    assert permits == [0, 0, 0, pace.interval, 2 * pace.interval]


def test_new_permits_come_after_those_already_reserved() -> None:
    pace = Pace(10)
    assert pace.permits(NOW + 5 * SECOND, NOW, 2) == [NOW + 5 * SECOND, NOW + 5 * SECOND + pace.interval]


@pytest.mark.parametrize("value", [None, "", "  ", True, [], {}, ["a"], "x" * 201, "a\nb"])
def test_an_invalid_limit_key_is_refused(value: object) -> None:
    with pytest.raises(BadKey):
        limit_key(value, "key")


def test_a_secret_is_refused_as_a_limit_key() -> None:
    with pytest.raises(BadKey, match="reads a secret"):
        limit_key(Secret("hush"), "key")


def test_a_number_is_a_key() -> None:
    assert (limit_key(7, "key"), limit_key(" a ", "key")) == ("7", "a")
