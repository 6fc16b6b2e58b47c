"""Reads of gates by a worker. An open gate is cached briefly, so that the next step of a chain need not read it again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from threading import Lock

from noetl_core.instants import SECOND
from noetl_core.ports import Clock, Gate, Gates

STANDS_S = 1
"""How long a cached open gate is used. This is no later than a running pipeline would notice: it reads its gate with its periodic
commits, every second. Meanwhile a fenced run fails at its claim, and a paused execution runs at most one step more."""
REMEMBERED = 1024


ReadsGates = Callable[[Iterable[str]], Mapping[str, Gate]]
"""Reads the gates of several executions by one request."""


class RecentGates:
    """`Gates` over `gates`, with a cache: an open gate is used for `STANDS_S` seconds before it is read again. Thread-safe."""

    def __init__(self, gates: Gates, clock: Clock, several: ReadsGates | None = None) -> None:
        self._gates, self._clock, self._several = gates, clock, several
        self._lock = Lock()
        self._open: OrderedDict[str, int] = OrderedDict()
        """Execution -> when its gate was last read as open with no run stopped."""

    def gate(self, execution_id: str) -> Gate:
        now = self._clock.now()
        read = self._open.get(execution_id)
        if read is not None and now - read < STANDS_S * SECOND:
            return Gate()
        gate = self._gates.gate(execution_id)
        self._keep(execution_id, gate, now)
        return gate

    def look_at(self, executions: Iterable[str]) -> None:
        """Read the gates of several executions by one request, for commands of one batch."""
        now = self._clock.now()
        wanted = {e for e in executions if now - self._open.get(e, 0) >= STANDS_S * SECOND}
        if self._several is not None and len(wanted) > 1:
            for execution_id, gate in self._several(wanted).items():
                self._keep(execution_id, gate, now)

    def _keep(self, execution_id: str, gate: Gate, now: int) -> None:
        with self._lock:
            self._open.pop(execution_id, None)
            if gate == Gate():
                self._open[execution_id] = now
                while len(self._open) > REMEMBERED:
                    self._open.popitem(last=False)

    def set_gate(self, execution_id: str, gate: Gate) -> None:
        self._open.pop(execution_id, None)
        self._gates.set_gate(execution_id, gate)
