"""The occurrences of a schedule, as instants in microseconds.

A cron expression is read by the rules of Debian's cron (docs/triggers.md, "Time zones, and clocks that change"): a time of day
occurs once on each day, at the first moment after it if the clock skips it; expressions whose minute or hour begins with `*`
follow elapsed time. Occurrences do not depend on the beginning of the search, so their instants can be their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from noetl_core.dsl.model import Schedule
from noetl_core.values.instants import SECOND

LARGEST_SHIFT: Final = timedelta(hours=3)
"""More than any clock is moved at once."""
FARTHEST: Final = 253_402_300_799 * SECOND
"""The last second of the year 9999."""


def occurrences(schedule: Schedule, after: int) -> Iterator[int]:
    """Yield the occurrences later than `after`, in order."""
    if schedule.every_s is not None:
        every = schedule.every_s * SECOND
        at = (after // every + 1) * every
        while at <= FARTHEST:
            yield at
            at += every
        return
    last = after
    for at in _times(schedule, after, back=False):
        if at > last:
            last = at
            yield at


def next_occurrence(schedule: Schedule, after: int) -> int | None:
    """Return the first occurrence later than `after`; None if there are no more."""
    return next(occurrences(schedule, after), None)


def earlier_occurrences(schedule: Schedule, before: int) -> Iterator[int]:
    """Yield the occurrences earlier than `before`, the last one first."""
    if schedule.every_s is not None:
        every = schedule.every_s * SECOND
        yield from range((before - 1) // every * every, -1, -every)
        return
    last = before
    for at in _times(schedule, before, back=True):
        if at < last:
            last = at
            yield at


def previous_occurrence(schedule: Schedule, before: int) -> int | None:
    """Return the last occurrence earlier than `before`; None where there is none."""
    return next(earlier_occurrences(schedule, before), None)


def _times(schedule: Schedule, begin: int, *, back: bool) -> Iterator[int]:
    """Yield the occurrences of a cron expression, forward or backward from `begin`. Expressions with times of day begin somewhat
    earlier: when clocks change, local times are not in the order of instants."""
    from cronsim import CronSim  # 3 ms: needed only for schedules

    assert schedule.cron is not None
    zone = _zone(schedule.timezone)
    start = datetime.fromtimestamp(begin // SECOND, UTC)
    if zone is not UTC and not any(part.startswith("*") for part in schedule.cron.split()[:2]):
        start = start + LARGEST_SHIFT if back else start - LARGEST_SHIFT
    elif back:
        start += timedelta(seconds=1)
    for found in CronSim(schedule.cron, start.astimezone(zone), reverse=back):
        utc = found.astimezone(UTC)
        if utc.astimezone(zone).replace(tzinfo=None) == found.replace(tzinfo=None):  # otherwise no clock showed this time
            yield int(utc.timestamp()) * SECOND


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # 5 ms: needed only for schedules

    return ZoneInfo(name)


def spread(schedule: Schedule, key: str, occurrence: int) -> int:
    """Return the microseconds by which an occurrence starts later than its instant: the same after a crash. `key` is the
    trigger, so that triggers with the same times do not start together."""
    if not schedule.jitter_s:
        return 0
    drawn = int.from_bytes(blake2b(f"{key}:{occurrence}".encode(), digest_size=8).digest(), "big")
    return drawn * int(schedule.jitter_s * SECOND) >> 64


def name_of(occurrence: int) -> str:
    """Return the id of an occurrence: its instant in UTC, `2026-11-22T02:00:00Z`."""
    return datetime.fromtimestamp(occurrence // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
