"""Events of one activation on their way to its journal: what is secret is masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.engine.records import Event
from noetl_core.expr import contains_secret, mask
from noetl_core.ports import Clock
from noetl_core.worker.journal import Journal


class Recorder:
    """Writes what an activation has to say. `tainted`: whether secrets may be about - read from the keychain, or given by a tool.
    Until then nothing needs masking."""

    def __init__(self, journal: Journal, clock: Clock, *, tainted: bool) -> None:
        self._journal, self._clock = journal, clock
        self.tainted = tainted

    def record(self, name: str, data: Mapping[str, Any]) -> None:
        """Write an event as the log may show it: secrets masked."""
        self.put(Event(name, self._clock.now(), data))

    def put(self, event: Event) -> None:
        """As `record`, of an event already made. One that a successor goes on from says so when it hides something: `masked`."""
        if self.tainted and contains_secret(event.data):
            hidden = {"masked": True} if event.name in ("TaskProcessed", "LoopIterationCompleted") else {}
            event = Event(event.name, event.ts, {**mask(event.data), **hidden})
        self._journal.put(event)

    def masked(self, value: Any) -> Any:
        """`value` with its secrets masked."""
        return mask(value) if self.tainted else value
