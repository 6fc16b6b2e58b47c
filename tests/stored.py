"""Events as tests write and read them: by any name, with keys that no payload type has to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.engine.records import Event

Stored = Event[str, Mapping[str, Any]]
"""An event of which a test reads keys; those of every payload type are."""


def stored(name: str, ts: int, data: Mapping[str, Any]) -> Any:
    """An event, whatever it says."""
    return Event(name, ts, data)
