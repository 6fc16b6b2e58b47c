"""Caches which playbooks this process has just registered or pinned, so that starts by the same text neither read nor write the
catalog."""

from __future__ import annotations

from threading import Lock
from typing import Final

from cachetools import LRUCache

from noetl_core.ports import PlaybookVersion
from noetl_core.values.instants import SECOND

KEPT: Final = 64
"""The most paths, and the most pinned texts, that a process caches."""


class RecentRegistrations:
    """The latest version of each path as this process knew it within the last `seconds`, and texts that it pinned in that time.

    Another process may have registered another text meanwhile. A start by the older text then runs as the version that this text
    has already, and does not become the latest version again: as if it had come before the other registration. That is safe,
    because versions never change, and an execution pins the version in its log. With 0 `seconds` nothing is cached. Thread-safe.
    """

    def __init__(self, seconds: float = 0) -> None:
        self._kept_for = int(seconds * SECOND)
        self._latest: LRUCache[str, tuple[int, PlaybookVersion]] = LRUCache(KEPT)
        self._pinned: LRUCache[str, tuple[int, PlaybookVersion]] = LRUCache(KEPT)
        self._lock = Lock()

    def latest(self, path: str, digest: str, now: int) -> PlaybookVersion | None:
        """Return the latest version of `path` if its content is `digest` and its triggers are installed; None if that is not
        known at `now` (microseconds)."""
        with self._lock:
            return self._fresh(self._latest.get(path), digest, now)

    def pinned(self, digest: str, now: int) -> PlaybookVersion | None:
        """Return the stored content of `digest`; None if it is not known at `now` (microseconds)."""
        with self._lock:
            return self._fresh(self._pinned.get(digest), digest, now)

    def registered(self, version: PlaybookVersion, at: int) -> None:
        """Cache a version that was the latest of its path at `at` (microseconds), and whose triggers are installed."""
        with self._lock:
            _, known = self._latest.get(version.path, (0, version))
            if known.version <= version.version:  # another thread may have registered a later one
                self._latest[version.path] = at, version
            self._pinned.pop(version.digest, None)

    def stored(self, version: PlaybookVersion, at: int) -> None:
        """Cache content that was pinned at `at` (microseconds)."""
        with self._lock:
            self._pinned[version.digest] = at, version

    def _fresh(self, entry: tuple[int, PlaybookVersion] | None, digest: str, now: int) -> PlaybookVersion | None:
        if entry is None or entry[1].digest != digest:
            return None
        return entry[1] if 0 <= now - entry[0] < self._kept_for else None
