"""What a rate as the called service sees it is measured by."""

from __future__ import annotations

import pytest
from bench.rate import Asked, Seen

ASKED = Asked(executions=2, calls=6, per_second=5, burst=1)


def test_a_second_is_any_second() -> None:
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
def test_what_is_promised_and_not_kept_is_said(interval: float, different: int, misses: list[str]) -> None:
    found = Seen([n * interval for n in range(12)], different).misses(ASKED)
    assert len(found) == len(misses)
    assert all(said.startswith(begins) for said, begins in zip(found, misses, strict=True)), found
