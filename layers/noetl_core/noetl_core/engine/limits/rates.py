"""Rates: compute when tasks that share one may begin (docs/limits.md), and which requests are accepted. Pure.

This is GCRA (the generic cell rate algorithm): a rate is one instant, from which on nothing is reserved. Each permit moves it on
by an interval; with a burst, permits may be used before their place in that row, by as many intervals. A worker reserves some
permits by one request, and uses each at its own instant.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND

USED: Final = 0.95
"""The part of the rate that is granted: a permit that is used late comes closer to the next one, and the service must never
receive more calls per second than promised."""
RESERVED_S: Final = 2
"""The most seconds' worth of permits that a worker reserves at a time. If it dies, they remain unused."""
LATE_S: Final = 0.05
"""Seconds by which a permit may be used late, in addition to `LATE_PART` of an interval. Together with `USED`, no second exceeds
the rate and the burst, and some time is left for the way to the service."""
LATE_PART: Final = 0.75
FORGOTTEN_S: Final = 24 * 3600
"""Seconds for which an unused rate is kept."""


REQUESTS_AT_ONCE_S: Final = 2
"""Requests that may come at once, as seconds of the rate."""


@frozen
class RequestPace:
    """A rate of requests, per second."""

    per_second: float

    @property
    def interval(self) -> int:
        """Microseconds between two permits."""
        return ceil(SECOND / self.per_second)

    @property
    def burst(self) -> int:
        """Maximum number of requests at once."""
        return max(1, ceil(self.per_second * REQUESTS_AT_ONCE_S))


def wait_for_permit(free_at: int, interval: int, burst: int, now: int) -> int:
    """Return the microseconds until a request may take a permit, 0 if it may now. Permits are taken until `free_at`."""
    return max(0, free_at - (burst - 1) * interval - now)


@frozen
class Pace:
    """A rate as its author gives it, per second."""

    per_second: float
    burst: int = 1

    @property
    def interval(self) -> int:
        """Microseconds between two permits."""
        return ceil(SECOND / (self.per_second * USED))

    @property
    def max_reservation(self) -> int:
        """The maximum number of permits that a worker reserves at a time."""
        return max(self.burst, int(self.per_second * RESERVED_S), 1)

    @property
    def late(self) -> int:
        """Microseconds after which a permit that was not used is lost."""
        return int((LATE_S + LATE_PART / self.per_second) * SECOND)

    def permits(self, free_at: int, now: int, count: int) -> list[int]:
        """Return when each of `count` permits may be used that were reserved at `now`; the row was free from `free_at` on."""
        first = free_at - (self.burst - 1) * self.interval
        return [max(now, first + n * self.interval) for n in range(count)]
