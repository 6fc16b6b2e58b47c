"""The ports in memory with the limits of the services: write units a second for each partition, and the duration of each call.

A refused call is retried like in botocore (standard mode, five attempts, in virtual time) and then fails like the adapters' calls,
with `Unavailable`, translated from DynamoDB's own error by the adapters' function. Burst capacity, which DynamoDB does not
guarantee, is left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random
from typing import Any, overload

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import errors_of
from noetl_core.adapters.aws.events import partition
from noetl_core.engine.heads import Head
from noetl_core.engine.records import Commit, StreamId
from noetl_core.log.codec import decode_events, encode_events
from noetl_core.observe.cost import CONTROL_HEADER, RUN_HEADER
from noetl_core.ports import Conflict, CorruptLog, Due
from tests.sim.catalog import SimIndex
from tests.sim.ports import SECOND, Faults, SimClock, SimGates, SimResults, SimStore

ATTEMPTS = 5
"""Attempts of a call, as configured in `adapters.aws.clients`."""
LONGEST_PAUSE_S = 20
WRITE_S, READ_S, SEND_S, OBJECT_S = 0.005, 0.003, 0.006, 0.020
"""The duration of a call without refusals. Assumed."""
SMALL_BODY = 2_048


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the services, and the size of the stack."""

    partition_writes: int = 1_000
    log_partitions: int = 32
    """Partitions of the log at the beginning."""
    split_after_s: int = 10
    """Seconds in which a partition refuses writes before DynamoDB splits it. AWS publishes no figure."""
    index_partitions: int = 64
    api_rate: int = 10_000
    api_burst: int = 5_000
    concurrency: int = 1_000
    ramp_per_10s: int = 1_000
    pollers_at_first: int = 5
    pollers_per_minute: int = 300
    worker_concurrency: int = 1_000
    in_flight: int = 120_000
    stream_batch: int = 100
    stream_parallel: int = 10

    def share(self, share: float) -> Limits:
        """Return the limits of a smaller stack: fewer partitions, pollers and invocations. The capacity of a partition is unchanged."""

        def part(value: int, least: int = 1) -> int:
            return max(least, round(value * share))

        return Limits(
            partition_writes=self.partition_writes,
            split_after_s=self.split_after_s,
            stream_batch=self.stream_batch,
            stream_parallel=self.stream_parallel,
            log_partitions=part(self.log_partitions),
            index_partitions=part(self.index_partitions),
            api_rate=part(self.api_rate),
            api_burst=part(self.api_burst),
            concurrency=part(self.concurrency, 4),
            ramp_per_10s=part(self.ramp_per_10s, 10),
            pollers_at_first=part(self.pollers_at_first, 2),
            pollers_per_minute=part(self.pollers_per_minute, 6),
            worker_concurrency=part(self.worker_concurrency, 2),
            in_flight=part(self.in_flight, 10),
        )


@dataclass
class Throughput:
    """Used write units by partition and second; `refused` counts refused writes by kind of partition."""

    clock: SimClock
    per_s: int
    random: Random
    taken: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    refused: Counter[str] = field(default_factory=Counter)
    gave_up: int = 0
    """Calls that failed after all attempts."""
    on_refusal: Callable[[str, int], None] | None = None

    def take(self, what: str, units: Mapping[str, int], place_of: Callable[[str], str] = str) -> None:
        """Use `units` of each key's partition, retrying after refusals. Raises `Unavailable`."""
        for attempt in range(ATTEMPTS):
            if attempt:
                self.clock.sleep(self.random.random() * min(LONGEST_PAUSE_S, 2 ** (attempt - 1)))
            if self._fits({place_of(key): number for key, number in units.items()}):
                return
        self.gave_up += 1
        with errors_of(what):
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "KeyRangeThroughputExceeded"}}, "PutItem")

    def _fits(self, units: Mapping[str, int]) -> bool:
        second = self.clock.time // SECOND
        taken = self.taken[second]
        full = [place for place, number in units.items() if taken[place] + number > max(self.per_s, number)]
        for place in full:
            self.refused[place.rpartition("#")[0] or place] += 1
            if self.on_refusal is not None:
                self.on_refusal(place, second)
        if not full:
            taken.update(units)
        return not full

    def forget(self, before_s: int) -> None:
        """Drop counts of past seconds, which no write can reach any more."""
        for second in [s for s in self.taken if s < before_s]:
            del self.taken[second]


@dataclass
class Partitions:
    """The log's partitions: ranges of hashed keys, each of which is split when it has refused writes for too long."""

    number: int
    split_after_s: int
    on_split: Callable[[int, int, int], None]
    bounds: list[float] = field(default_factory=list)
    names: list[int] = field(default_factory=list)
    hot: Counter[int] = field(default_factory=Counter)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.bounds = [n / self.number for n in range(self.number)]
        self.names = list(range(self.number))
        self._next = self.number

    def of(self, key: str) -> int:
        """Return the partition of a key."""
        at = int.from_bytes(blake2b(key.encode(), digest_size=6).digest(), "big") / 2**48
        return self.names[bisect_right(self.bounds, at) - 1]

    def refused(self, name: int, second: int) -> None:
        """Record a refused write; split the partition after enough seconds with refusals."""
        if name not in self.names or (name, second) in self._seen:
            return
        self._seen.add((name, second))
        self.hot[name] += 1
        if self.hot[name] >= self.split_after_s:
            place = self.names.index(name)
            end = self.bounds[place + 1] if place + 1 < len(self.bounds) else 1.0
            left, right, self._next = self._next, self._next + 1, self._next + 2
            self.bounds.insert(place + 1, (self.bounds[place] + end) / 2)
            self.names[place : place + 1] = [left, right]
            self.on_split(name, left, right)


class PackedCommits(Sequence[Commit]):
    """Commits of a stream. Large ones are kept encoded, because the objects of a million iterations would not fit into memory."""

    def __init__(self) -> None:
        self._held: list[tuple[Commit, bytes | None]] = []

    def append(self, commit: Commit, body: bytes) -> None:
        small = len(body) < SMALL_BODY
        self._held.append((commit, None) if small else (replace(commit, events=()), body))

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, place: int) -> Commit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Commit]: ...
    def __getitem__(self, place: int | slice) -> Commit | list[Commit]:
        if isinstance(place, slice):
            return [self._unpacked(*one) for one in self._held[place]]
        return self._unpacked(*self._held[place])

    @staticmethod
    def _unpacked(commit: Commit, body: bytes | None) -> Commit:
        return commit if body is None else replace(commit, events=decode_events(body, commit.v))


@dataclass
class LimitedStore(SimStore):
    """The partitioned log."""

    streams: dict[StreamId, Any] = field(default_factory=dict)
    throughput: Throughput = field(kw_only=True)
    partitions: Partitions = field(kw_only=True)
    on_written: Callable[[Commit, str], None] = field(kw_only=True)
    runs: dict[str, list[StreamId]] = field(default_factory=lambda: defaultdict(list))
    units: int = 0

    def _append(self, commit: Commit) -> None:
        body = encode_events(commit.events, compress=True)
        key = partition(commit.stream)
        header = CONTROL_HEADER if commit.stream.run_id is None else RUN_HEADER
        units = -(-(len(body) + header) // 1024)
        self.throughput.clock.sleep(WRITE_S)
        self.throughput.take(f"append {commit.stream}", {key: units}, lambda k: f"log#{self.partitions.of(k)}")
        held = self.streams.get(commit.stream)
        if held is None:
            held = self.streams[commit.stream] = PackedCommits()
            self.runs[commit.stream.execution_id].append(commit.stream)
        if commit.seq < len(held):
            if held[commit.seq].writer == commit.writer:
                return
            raise Conflict(f"{commit.stream} {commit.seq} is taken", held[commit.seq])
        if commit.seq > len(held):
            raise CorruptLog(f"{commit.stream}: position {commit.seq} would leave a gap")
        held.append(commit, body)
        self.units += units
        if commit.wake:
            self.on_written(commit, key)

    def _seen(self, stream: StreamId, commits: list[Commit]) -> list[Commit]:
        self.throughput.clock.sleep(READ_S)
        return commits

    def forget(self, execution_id: str) -> None:
        """Drop an execution that has ended and was checked."""
        for stream in self.runs.pop(execution_id, ()):
            del self.streams[stream]
        self.snapshots.pop(execution_id, None)


@dataclass
class LimitedIndex(SimIndex):
    """Heads and due items on the partition keys of the catalog and its indexes (docs/scaling.md)."""

    throughput: Throughput = field(kw_only=True)
    partitions: int = field(kw_only=True)

    def _take(self, what: str, units: Mapping[str, int]) -> None:
        self.throughput.clock.sleep(WRITE_S)
        self.throughput.take(what, units)

    def put_head(self, head: Head) -> None:
        old = self.all_heads.get(head.execution_id)
        key = int(head.execution_id) % self.partitions
        units = {f"running#{key}" if head.status == "running" else f"ended#{key}": 1, f"path#{key}": 1}
        if old is not None and old.status != head.status:
            units |= {f"running#{key}": 1, f"path#{key}": 2}
        self._take("catalog write", units)
        super().put_head(head)

    def set_due(self, execution_id: str, at: int, seen: int | None = None) -> None:
        self._due(execution_id, 3 if execution_id in self.due_at else 2)
        super().set_due(execution_id, at, seen)

    def claim_due(self, due: Due, at: int) -> int | None:
        self._due(due.execution_id, 3)
        return super().claim_due(due, at)

    def clear_due(self, execution_id: str) -> None:
        self._due(execution_id, 2 if execution_id in self.due_at else 1)
        super().clear_due(execution_id)

    def _due(self, execution_id: str, units: int) -> None:
        self._take("catalog write", {f"due#{int(execution_id) % self.partitions}": units})


@dataclass
class TimedResults(SimResults):
    """Results whose calls take time, and that are dropped with their execution."""

    clock: SimClock = field(default_factory=SimClock)

    def put(self, key: str, body: bytes, content_type: str = "application/json") -> Mapping[str, Any]:
        self.clock.sleep(OBJECT_S)
        return super().put(key, body, content_type)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        self.clock.sleep(OBJECT_S)
        return super().get(key, start, end)


@dataclass
class TimedGates(SimGates):
    clock: SimClock = field(default_factory=SimClock)

    def gate(self, execution_id: str) -> Any:
        self.clock.sleep(READ_S)
        return super().gate(execution_id)


def quiet() -> Faults:
    """Return faults that never happen, so that only limits apply."""
    return Faults(quiet=True)
