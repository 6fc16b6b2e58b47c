"""Writes the events of one activation to its journal, with secrets masked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from noetl_core.engine.records import Event, RunEvent
from noetl_core.events.event import Keys
from noetl_core.events.table import SAYS_MASKED
from noetl_core.expr import contains_secret, mask
from noetl_core.ports import Clock
from noetl_core.worker.claiming.journal import Journal
from noetl_core.worker.values.offload import RunValues

_VALUES: Final = frozenset({"result", "prev"})
"""Keys of payloads whose values may be large."""
_WRITES: Final = frozenset({"set_ctx", "set_iter"})
"""Keys whose values are mappings of such values."""


class Recorder:
    """Records the events of an activation. `values` knows whether values may contain secrets, and masks them."""

    def __init__(self, journal: Journal, clock: Clock, values: RunValues) -> None:
        self._journal, self._clock, self._values = journal, clock, values

    def record(self, kind: Callable[Keys, Any], /, *_: Keys.args, **data: Keys.kwargs) -> None:
        """Write an event of payload type `kind` (`events.runs`), with its secrets masked."""
        event: Any = Event(kind.__name__, self._clock.now(), data)
        self.put(event)

    def put(self, event: RunEvent) -> None:
        """Write an event with its secrets masked. An event from which a later worker continues is marked `masked` if it hides
        something."""
        if self._values.tainted and contains_secret(event.data):
            hidden = {"masked": True} if event.name in SAYS_MASKED else {}
            copy: Any = Event(event.name, event.ts, {**self._masked_data(event.data), **hidden})
            event = copy
        self._journal.put(event)

    def _masked_data(self, data: Any) -> dict[str, Any]:
        """Return the data of an event with its secrets masked. A large value that contains secrets is stored without them."""
        fields: dict[str, Any] = {}
        kept = self._values.masked
        for key, value in data.items():
            if key in _WRITES and isinstance(value, Mapping):
                fields[key] = {name: kept(part) for name, part in value.items()}
            elif key == "outcome":
                fields[key] = {name: kept(part) if name in _VALUES else mask(part) for name, part in value.items()}
            else:
                fields[key] = kept(value) if key in _VALUES else mask(value)
        return fields

    def masked(self, value: Any) -> Any:
        """Return `value` with its secrets masked."""
        return mask(value) if self._values.tainted else value
