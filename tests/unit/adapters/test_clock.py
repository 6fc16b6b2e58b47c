"""The clock of a local process: what passes counts, not what the machine's clock is set to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl_core.adapters.clock import SteadyClock

SECOND = 1_000_000
DAY = 86_400 * SECOND


class Machine:
    """A machine whose clock somebody sets."""

    def __init__(self) -> None:
        self.wall, self.up = 1_800_000_000 * SECOND, 5 * SECOND

    def passes(self, us: int) -> None:
        self.wall += us
        self.up += us

    def clock(self) -> SteadyClock:
        return SteadyClock(wall=lambda: self.wall, elapsed=lambda: self.up * 1000)


@pytest.mark.parametrize("jump", [DAY, -DAY], ids=["forwards", "back"])
def test_a_clock_that_is_set_changes_nothing_for_a_process_that_runs(jump: int) -> None:
    machine = Machine()
    clock = machine.clock()
    began = clock.now()
    machine.passes(2 * SECOND)
    machine.wall += jump
    machine.passes(3 * SECOND)
    assert clock.now() - began == 5 * SECOND


def test_a_new_process_believes_the_machine() -> None:
    machine = Machine()
    machine.clock()
    machine.wall += DAY
    assert machine.clock().now() == machine.wall


def test_the_clock_is_never_before_a_time_seen_in_a_log() -> None:
    machine = Machine()
    clock = machine.clock()
    seen = machine.wall + DAY
    clock.not_before(seen)
    assert clock.now() == seen
    machine.passes(SECOND)
    clock.not_before(seen - DAY)
    assert clock.now() == seen + SECOND


def test_the_clock_agrees_with_the_system_time() -> None:
    from noetl_core.adapters.clock import SystemClock

    now: Callable[[], int] = SteadyClock().now
    assert abs(now() - SystemClock().now()) < 60 * SECOND
