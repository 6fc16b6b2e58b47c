"""The ports in memory, with a virtual clock and faults at every call (see `Faults`)."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Self, TypeVar

from noetl_core.adapters.keys import check_key
from noetl_core.engine.records import LOG_VERSION, Command, Commit, Snapshot, StreamId
from noetl_core.log.codec import decode_events, encode_events
from noetl_core.ports import (
    Backlog,
    Conflict,
    CorruptLog,
    Gate,
    NewerLog,
    NotFound,
    ObjectWriter,
    Unavailable,
    Waiting,
)

SECOND = 1_000_000
MAX_RECEIVES = 10
"""`maxReceiveCount` of the control queue. That of command queues is higher (`test_batches`)."""
T = TypeVar("T")


class Crash(BaseException):
    """The process dies here. Nothing may catch it."""


@dataclass
class SimClock:
    """A virtual clock in microseconds; sleeping advances it."""

    time: int = 1_800_000_000 * SECOND
    nonces: int = 0

    def now(self) -> int:
        self.time += 1
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += int(seconds * SECOND)

    def nonce(self) -> str:
        self.nonces += 1
        return f"n{self.nonces}"


ASK_FAULTS = ("refuse_ask", "lose_answer_of_ask", "late_ask", "freeze", "stream_first")


@dataclass
class Faults:
    """Probabilities of faults per port call; `crash_at` names single calls by ordinal (enumerated crash points)."""

    seed: int = 0
    crash: float = 0.0
    throttle: float = 0.0
    lost_answer: float = 0.0
    """A write is stored and its answer lost: the client retries with the same writer (as botocore does)."""
    duplicate: float = 0.0
    lose_record: float = 0.0
    delay: float = 0.0
    refuse_ask: float = 0.0
    lose_answer_of_ask: float = 0.0
    """An ask is carried out, and its answer lost."""
    late_ask: float = 0.0
    """An ask is carried out when its worker has given up."""
    freeze: float = 0.0
    """While an ask is carried out, at a port call: time passes, and others go on."""
    stream_first: float = 0.0
    """The stream delivers a boundary while the ask about it is on its way."""
    crash_at: int | None = None
    crash_after: bool = False
    calls: int = 0
    quiet: bool = False
    dies_at: int | None = None
    """The instant at which the current invocation times out and its process dies."""
    latency_s: float = 0.0
    """The duration of a call while `dies_at` is set."""
    clock: SimClock | None = None
    interlude: Callable[[], None] | None = None
    """The events in the rest of the world during a freeze; None: nothing freezes."""
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def fresh(self) -> Faults:
        """Return an unused copy, because Hypothesis may run an example again."""
        return replace(self, calls=0, quiet=False, interlude=None, seen=Counter())

    @property
    def asked(self) -> frozenset[str]:
        """Return the kinds of faults with a probability."""
        kinds = ("crash", "throttle", "lost_answer", "duplicate", "lose_record", "delay", *ASK_FAULTS)
        named = {kind for kind in kinds if getattr(self, kind) > 0}
        return frozenset(named if self.crash_at is None else named | {"crash"})

    def hits(self, kind: str, probability: float) -> bool:
        if self.quiet or probability <= 0 or self.random.random() >= probability:
            return False
        self.seen[kind] += 1
        return True

    def around(self, call: Callable[[], T]) -> T:
        """Make a port call, before or after which the process may die, and which the service may refuse."""
        if self.interlude is not None and self.hits("freeze", self.freeze):
            self.interlude()
        if self.dies_at is not None and self.clock is not None:
            self.clock.time += int(self.latency_s * SECOND)
            if self.clock.time > self.dies_at:
                self.seen["out of time"] += 1
                raise Crash
        if self.quiet:
            return call()  # not counted, because a crash here has no effect
        self.calls += 1
        here = self.crash_at == self.calls
        if (here and not self.crash_after) or self.hits("crash before", self.crash / 2):
            self.seen["crash"] += 1
            raise Crash
        if self.hits("throttle", self.throttle):
            raise Unavailable("throttled")
        try:
            return call()
        finally:  # answered or refused
            if (here and self.crash_after) or self.hits("crash after", self.crash / 2):
                self.seen["crash"] += 1
                raise Crash


@dataclass
class SimStore:
    """The event log; `on_wake` gets waking commits, like the stream. Commits are bytes in between: what a writer keeps of a commit,
    or a reader changes in one, changes nothing that is stored."""

    faults: Faults
    on_wake: Callable[[Commit], None]
    streams: dict[StreamId, list[Commit]] = field(default_factory=dict)
    spoiled: set[StreamId] = field(default_factory=set)
    """Streams that can no longer be read."""
    poison: set[str] = field(default_factory=set)
    """Executions whose log kills the control plane's process when it is read (out of memory, or of time)."""
    reads: Counter[StreamId] = field(default_factory=Counter)
    """Numbers of read commits, by stream."""
    read_bytes: int = 0
    measured: bool = False
    """If true, bytes are counted, which requires encoding everything that is read."""
    snapshots: dict[str, dict[int, Snapshot]] = field(default_factory=dict)
    bodies: dict[int, tuple[Commit, bytes]] = field(default_factory=dict)
    """The events of stored commits as bytes, by the identity of the commit."""

    def append(self, commit: Commit) -> None:
        self.faults.around(lambda: self._append(commit))

    def _append(self, commit: Commit) -> None:
        held = self.streams.setdefault(commit.stream, [])
        if commit.seq < len(held):
            if held[commit.seq].writer == commit.writer:
                return
            raise Conflict(f"{commit.stream} {commit.seq} is taken", self.decoded(held[commit.seq]))
        if commit.seq > len(held):
            raise CorruptLog(f"{commit.stream}: position {commit.seq} would leave a gap after {len(held) - 1}")
        body = encode_events(commit.events)
        stored = replace(commit, events=decode_events(body, LOG_VERSION))
        self.bodies[id(stored)] = stored, body
        held.append(stored)
        if commit.wake:
            self.on_wake(self.decoded(stored))
        if self.faults.hits("lost answer", self.faults.lost_answer):
            self._append(commit)

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        last = None if limit is None else after + 1 + limit
        return self.faults.around(lambda: self._seen(stream, self.streams.get(stream, [])[after + 1 : last]))

    def last(self, stream: StreamId) -> Commit | None:
        held = self.faults.around(lambda: self._seen(stream, self.streams.get(stream, [])[-1:]))
        return held[-1] if held else None

    def _seen(self, stream: StreamId, commits: list[Commit]) -> list[Commit]:
        if stream.run_id is None and stream.execution_id in self.poison:
            self.faults.seen["poison"] += 1
            raise Crash
        if stream in self.spoiled:
            raise CorruptLog(f"{stream} does not read")
        self.reads[stream] += len(commits)
        if self.measured:
            self.read_bytes += sum(len(encode_events(c.events, compress=True)) for c in commits)
        return [self.decoded(commit) for commit in commits]

    def decoded(self, commit: Commit) -> Commit:
        """Return a stored commit as a reader gets it."""
        return replace(commit, events=decode_events(self.body(commit), LOG_VERSION))

    def body(self, commit: Commit) -> bytes:
        """Return the events of a stored commit as bytes, of one that a test put there as it is now."""
        if id(commit) not in self.bodies:
            self.bodies[id(commit)] = commit, encode_events(commit.events)
        return self.bodies[id(commit)][1]

    def save_snapshot(self, snapshot: Snapshot) -> int:
        def save() -> None:
            held = self.snapshots.setdefault(snapshot.execution_id, {})
            if snapshot.seq not in held or held[snapshot.seq].reducer != snapshot.reducer:
                held[snapshot.seq] = snapshot

        self.faults.around(save)
        return len(json.dumps(snapshot.state))

    def load_snapshot(self, execution_id: str, upto: int | None = None) -> Snapshot | None:
        def load() -> Snapshot | None:
            held = self.snapshots.get(execution_id, {})
            newest = max((seq for seq in held if upto is None or seq <= upto), default=None)
            kept = None if newest is None else held[newest]
            text = "" if kept is None else json.dumps(kept.state)
            return None if kept is None else replace(kept, state=json.loads(text), size=len(text))

        return self.faults.around(load)


@dataclass(eq=False)
class OfVersion:
    """The log as code of reader version `version` sees it: it cannot read newer commits."""

    store: SimStore
    version: int

    def append(self, commit: Commit) -> None:
        try:
            self.store.append(replace(commit, v=self.version))
        except Conflict as conflict:
            if conflict.existing is not None:
                self._readable([conflict.existing])
            raise

    def _readable(self, commits: Sequence[Commit]) -> Sequence[Commit]:
        for commit in commits:
            if commit.v > self.version:
                self.store.faults.seen["newer log"] += 1
                raise NewerLog(f"a commit asks for reader version {commit.v}, this one is {self.version}")
        return commits

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        return self._readable(self.store.read(stream, after, limit))

    def last(self, stream: StreamId) -> Commit | None:
        last = self.store.last(stream)
        return last if last is None else self._readable([last])[0]

    def save_snapshot(self, snapshot: Snapshot) -> int:
        return self.store.save_snapshot(snapshot)

    def load_snapshot(self, execution_id: str, upto: int | None = None) -> Snapshot | None:
        return self.store.load_snapshot(execution_id, upto)


@dataclass
class Message:
    """A queued command, or a wake (`command` None) of an execution."""

    execution_id: str
    visible_at: int
    command: Command | None = None
    receives: int = 0


@dataclass
class SimQueue:
    """SQS: delivers at least once, in no order."""

    faults: Faults
    clock: SimClock
    messages: list[Message] = field(default_factory=list)
    letters: list[Message] = field(default_factory=list)
    """Dead letters."""
    sent: list[Command] = field(default_factory=list)
    loses_wakes: bool = False

    def send(self, commands: Sequence[Command], delay_s: int = 0) -> Sequence[Command]:
        return self.faults.around(lambda: self._send(commands, delay_s))

    def _send(self, commands: Sequence[Command], delay_s: int) -> Sequence[Command]:
        for command in commands:
            self.sent.append(command)
            for _ in range(2 if self.faults.hits("duplicate command", self.faults.duplicate) else 1):
                late = self.faults.random.uniform(0, 30) if self.faults.hits("late command", self.faults.delay) else 0
                at = self.clock.time + int((delay_s + late) * SECOND)
                self.messages.append(Message(command.execution_id, at, command))
        return []

    def wake(self, *executions: str, delay_s: int = 0) -> None:
        at = self.clock.time + delay_s * SECOND
        kept = () if self.loses_wakes else executions
        self.faults.around(lambda: self.messages.extend(Message(x, at) for x in kept))

    def backlog(self) -> Backlog:
        return Backlog({"default": Waiting(self.depth("default"))}, Waiting(), {})

    def depth(self, pool: str | None) -> int:
        visible = (m.command for m in self.messages if m.visible_at <= self.clock.time)
        return sum((None if c is None else c.pool) == pool for c in visible)


@dataclass
class SimResults:
    faults: Faults
    objects: dict[str, bytes] = field(default_factory=dict)

    def put(self, key: str, body: bytes, content_type: str = "application/json") -> Mapping[str, Any]:
        check_key(key)

        def put() -> Mapping[str, Any]:
            self.objects[key] = body
            digest = "sha256:" + sha256(body).hexdigest()
            return {"kind": "result_ref", "store": "s3", "key": key, "size": len(body), "checksum": digest}

        return self.faults.around(put)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        def get() -> bytes:
            if key not in self.objects:
                raise NotFound(key)
            return self.objects[key][start:end]

        return self.faults.around(get)

    def url(self, key: str) -> str:
        return f"sim://{key}"

    def writer(self, key: str, content_type: str = "application/json") -> ObjectWriter:
        return SimObjectWriter(self, key)


class SimObjectWriter:
    """`ObjectWriter` over `SimResults`: the faults are those of one put."""

    def __init__(self, results: SimResults, key: str) -> None:
        check_key(key)
        self._results, self._key, self._body = results, key, b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._body = b""

    def write(self, data: bytes) -> None:
        self._body += data

    def finish(self) -> Mapping[str, Any]:
        return self._results.put(self._key, self._body)


@dataclass
class SimGates:
    faults: Faults
    held: dict[str, Gate] = field(default_factory=dict)

    def gate(self, execution_id: str) -> Gate:
        return self.faults.around(lambda: self.held.get(execution_id, Gate()))

    def set_gate(self, execution_id: str, gate: Gate) -> None:
        self.faults.around(lambda: self.held.__setitem__(execution_id, gate))


def stale(command: Command, seq: int) -> Command:
    """Return the command for another position, like a late redelivery."""
    return replace(command, expected_seq=seq)
