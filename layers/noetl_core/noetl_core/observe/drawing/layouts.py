"""Caches the layouts of playbooks' graphs. A layout depends on the text alone, so a process computes it once for each."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

if TYPE_CHECKING:
    from noetl_core.observe.drawing.layout import Places

MAX_ARCS: Final = 60_000
"""Maximum number of arcs in all layouts that a process keeps, some 500 bytes each."""


class Layouts:
    """Maps the digest of a playbook to the layout of its graph. Thread-safe."""

    def __init__(self) -> None:
        self._kept: LRUCache[str, Places] = LRUCache(MAX_ARCS, getsizeof=_arcs)
        self._lock = Lock()

    def __call__(self, digest: str, make: Callable[[], Places]) -> Places:
        """Return the layout of `digest`, which `make` computes."""
        with self._lock:  # concurrent callers do not compute the same layout
            found = self._kept.get(digest)
            if found is None:
                self._kept[digest] = found = make()
        return found


def _arcs(places: Places) -> int:
    """Return the cache size of a layout: the largest takes all of it."""
    return min(max(1, len(places.arcs)), MAX_ARCS)
