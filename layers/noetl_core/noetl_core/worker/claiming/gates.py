"""Reads of gates by a worker. An open gate is cached briefly, so that the next step of a chain need not read it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Lock

from cachetools import FIFOCache

from noetl_core.ports import Clock, Gate, Gates
from noetl_core.values.instants import SECOND

STANDS_S = 1
"""Seconds for which a cached open gate is used. A running pipeline would notice no earlier: it reads its gate with its periodic
commits, every second. Meanwhile a fenced run fails at its claim, and a paused execution runs at most one step more."""
REMEMBERED = 1024


ReadsGates = Callable[[Iterable[str]], Mapping[str, Gate]]
"""Reads the gates of several executions by one request."""


class RecentGates:
    """`Gates` over `gates`, with a cache: an open gate is used for `STANDS_S` seconds before it is read again. Thread-safe."""

    def __init__(self, gates: Gates, clock: Clock, several: ReadsGates | None = None) -> None:
        self._gates, self._clock, self._several = gates, clock, several
        self._lock = Lock()
        self._open: FIFOCache[str, int] = FIFOCache(REMEMBERED)
        """Execution -> when its gate was last read as open with no run stopped."""

    def gate(self, execution_id: str) -> Gate:
        now = self._clock.now()
        if self._is_open(execution_id, now):
            return Gate()
        gate = self._gates.gate(execution_id)
        self._keep(execution_id, gate, now)
        return gate

    def look_at(self, executions: Iterable[str]) -> None:
        """Read the gates of several executions by one request, for commands of one batch."""
        now = self._clock.now()
        ids = {execution_id for execution_id in executions if not self._is_open(execution_id, now)}
        if self._several is not None and len(ids) > 1:
            for execution_id, gate in self._several(ids).items():
                self._keep(execution_id, gate, now)

    def _is_open(self, execution_id: str, now: int) -> bool:
        with self._lock:
            read = self._open.get(execution_id)
        return read is not None and now - read < STANDS_S * SECOND

    def _keep(self, execution_id: str, gate: Gate, now: int) -> None:
        with self._lock:
            self._open.pop(execution_id, None)
            if gate == Gate():
                self._open[execution_id] = now

    def set_gate(self, execution_id: str, gate: Gate) -> None:
        with self._lock:
            self._open.pop(execution_id, None)
        self._gates.set_gate(execution_id, gate)
