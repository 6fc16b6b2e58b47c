"""The journal writes a run's stream for its worker: it buffers events, commits them, renews the lease with every commit, and
stops when another writer has taken the position (docs/architecture.md, "The way of one step")."""

from __future__ import annotations

from threading import RLock

from noetl_core.engine.fold.aggregates import RunAggregates
from noetl_core.engine.records import (
    Commit,
    LoopProgress,
    RunEvent,
    StreamId,
    Tally,
    count_takeovers_without_progress,
    envelopes_of,
)
from noetl_core.events.event import new, version_of
from noetl_core.events.runs import StepReleased
from noetl_core.ports import Clock, Conflict, EventStore, Unavailable
from noetl_core.values.instants import SECOND

LEASE_S = 60
"""Seconds for which a worker may be silent. Every commit renews the lease."""
FLUSH_EVERY_S = 1
"""Buffered events are committed at least this often."""
HEARTBEAT_S = 20
"""A run without events commits this often: a third of the lease."""
STATED_EVERY_S = 1
"""Aggregates of a loop in progress are stated at most this often (docs/decisions.md, "Aggregates are stated once a second")."""
MAX_BUFFERED = 2_000
"""The most events that are buffered, so that the memory of a busy loop stays constant."""
PAUSES_S = (0.1, 0.5)
"""Pauses before a failed commit is tried again; after the last one the queue delivers the command again."""


class Fenced(Exception):
    """Another writer holds our position: this worker was fenced or overtaken, and its outcome no longer counts."""


class Journal:
    """The stream of one activation. Thread-safe: the lease heartbeat commits while a task runs."""

    def __init__(
        self,
        store: EventStore,
        clock: Clock,
        stream: StreamId,
        seq: int,
        expires_at: int,
        deadline: int | None,
        before: Tally | None = None,
        aggregates: RunAggregates | None = None,
        stated: Commit | None = None,
        claimed: bool = False,
        most_buffered: int = MAX_BUFFERED,
    ) -> None:
        """`before` and `aggregates` are those of the stream before `seq`, and `stated` is its newest commit with aggregates."""
        self._store, self._clock, self._stream = store, clock, stream
        self._seq = self._first = seq
        self._most_buffered = most_buffered
        self._claimed = claimed
        """If true, the control stream has the worker's claim, so the first commit need not be written at once."""
        self._deadline = deadline
        self.expires_at = expires_at
        """The instant at which the log expires, in seconds; 0: never."""
        self._buffer: list[RunEvent] = []
        self._pending: Commit | None = None
        self.lock = RLock()
        self.flushed_at = clock.now()
        self.closed = self._released = False
        self.events = 0 if before is None else before.events
        """Number of envelopes in the stream, including those of earlier activations."""
        self._takeovers_without_progress = 0 if before is None else before.takeovers_without_progress
        self.aggregates = aggregates or RunAggregates()
        """Aggregates of the whole stream, including earlier activations."""
        self._stated = None if stated is None else stated.seq
        """The position of the newest commit with aggregates."""
        # Aggregates that an earlier activation has not written are written at once: the clocks of two workers are not compared.
        self._stated_at = clock.now() if stated is not None and stated.seq == seq - 1 else 0

    @property
    def seq(self) -> int:
        """The position the next commit will take."""
        return self._seq

    def put(self, event: RunEvent) -> None:
        with self.lock:
            self._buffer.append(event)
            self.events += envelopes_of(event)
            self.aggregates.observe(event)
            self._takeovers_without_progress = count_takeovers_without_progress(self._takeovers_without_progress, event)

    def due(self, now: int) -> bool:
        """Return whether the buffered events should be committed now."""
        held = len(self._buffer)
        return held >= self._most_buffered or (held > 0 and now - self.flushed_at >= FLUSH_EVERY_S * SECOND)

    def flush(self, *, heartbeat: bool = False) -> bool:
        """Commit the buffered events and renew the lease. With `heartbeat`, commit even when nothing is buffered. Returns
        whether it wrote. Raises `Fenced`."""
        with self.lock:
            self._unreleased()
            if self.closed or not (self._buffer or self._pending or heartbeat):
                return False
            self._commit(wake=False, leased=True)
            return True

    def close(self, *, asks: bool = False) -> None:
        """Commit the boundary event with everything that is buffered, wake the router, and give up the lease. `asks`: the
        worker will ask for the boundary to be routed. Raises `Fenced`."""
        with self.lock:
            self._unreleased()
            self._commit(wake=True, leased=False, asks=asks)

    def _unreleased(self) -> None:
        if self._released:
            raise Fenced(f"{self._stream} was released")

    def release(self, reason: str) -> None:
        """Commit the buffered events, record that the worker gives up the lease, and give it up. Nothing is written afterwards.
        Raises `Fenced`."""
        with self.lock:
            if self.closed or self._released:
                return
            self._released = True
            if self._claimed or self._seq > self._first or self._pending is not None:  # otherwise nothing was claimed
                self.put(new(StepReleased, self._clock.now(), reason=reason))
                self._commit(wake=False, leased=False)
            self.closed = True

    def _commit(self, *, wake: bool, leased: bool, asks: bool = False) -> None:
        """Write the buffered events. A commit that could not be written is kept unchanged, with its writer nonce, and is
        written first next time: if it was stored after all and only the answer was lost, the store recognises it by the
        nonce."""
        if self._pending is not None:
            pending = self._pending
            self._append(pending)
            if pending.wake or (not wake and not self._buffer):
                return
        now = self._clock.now()
        lease = now + LEASE_S * SECOND if leased else 0
        if leased and self._deadline is not None:
            lease = min(lease, self._deadline)
        events, self._buffer = tuple(self._buffer), []
        self._pending = Commit(
            stream=self._stream,
            seq=self._seq,
            ts=now,
            writer=self._clock.nonce(),
            events=events,
            wake=wake,
            lease_until=lease,
            expires_at=self.expires_at,
            v=version_of(events[-1:]),
            tally=self._tally(events, now, ends=not leased),
            asks=asks,
        )
        self._append(self._pending)

    def _tally(self, events: tuple[RunEvent, ...], now: int, *, ends: bool) -> Tally:
        """Return the tally of a commit. It has aggregates if the commit is the first with an ended iteration, if the newest
        aggregates are a second old, and if the activation `ends` with a boundary that has none."""
        so_far = self.aggregates
        aggregates = progress = None
        if so_far.ended and not (events and "aggregates" in events[-1].data):
            if self._stated is None or ends or not 0 <= now - self._stated_at < STATED_EVERY_S * SECOND:
                aggregates = so_far.so_far()
                self._stated, self._stated_at = self._seq, now
            else:
                progress = LoopProgress(self._stated, so_far.ended, so_far.failures, so_far.items)
        return Tally(self.events, self._takeovers_without_progress, aggregates, progress)

    def _append(self, commit: Commit) -> None:
        for pause in (*PAUSES_S, None):
            try:
                self._store.append(commit)
                break
            except Conflict as conflict:
                self.closed = True
                raise Fenced(str(conflict)) from conflict
            except Unavailable:
                if pause is None:
                    raise
                self._clock.sleep(pause)
        self._pending = None
        self.closed = commit.wake
        self._seq += 1
        self.flushed_at = commit.ts
