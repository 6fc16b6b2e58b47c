"""Caches decoded commits: a history is read page by page, and a page may end within a commit of thousands of events."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from cachetools import LRUCache

from noetl_core.engine.records import Commit, StreamId
from noetl_core.log.stored_commits import StoredCommits
from noetl_core.ports import CommitReader

MAX_EVENTS = 16_000
"""Maximum number of events in the cache. A commit that has more is alone there."""


class RecentCommits:
    """Implements `EventStore.read` with a cache.

    Commits never change; the store only reads commits after those in the cache. Thread-safe.
    """

    def __init__(self, store: CommitReader, most_events: int = MAX_EVENTS) -> None:
        self._store, self._most = store, most_events
        self._kept: LRUCache[tuple[StreamId, int], Commit] = LRUCache(most_events, getsizeof=self._events)
        self._lock = Lock()

    def read(self, stream: StreamId, after: int = -1, limit: int | None = None) -> Sequence[Commit]:
        """Return the commits after a position, as `EventStore.read`."""
        known = self._known(stream, after, limit)
        if limit is not None and len(known) >= limit:
            return known
        rest = self._store.read(stream, after=after + len(known), limit=None if limit is None else limit - len(known))
        items: list[tuple[Sequence[Commit], int]] = [(known, place) for place in range(len(known))]
        items += [(rest, place) for place in range(len(rest))]
        return StoredCommits(items, self._take)

    def _take(self, item: tuple[Sequence[Commit], int]) -> Commit:
        """Decode one commit of a page, and keep it."""
        commit = item[0][item[1]]
        self._keep(commit)
        return commit

    def _known(self, stream: StreamId, after: int, limit: int | None) -> list[Commit]:
        found: list[Commit] = []
        with self._lock:
            while limit is None or len(found) < limit:
                key = (stream, after + 1 + len(found))
                commit = self._kept.get(key)
                if commit is None:
                    return found
                found.append(commit)
        return found

    def _keep(self, commit: Commit) -> None:
        with self._lock:
            self._kept[commit.stream, commit.seq] = commit

    def _events(self, commit: Commit) -> int:
        return min(max(1, len(commit.events)), self._most)
