"""The limits that executions share: rates, and places for a bounded number of concurrent holders; and the rates of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from noetl_core.values.frozen import frozen


@frozen
class RateInUse:
    """A rate in a list: nothing is reserved from `free_at` on (microseconds); `interval` is that of its latest user."""

    key: str
    free_at: int
    interval: int


class RateLimits(Protocol):
    """The permits that tasks reserve, one sequence for each key."""

    def reserve(self, key: str, interval: int, count: int, now: int) -> int:
        """Reserve `count` permits, each `interval` microseconds long. Return when the first begins: at the end of the previous
        reservations, or at `now` if that is later. Not idempotent: a repeated call reserves more."""
        ...

    def rates(self, now: int) -> Sequence[RateInUse]:
        """Return the recently used rates, by key."""
        ...


class RequestRates(Protocol):
    """The rates of requests, one for each key. A request over its rate is refused and uses nothing."""

    def take(self, key: str, interval: int, burst: int, now: int) -> int:
        """Take a permit for a request at `now`, and return 0. Permits are `interval` microseconds apart, `burst` of them are
        kept for requests that come at once. If none is left, return the microseconds until there is one."""
        ...


@frozen
class LimitRecord:
    """The holders of places in a limit, and since when (microseconds). `most` is the number that the latest requester allows.

    `waiting`: there may be waiters, so a released place goes to the next. `revision` changes with every write; 0: there
    is no record. `displaced` are holders and waiters that must leave, each with the holder that displaced it.
    """

    key: str
    holders: Mapping[str, int] = field(default_factory=dict)
    most: int = 0
    waiting: bool = False
    revision: int = 0
    displaced: Mapping[str, str] = field(default_factory=dict)


@frozen
class LimitWaiter:
    """A waiter for a place in a limit. `place` sorts waiters; `most` is how many may hold one when it gets its own. `cancels` is
    the holder that was displaced for it."""

    holder: str
    place: str
    most: int
    cancels: str | None = None


class LimitStore(Protocol):
    """The records of limits, written with optimistic concurrency. Reads are strongly consistent."""

    def read(self, key: str) -> LimitRecord: ...

    def write(self, record: LimitRecord, now: int) -> bool:
        """Write a record if the stored one has its revision; return whether it was written. A record without holders may be
        deleted."""
        ...

    def records(self, now: int) -> Sequence[LimitRecord]:
        """Return the limits in use, by key."""
        ...


class LimitQueue(Protocol):
    """The waiters for places in limits, by key. Reads are strongly consistent."""

    def enqueue(self, key: str, waiter: LimitWaiter) -> None:
        """Add a waiter, or replace the one with the same `place`."""
        ...

    def replace(self, key: str, waiter: LimitWaiter) -> bool:
        """Replace the waiter with the same `place`; return whether it was still there. One that has left does not come back."""
        ...

    def dequeue(self, key: str, place: str) -> None: ...

    def waiters(self, key: str, limit: int) -> Sequence[LimitWaiter]:
        """Return at most `limit` waiters, the first ones."""
        ...


class LimitPlaces(LimitStore, LimitQueue, Protocol):
    """Places in limits: their holders and waiters."""
