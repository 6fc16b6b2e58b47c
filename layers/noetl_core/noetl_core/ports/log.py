"""The event log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from noetl_core.engine.records import Commit, Snapshot, StreamId


class CommitReader(Protocol):
    """The part of the event store that readers need."""

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        """See `EventStore.read`."""
        ...


class EventStore(Protocol):
    """The append-only event log. Reads are strongly consistent."""

    def append(self, commit: Commit) -> None:
        """Write `commit` at its position, or raise `Conflict`. It also succeeds when the position holds a commit of the same
        `writer`."""
        ...

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        """Return the commits of `stream` with `seq > after` in order, at most `limit` (None: all). Raises `CorruptLog` on a
        gap. A store may decode a commit only when it is taken from the sequence, and raise `CorruptLog` or `NewerLog` then."""
        ...

    def last(self, stream: StreamId) -> Commit | None:
        """Return the newest commit of `stream`, or None."""
        ...

    def save_snapshot(self, snapshot: Snapshot) -> int:
        """Store `snapshot` in addition to those of other positions, unless its position has one of the same reducer. Return the
        size of its state as JSON."""
        ...

    def load_snapshot(self, execution_id: str, upto: int | None = None) -> Snapshot | None:
        """Return the newest readable snapshot, at a position of at most `upto`, if it is set, with its `size`; None if there is
        none."""
        ...
