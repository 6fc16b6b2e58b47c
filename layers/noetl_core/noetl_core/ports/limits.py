"""What executions share: rates, and places where only so many may be at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RateInUse:
    """A rate as lists show it: from `free_at` on (microseconds) nothing is reserved; `interval` is that of its last user."""

    key: str
    free_at: int
    interval: int


class RateLimits(Protocol):
    """The rows of permits that tasks reserve, by key."""

    def reserve(self, key: str, interval: int, count: int, now: int) -> int:
        """Reserve `count` permits, each `interval` microseconds long; return from when on: the instant from which nothing was
        reserved, or `now`, which is later. Repeated, it reserves more."""
        ...

    def rates(self, now: int) -> Sequence[RateInUse]:
        """Return the rates that were used of late, by key."""
        ...


@dataclass(frozen=True, slots=True)
class LimitRecord:
    """Who holds places in a limit, and since when (microseconds). `most` is how many the last one that asked would allow.

    `waiting` says that somebody may wait: whoever frees a place then gives it to the next. `revision` is another one for every
    write; 0 where there is no record.
    """

    key: str
    holders: Mapping[str, int] = field(default_factory=dict)
    most: int = 0
    waiting: bool = False
    revision: int = 0


@dataclass(frozen=True, slots=True)
class LimitWaiter:
    """Who waits for a place in a limit. `place` sorts those that wait; `most` is how many may hold one when it gets its own.
    `cancels` is the holder that was cancelled for it."""

    holder: str
    place: str
    most: int
    cancels: str | None = None


class LimitStore(Protocol):
    """The records of limits, each written under the condition that nobody has written it meanwhile. Reads are strongly
    consistent."""

    def read(self, key: str) -> LimitRecord: ...

    def write(self, record: LimitRecord, now: int) -> bool:
        """Write a record if the stored one has its revision; return whether it was written. One without holders may be
        forgotten."""
        ...

    def records(self, now: int) -> Sequence[LimitRecord]:
        """Return the limits in use, by key."""
        ...


class LimitQueue(Protocol):
    """Those that wait for places in limits, by key. Reads are strongly consistent."""

    def enqueue(self, key: str, waiter: LimitWaiter) -> None:
        """Add a waiter, or replace the one in its place."""
        ...

    def dequeue(self, key: str, place: str) -> None: ...

    def waiters(self, key: str, limit: int) -> Sequence[LimitWaiter]:
        """Return the first of those that wait, at most `limit`."""
        ...


class LimitPlaces(LimitStore, LimitQueue, Protocol):
    """Places in limits: who holds them, and who waits."""
