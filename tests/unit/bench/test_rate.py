"""The measurement of a rate at the called service."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.rate import Asked, Seen

ASKED = Asked(executions=2, calls=6, per_second=5, burst=1)


def test_the_most_calls_in_a_second_count_any_sliding_second() -> None:
    assert Seen([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], 6).most_in_a_second == 5, "the last is a second after the first"
    assert Seen([0.0, 0.9, 0.95, 1.0, 1.05, 1.1, 1.9], 7).most_in_a_second == 5
    assert Seen([3.0, 3.0, 3.0], 3).most_in_a_second == 3


def test_the_rate_is_that_of_the_time_between_calls() -> None:
    assert Seen([10.0, 10.2, 10.4, 10.6, 10.8, 11.0], 6).per_second == pytest.approx(5)
    assert Seen([0.0, 0.5, 2.0], 3).longest_gap == 1.5


@pytest.mark.parametrize(
    ("interval", "different", "misses"),
    [
        (0.2, 12, []),
        (0.21, 12, []),
        (0.1, 12, ["10 calls within a second, and 6 are promised at most", "10.00 calls a second over all"]),
        (0.25, 12, ["4.00 calls a second over all, and 5 are promised within 10%"]),
        (0.2, 11, ["11 of 12 calls were made"]),
    ],
)
def test_a_rate_that_misses_its_target_is_reported(interval: float, different: int, misses: list[str]) -> None:
    found = Seen([n * interval for n in range(12)], different).misses(ASKED)
    assert len(found) == len(misses)
    assert all(message.startswith(begins) for message, begins in zip(found, misses, strict=True)), found


def test_processes_are_killed_evenly_over_the_time_that_the_calls_take() -> None:
    assert list(Asked(executions=2, calls=50, per_second=5, burst=1, kills=4).deaths()) == pytest.approx([4, 8, 12, 16])
    assert list(ASKED.deaths()) == []


def test_a_killed_process_may_cost_its_reserved_calls_but_no_lease() -> None:
    killed = Asked(executions=2, calls=50, per_second=5, burst=1, kills=2)
    calm = [n * 0.2 for n in range(100)]
    late = [at + 2 * (at > 6) + 2 * (at > 13) for at in calm]
    assert Seen(late, 100).misses(replace(killed, kills=0)), "it is too slow where nobody is killed"
    assert Seen(late, 100, deaths=2).misses(killed) == []
    assert Seen(late, 100, deaths=1).misses(killed) == ["1 of 2 processes were killed"]
    (slow,) = Seen([at + 8 * (at > 6) for at in calm], 100, deaths=2).misses(killed)
    assert slow.startswith("3.56 calls a second over all")
    told = Seen([at + 61 * (at > 6) for at in calm], 100, deaths=2).misses(killed)
    assert told[-1] == "nobody called for 61.20 s, and a lease is 60 s"
