"""Events as tests write and read them: by any name, with keys that no payload type has to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl_core.engine.records import Commit, Event

Stored = Event[str, Mapping[str, Any]]
"""An event of which a test reads keys; those of every payload type are."""


def stored(name: str, ts: int, data: Mapping[str, Any]) -> Any:
    """An event, whatever it says."""
    return Event(name, ts, data)


def data_of(commits: Iterable[Commit], name: str) -> list[dict[str, Any]]:
    """Return the data of all events with that name."""
    found: list[dict[str, Any]] = []
    for commit in commits:
        events: Iterable[Stored] = commit.events
        found += [dict(event.data) for event in events if event.name == name]
    return found
