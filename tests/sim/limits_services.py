"""Lambda, SQS and the stream of the log in virtual time, with their limits. This module is independent of the engine: handlers are
passed in.

An invocation is carried out in one go, in a virtual time of its own that begins at its start; others see its messages and writes at
the instants at which it made them.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import count

from noetl_core.engine.records import Command, Commit
from tests.sim.limited_ports import Limits
from tests.sim.ports import MAX_RECEIVES, SECOND, SimClock

COLD_S = 0.65
"""The cold start of a new environment (seconds)."""
POLL_S = 0.25
"""Lambda polls an idle shard four times a second."""
AGAIN_S = 1.0
"""Seconds after which Lambda retries a throttled invocation."""


@dataclass
class Timeline:
    """Scheduled calls, in the order of their instants."""

    clock: SimClock
    _coming: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def at(self, instant: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._coming, (instant, next(self._numbers), call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.clock.time + int(seconds * SECOND), call)

    def run(self, until: int, over: Callable[[], bool]) -> None:
        """Make the calls until `over()`, at the latest until `until`."""
        while self._coming and not over():
            instant, _, call = heapq.heappop(self._coming)
            if instant > until:
                return
            self.clock.time = instant
            call()


@dataclass
class Account:
    """The concurrent invocations of all functions."""

    limits: Limits
    running: int = 0


@dataclass
class Function:
    """The environments of one function: limited by the account, and by a number of new environments in ten seconds."""

    timeline: Timeline
    account: Account
    running: int = 0
    idle: int = 0
    throttled: int = 0
    invocations: int = 0
    most: int = 0
    _new: deque[int] = field(default_factory=deque)

    def invoke(self, work: Callable[[], None], then: Callable[[], None]) -> bool:
        """Carry out `work` in an environment, and `then` at its end; return False if Lambda throttles it."""
        clock, limits = self.timeline.clock, self.account.limits
        began = clock.time
        while self._new and self._new[0] <= began - 10 * SECOND:
            self._new.popleft()
        cold = self.idle == 0
        if self.account.running >= limits.concurrency or (cold and len(self._new) >= limits.ramp_per_10s):
            self.throttled += 1
            return False
        if cold:
            self._new.append(began)
            clock.sleep(COLD_S)
        else:
            self.idle -= 1
        self.running += 1
        self.account.running += 1
        self.most = max(self.most, self.running)
        self.invocations += 1
        work()
        self.timeline.at(clock.time, lambda: self._end(then))
        clock.time = began
        return True

    def _end(self, then: Callable[[], None]) -> None:
        self.running -= 1
        self.account.running -= 1
        self.idle += 1
        then()


@dataclass
class Queued:
    """A message: a command, or the wake of an execution."""

    execution_id: str
    command: Command | None
    sent_at: int
    receives: int = 0


@dataclass
class Queue:
    """A standard queue and its Lambda pollers. `handle` takes a message, and raises to return it to the queue."""

    timeline: Timeline
    function: Function
    handle: Callable[[Queued], None]
    failures: tuple[type[BaseException], ...]
    batch: int
    pollers_at_most: int
    again_s: float
    on_gone: Callable[[Queued], None] = lambda message: None
    ready: deque[Queued] = field(default_factory=deque)
    in_flight: int = 0
    most_in_flight: int = 0
    letters: list[Queued] = field(default_factory=list)
    handed_back: int = 0
    _batches: int = 0
    _busy_since: int | None = None
    _waits: bool = False

    def send(self, message: Queued, delay_s: float = 0) -> None:
        self.timeline.after(delay_s, lambda: self._arrive(message))

    def _arrive(self, message: Queued) -> None:
        self.ready.append(message)
        self.poll()

    @property
    def pollers(self) -> int:
        """Return how many batches Lambda currently takes concurrently."""
        limits = self.function.account.limits
        if self._busy_since is None:
            return limits.pollers_at_first
        grown = (self.timeline.clock.time - self._busy_since) / SECOND / 60 * limits.pollers_per_minute
        return min(self.pollers_at_most, limits.pollers_at_first + int(grown))

    def poll(self) -> None:
        limits = self.function.account.limits
        while self.ready and self.in_flight < limits.in_flight:
            if self._busy_since is None:
                self._busy_since = self.timeline.clock.time
            if self._batches >= self.pollers or not self._invoke():
                self._later()
                return
        if not self.ready and not self._batches:
            self._busy_since = None

    def _later(self) -> None:
        """Poll again later, when there are more pollers, or after a throttled invocation."""
        if not self._waits:
            self._waits = True
            self.timeline.after(AGAIN_S / 5, self._again)

    def _again(self) -> None:
        self._waits = False
        self.poll()

    def _invoke(self) -> bool:
        taken = [self.ready.popleft() for _ in range(min(self.batch, len(self.ready)))]
        failed: list[Queued] = []
        if not self.function.invoke(lambda: self._work(taken, failed), lambda: self._end(taken, failed)):
            self.ready.extendleft(reversed(taken))
            return False
        self._batches += 1
        self.in_flight += len(taken)
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        return True

    def _work(self, taken: Sequence[Queued], failed: list[Queued]) -> None:
        for message in taken:
            message.receives += 1
            try:
                self.handle(message)
            except self.failures:
                failed.append(message)

    def _end(self, taken: Sequence[Queued], failed: Sequence[Queued]) -> None:
        self._batches -= 1
        self.in_flight -= len(taken)
        for message in taken:
            if message not in failed:
                self.on_gone(message)
            elif message.receives >= MAX_RECEIVES:
                self.letters.append(message)
            else:
                self.handed_back += 1
                self.timeline.after(self.again_s, partial(self._arrive, message))
        self.poll()


@dataclass
class Record:
    """A commit in the stream."""

    commit: Commit
    key: str
    at: int


@dataclass
class _Lane:
    """One of the parallel batches of a shard: always the same keys, one batch after the other."""

    records: deque[Record] = field(default_factory=deque)
    busy: bool = False


@dataclass
class _Shard:
    lanes: list[_Lane]
    parent: _Shard | None = None

    @property
    def drained(self) -> bool:
        return not any(lane.records or lane.busy for lane in self.lanes) and (self.parent is None or self.parent.drained)


@dataclass
class Stream:
    """The log's stream: a shard for each partition, ordered within a key; a split shard is read to its end before its children.

    `route` takes a batch. `lags` has, for each second, the longest time between a commit and the end of its routing.
    """

    timeline: Timeline
    function: Function
    route: Callable[[Sequence[Record]], None]
    lags: dict[int, float] = field(default_factory=dict)
    waiting: int = 0
    splits: int = 0
    _shards: dict[int, _Shard] = field(default_factory=dict)
    _last: dict[str, int] = field(default_factory=dict)
    disorder: Counter[str] = field(default_factory=Counter)

    def shard(self, partition: int) -> _Shard:
        """Return the shard of a partition."""
        if partition not in self._shards:
            lanes = self.function.account.limits.stream_parallel
            self._shards[partition] = _Shard([_Lane() for _ in range(lanes)])
        return self._shards[partition]

    def split(self, parent: int, left: int, right: int) -> None:
        """Split the shard of a split partition."""
        self.splits += 1
        for child in (left, right):
            self.shard(child).parent = self.shard(parent)

    def put(self, commit: Commit, key: str, partition: int) -> None:
        """Add a commit that wakes the router, at the time of its writer."""
        shard = self.shard(partition)
        lane = shard.lanes[blake2b(key.encode(), digest_size=1).digest()[0] % len(shard.lanes)]
        record = Record(commit, key, self.timeline.clock.time)
        self.waiting += 1
        self.timeline.after(POLL_S / 2, lambda: self._arrive(shard, lane, record))

    def _arrive(self, shard: _Shard, lane: _Lane, record: Record) -> None:
        lane.records.append(record)
        self._poll(shard, lane)

    def _poll(self, shard: _Shard, lane: _Lane) -> None:
        if lane.busy or not lane.records:
            return
        batch = [lane.records[n] for n in range(min(len(lane.records), self.function.account.limits.stream_batch))]
        blocked = shard.parent is not None and not shard.parent.drained
        if blocked or not self.function.invoke(lambda: self._work(batch), lambda: self._end(shard, lane)):
            lane.busy = True
            self.timeline.after(POLL_S if blocked else AGAIN_S, lambda: self._free(shard, lane))
            return
        lane.busy = True
        for _ in batch:
            lane.records.popleft()

    def _work(self, batch: Sequence[Record]) -> None:
        self.route(batch)
        now = self.timeline.clock.time
        self.waiting -= len(batch)
        longest = max(now - record.at for record in batch) / SECOND
        self.lags[now // SECOND] = max(longest, self.lags.get(now // SECOND, 0.0))
        for record in batch:
            if record.at < self._last.get(record.key, 0):
                self.disorder[record.key] += 1
            self._last[record.key] = record.at

    def _end(self, shard: _Shard, lane: _Lane) -> None:
        self._free(shard, lane)

    def _free(self, shard: _Shard, lane: _Lane) -> None:
        lane.busy = False
        self._poll(shard, lane)

    def forget(self, key: str) -> None:
        """Drop a key that is no longer written."""
        self._last.pop(key, None)
