"""Where the graphs of playbooks are drawn. That depends on the text alone, so a process computes it once for each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from noetl_core.observe.layout import Places

MAX_ARCS: Final = 60_000
"""Arcs of all layouts that a process keeps, some 500 bytes each."""


class Layouts:
    """Maps the digest of a playbook to the layout of its graph. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Places] = OrderedDict()
        self._lock = Lock()

    def __call__(self, digest: str, make: Callable[[], Places]) -> Places:
        """Return the layout of `digest`, which `make` computes."""
        with self._lock:  # two that ask at the same time do not compute the same
            found = self._kept.pop(digest, None)
            self._kept[digest] = found = make() if found is None else found
            arcs = sum(len(each.arcs) for each in self._kept.values())
            while arcs > MAX_ARCS and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                arcs -= len(gone.arcs)
        return found
