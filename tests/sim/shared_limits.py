"""The ports of shared limits in memory: rates, and places in limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from noetl_core.engine.limits.rates import FORGOTTEN_S
from noetl_core.ports import LimitRecord, LimitWaiter, RateInUse
from tests.sim.ports import SECOND, Faults


@dataclass
class SimRates:
    faults: Faults
    held: dict[str, RateInUse] = field(default_factory=dict)
    reserved: list[tuple[str, int]] = field(default_factory=list)
    """The number of permits of each request."""

    def reserve(self, key: str, interval: int, count: int, now: int) -> int:
        return self.faults.around(lambda: self._reserve(key, interval, count, now))

    def _reserve(self, key: str, interval: int, count: int, now: int) -> int:
        self.reserved.append((key, count))
        known = self.held.get(key)
        begins = max(now, known.free_at if known is not None else 0)
        self.held[key] = RateInUse(key, begins + count * interval, interval)
        if self.faults.hits("lost answer", self.faults.lost_answer):
            return self._reserve(key, interval, count, now)
        return begins

    def rates(self, now: int) -> Sequence[RateInUse]:
        forgotten = now - FORGOTTEN_S * SECOND
        return self.faults.around(lambda: [self.held[key] for key in sorted(self.held) if self.held[key].free_at > forgotten])


@dataclass
class SimPlaces:
    """Places in limits, with faults at every call."""

    faults: Faults
    held: dict[str, LimitRecord] = field(default_factory=dict)
    queues: dict[str, dict[str, LimitWaiter]] = field(default_factory=dict)
    most_held: dict[str, int] = field(default_factory=dict)
    """The most concurrent holders, by key."""
    calls: int = 0

    def read(self, key: str) -> LimitRecord:
        self.calls += 1
        return self.faults.around(lambda: self.held.get(key, LimitRecord(key)))

    def write(self, record: LimitRecord, now: int) -> bool:
        self.calls += 1
        return self.faults.around(lambda: self._write(record))

    def _write(self, record: LimitRecord) -> bool:
        if self.held.get(record.key, LimitRecord(record.key)).revision != record.revision:
            return False
        self.held[record.key] = replace(record, revision=record.revision + 1)
        self.most_held[record.key] = max(self.most_held.get(record.key, 0), len(record.holders))
        if self.faults.hits("lost answer", self.faults.lost_answer):
            return self._write(record)
        return True

    def records(self, now: int) -> Sequence[LimitRecord]:
        kept = [self.held[key] for key in sorted(self.held)]
        return self.faults.around(lambda: [record for record in kept if record.holders or record.waiting])

    def enqueue(self, key: str, waiter: LimitWaiter) -> None:
        self.calls += 1
        self.faults.around(lambda: self.queues.setdefault(key, {}).__setitem__(waiter.place, waiter))

    def replace(self, key: str, waiter: LimitWaiter) -> bool:
        self.calls += 1
        return self.faults.around(lambda: self._replace(self.queues.get(key, {}), waiter))

    def _replace(self, line: dict[str, LimitWaiter], waiter: LimitWaiter) -> bool:
        if waiter.place in line:
            line[waiter.place] = waiter
            return True
        return False

    def dequeue(self, key: str, place: str) -> None:
        self.calls += 1
        self.faults.around(lambda: self.queues.get(key, {}).pop(place, None))

    def waiters(self, key: str, limit: int) -> Sequence[LimitWaiter]:
        self.calls += 1
        waiting = self.queues.get(key, {})
        return self.faults.around(lambda: [waiting[place] for place in sorted(waiting)][:limit])
