"""Caches of a process between two decisions on an execution: its state, data of recent boundaries, and when the next snapshot is
due."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from cachetools import FIFOCache, LRUCache

from noetl_core.engine.decide import Decision
from noetl_core.engine.dispatch.effects import SNAPSHOT_EVENTS, SaveSnapshot
from noetl_core.engine.needs import Need
from noetl_core.engine.records import Boundary, Snapshot
from noetl_core.engine.snapshots import snapshot
from noetl_core.engine.state import State
from noetl_core.log.history import snapshot_upto, state_from
from noetl_core.ports import EventStore

SNAPSHOT_EVERY: Final = 100
LARGE_STATE: Final = 256 * 1024
CACHED_STATES = 1_024
"""The most states of executions that a process keeps."""
CACHED_BOUNDARIES = 256
"""The most boundaries whose data a process keeps; each is within the inline limit."""


@dataclass(frozen=True, slots=True)
class SnapshotRule:
    """Determines when snapshots are stored."""

    every: int = SNAPSHOT_EVERY
    """The least number of commits between snapshots; a large state waits until the log since the last one has outgrown it."""
    commit_bytes: int = 512
    """The usual size of a routing commit: `every` counts in commits, a state is measured in bytes."""
    large: int = LARGE_STATE
    """The size in bytes from which loading a snapshot takes long."""

    def next_after(self, seq: int, size: int) -> int:
        """Return the position at which the log since a snapshot of that size is as large as the state: the next one is due there.
        So the cost and the size of all snapshots of an execution are proportional to its log."""
        return seq + max(self.every, size // self.commit_bytes)


RULE: Final = SnapshotRule()


class CachedStates:
    """States by execution, each at the position of the last decision of this process. Thread-safe."""

    def __init__(self, store: EventStore, rule: SnapshotRule = RULE) -> None:
        self._store, self.rule = store, rule
        self._lock = Lock()
        self._states: LRUCache[str, State] = LRUCache(CACHED_STATES)
        self._snapshots: LRUCache[str, tuple[int, int]] = LRUCache(CACHED_STATES)
        """Execution -> the position from which on the next snapshot is due, and how large the last one was."""
        self._seen: FIFOCache[tuple[Any, ...], Mapping[str, Any]] = FIFOCache(CACHED_BOUNDARIES)
        """Data of recent boundaries, by execution and need."""

    def get(self, execution_id: str) -> State | None:
        """Return the cached state of an execution, to be read before the next decision."""
        with self._lock:
            return self._states.get(execution_id)

    def take(self, execution_id: str, seen: int | None = None) -> tuple[State, bool]:
        """Return the cached state or a newly loaded one, and whether it is newly loaded. The caller owns it until `put`.

        `seen`: a position of the control stream that was written. Before the first snapshot is due, none is read.
        """
        with self._lock:
            state = self._states.pop(execution_id, None)
        if state is not None:
            return state, False
        snap = None if seen is not None and seen < self.rule.every else snapshot_upto(self._store, execution_id)
        if snap is not None:
            with self._lock:
                self._snapshots.setdefault(execution_id, (self.rule.next_after(snap.seq, snap.size), snap.size))
        return state_from(self._store, execution_id, snap), True

    def put(self, state: State) -> None:
        """Cache the state of a decision that is committed. The next decision then owns it, so read it before."""
        with self._lock:
            self._states[state.execution_id] = state

    def forget_taken_back(self) -> None:
        """Drop what was cached of commits that were taken back. Their states were not cached yet."""
        with self._lock:
            self._snapshots.clear()
            self._seen.clear()

    # --- data of boundaries ---------------------------------------------------------------------------------------------

    def remember(self, execution_id: str, boundaries: Sequence[Boundary]) -> None:
        """Cache the data of recent boundaries: guards of later steps read their results."""
        with self._lock:
            for b in boundaries:
                if not {"waits", "ctx_writes"} & b.event.data.keys():  # no result; a chunk may have written much
                    self._seen[(execution_id, "boundary", b.run_id, b.seq)] = b.event.data

    def remembered(self, execution_id: str, need: Need) -> Mapping[str, Any] | None:
        """Return the cached data of a boundary that a decision needs."""
        with self._lock:
            return self._seen.get((execution_id, *need))

    # --- snapshots ------------------------------------------------------------------------------------------------------

    def outgrown(self, decision: Decision) -> Iterator[SaveSnapshot]:
        """Return the effect to store a snapshot when the log since the last one has outgrown it, or, if that was large, at the
        end: then readers load the final state, not an obsolete one. Not when the decision has that effect already."""
        state = decision.state
        with self._lock:
            at, size = self._snapshots.get(state.execution_id, (self.rule.every, 0))
        due = size > self.rule.large if state.finished else state.seq >= at
        if due and len(decision.events) < SNAPSHOT_EVENTS:
            yield SaveSnapshot(snapshot(state))

    def save(self, snap: Snapshot) -> None:
        """Store a snapshot of a state, and remember when the next one is due."""
        size = self._store.save_snapshot(snap)
        with self._lock:
            self._snapshots[snap.execution_id] = self.rule.next_after(snap.seq, size), size
